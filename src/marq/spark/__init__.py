"""The pipelines, on Spark: the only importer of pyspark."""

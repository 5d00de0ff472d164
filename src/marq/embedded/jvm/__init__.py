"""Java, and the jars that the broker and Spark need."""

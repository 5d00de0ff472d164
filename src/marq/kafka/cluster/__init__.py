"""What a process has of a cluster: topics, offsets of groups, the catalog, counts."""

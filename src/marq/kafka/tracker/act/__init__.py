"""Act: performs what the fold of a hold-log partition found overdue, each exactly once."""

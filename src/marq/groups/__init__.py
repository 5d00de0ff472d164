"""Ordered groups, the pure part: config, keys, allocation, lock table, decisions. No I/O."""

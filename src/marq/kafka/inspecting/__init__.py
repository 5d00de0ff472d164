"""Looks at logs from outside any group: counts and dead letters."""

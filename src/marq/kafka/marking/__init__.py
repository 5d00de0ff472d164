"""Writes markers, and says when the log took them."""

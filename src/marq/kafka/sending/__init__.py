"""Sends messages, and says when the log has them."""

"""Polls, claims, commits, and hands out."""

"""Markers as values and as bytes, and the sets that they are made of."""

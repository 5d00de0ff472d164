"""The fold: what the records of one hold-log partition add up to, and what follows from it."""

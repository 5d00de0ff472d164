"""A message: what a user gives, what its headers say, and what a log holds of it."""

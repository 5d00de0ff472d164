"""The rules of marq, pure: no I/O, no clock, no randomness."""

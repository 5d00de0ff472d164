"""What this process has of each claim: a client's bookkeeping, without I/O and without a clock.

Locks, from the outside in: an inbox's, then a ledger's. Under a ledger's lock nothing is called
but what is in this folder. Times are the log's and come in as arguments.
"""

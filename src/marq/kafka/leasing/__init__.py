"""What this process has of each claim: the bookkeeping of a client."""

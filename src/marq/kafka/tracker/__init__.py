"""What the tracker does beside the fold: it acts, ticks and keeps the house."""

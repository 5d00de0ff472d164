"""What the catalog says: definitions of queues, how they change, and how they are written."""

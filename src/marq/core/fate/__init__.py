"""What becomes of a message: settled, redelivered, buried, expired."""

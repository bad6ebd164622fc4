"""What the service decides: which task runs where, and what follows when it has ended."""

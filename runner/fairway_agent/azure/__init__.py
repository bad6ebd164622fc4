"""Azure's services, as a node asks them by its own identity."""

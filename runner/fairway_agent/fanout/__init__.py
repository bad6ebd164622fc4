"""How one command runs once on every node of a task."""

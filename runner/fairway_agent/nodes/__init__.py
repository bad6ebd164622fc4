"""The ways to the nodes of a task, by what runs it."""

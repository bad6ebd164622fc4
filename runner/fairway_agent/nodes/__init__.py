"""How the nodes of a task are reached, by what runs it."""

"""Ways to run a command once on every node of a task."""

"""The node agent: files, environment and processes of tasks on their nodes."""

"""What the node agent does: files, environment and processes of tasks on their nodes."""

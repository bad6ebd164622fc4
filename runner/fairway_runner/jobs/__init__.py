"""Jobs: the file, its templates and sweep, and the script that they make."""

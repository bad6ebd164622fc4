"""Jobs: the file, its templates and sweep, and the script rendered from them."""

"""Rules on environment files."""

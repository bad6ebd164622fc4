"""Views of runs on a terminal."""

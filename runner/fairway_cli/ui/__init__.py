"""How runs look on a terminal."""

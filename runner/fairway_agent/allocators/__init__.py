"""Who may start now, and on which nodes."""

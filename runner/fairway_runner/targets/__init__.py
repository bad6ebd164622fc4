"""Where jobs can be sent."""

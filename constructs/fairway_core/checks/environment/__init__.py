"""Rules on an environment: what was asked for."""

"""Nodes that trust one another by OpenSSH."""

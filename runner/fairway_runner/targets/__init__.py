"""Targets: the places to which jobs can be sent."""

LOCAL = "local"
"""Name of the target that always exists: this machine."""

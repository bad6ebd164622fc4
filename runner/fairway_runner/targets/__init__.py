"""Targets: the places to which jobs can be sent."""

LOCAL = "local"
"""The name of the target that always exists: this machine."""

"""Hosts that are reached by ssh, all of them on this machine."""

"""Hosts that one reaches by ssh, all of them on this machine."""

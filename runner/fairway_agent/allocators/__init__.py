"""Allocators: decide which task may start now, and on which nodes."""

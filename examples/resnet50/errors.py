"""Errors that a user can fix."""


class UserError(Exception):
    """A mistake in the data, the settings or the checkpoint; its text says how to fix it."""

"""What a user can mend."""


class UserError(Exception):
    """A mistake in the data, the settings or the checkpoint; its text says how to mend it."""

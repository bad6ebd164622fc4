"""What the engines of a user's own clusters share: a connection, a shared folder, mirrored runs."""

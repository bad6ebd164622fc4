"""What the engines of one's own clusters share: a connection, a shared folder, mirrored runs."""

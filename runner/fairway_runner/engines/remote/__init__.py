"""Common part of engines for a user's own clusters: connection, shared folder, mirrored runs."""

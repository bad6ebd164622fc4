"""Common part of the engines for a user's own clusters: a connection, a shared folder, mirrored
runs."""

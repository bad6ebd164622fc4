"""What the service says and understands: HTTP, authentication, errors, queries and pages."""

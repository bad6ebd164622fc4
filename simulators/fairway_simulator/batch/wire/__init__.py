"""Words of the service on the wire: HTTP, authentication, errors, queries and pages."""

"""The service's wire protocol: HTTP, errors, queries and pages."""

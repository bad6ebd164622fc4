"""The service's operations, one module per kind of resource."""

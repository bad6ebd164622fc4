"""The service's operations, a module for each kind of resource."""

"""The API server: resources in a store, over https, as clients of Kubernetes know it."""

"""The engine for clusters of Kubernetes."""

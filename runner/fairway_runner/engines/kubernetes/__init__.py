"""The engine for Kubernetes clusters."""

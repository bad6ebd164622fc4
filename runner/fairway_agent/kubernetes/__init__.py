"""Programs that run in a Kubernetes cluster: in its head pod, and in the pods of tasks."""

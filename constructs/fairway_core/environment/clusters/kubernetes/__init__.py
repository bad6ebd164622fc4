"""Clusters whose jobs run on Azure Kubernetes Service: node pools, and the service itself."""

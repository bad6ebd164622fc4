"""Azure Kubernetes Service: the cluster, its node pools, and what Flux reads for it.

- `cluster` is the cluster itself: who gets to it, and who it is to Azure;
- `node_pool` is a pool of nodes of one size;
- `configuration` is what runs in it: manifests in a container, and Flux, which applies them.
"""

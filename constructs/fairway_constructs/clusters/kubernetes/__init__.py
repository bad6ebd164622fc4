"""Azure Kubernetes Service: the cluster, its node pools, and the manifests that Flux applies.

- `cluster` is the cluster itself: its users, and its identities in Azure;
- `node_pool` is a pool of nodes of one size;
- `configuration` is its content: manifests in a container, and Flux, which applies them.
"""

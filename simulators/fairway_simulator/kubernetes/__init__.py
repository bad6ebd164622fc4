"""A Kubernetes cluster on this machine: an API server, its controllers, and nodes that run pods.

The API server follows the published OpenAPI schemas and the observed behavior of a real control
plane (1.36.2); kubectl works with it. Pods are processes of this machine, in their own namespaces
if it allows that. The nodes are a plain client that works with any API server.
"""

from fairway_simulator.faults import Fault, Faults
from fairway_simulator.kubernetes.cluster import KubernetesCluster, default_nodes
from fairway_simulator.kubernetes.controllers.autoscaler import Pool
from fairway_simulator.kubernetes.kubelet.containers import missing
from fairway_simulator.kubernetes.kubelet.kubelet import Kubelet, NodeSpec

__all__ = [
    "Fault",
    "Faults",
    "Kubelet",
    "KubernetesCluster",
    "NodeSpec",
    "Pool",
    "default_nodes",
    "missing",
]

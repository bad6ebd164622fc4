"""A simulated cluster that kubectl can use."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from namespaces import Makers, Space

from fairway_simulator.kubernetes import KubernetesCluster, missing


@pytest.fixture(scope="session")
def _kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """A cluster of three nodes for all tests of a worker, each in its own namespace."""
    if lacking := missing():
        pytest.skip(lacking)
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesCluster(folder, backoff=0.1, restart_pause=0.1) as cluster:
        yield Space(cluster, "default")


@pytest.fixture
def space(_kubernetes: Space) -> Iterator[Space]:
    """A new namespace."""
    name = f"test-{secrets.token_hex(4)}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _kubernetes.create(made)
    found = Space(_kubernetes.cluster, name)
    found.wait("serviceaccount/default", "create")
    yield found
    found.cluster.faults.clear()
    _kubernetes.do("delete", "namespace", name, "--wait=false")


@pytest.fixture
def space_of() -> Any:
    """Returns the namespace of a cluster that a test has started itself."""
    return lambda cluster: Space(cluster, cluster.namespace)


@pytest.fixture
def cluster(space: Space) -> KubernetesCluster:
    """The simulated cluster."""
    return space.cluster


@pytest.fixture
def jobs(tmp_path: Path) -> Makers:
    """Makers of manifests."""
    return Makers(tmp_path)

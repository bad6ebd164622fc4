"""Clusters of engine `kubernetes` and their AKS cluster: accepted and refused settings."""

from pathlib import Path

import pytest
from environment_files import KEY, load

from fairway_core.checks import check_environment
from fairway_core.environment import Environment, Kubernetes, KubernetesNodes
from fairway_core.environment.clusters.kubernetes.cluster import SystemPool
from fairway_core.environment.clusters.kubernetes.node_pool import SpotPool
from fairway_core.findings import UserError

ND = (
    "{engine: kubernetes, size: Standard_ND96isr_H100_v5, nodes: {min: 1, max: 4}, "
    "mounts: [data], job_image: train:1}"
)
CPU = "{engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: train:1}"
HOME = "network: {private_endpoints: false}\naccess: {allowed: [203.0.113.0/24]}\n"


def _load(tmp_path: Path, cluster: str = ND, more: str = "", name: str = "nd") -> Environment:
    return load(
        tmp_path,
        f"name: lab\nlocation: westeurope\n{more}"
        "filesystems: {data: {kind: azure_files, gib: 1024, path: /data}}\n"
        f"clusters:\n  {name}: {cluster}\n",
    )


def _pool(environment: Environment, name: str = "nd") -> KubernetesNodes:
    return environment.node_pools[name]


def test_kubernetes_pool_has_default_cluster_and_no_ssh_keys(tmp_path: Path) -> None:
    environment = _load(tmp_path)
    assert environment.access.ssh_keys == (), "nobody logs in to nodes of AKS"
    assert environment.aks == Kubernetes()
    assert environment.aks.api_server == "private"
    pool = _pool(environment)
    assert (pool.node_range.min, pool.node_range.max, pool.nodes_of_a_job) == (1, 4, 4)
    assert pool.node_range.scales
    assert pool.offers_infiniband
    assert pool.has_local_disk
    assert pool.node_zones(2) == ["2"]
    assert pool.node_zones(None) is None
    assert not environment.machine_clusters


SSH = "{engine: ssh, size: Standard_D16s_v6, nodes: 1}"
GROUP = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers"
ACCOUNT = f"storage: {{existing: {GROUP}/Microsoft.Storage/storageAccounts/ours}}\n"
CLOSED = "fetch their system from the internet, which"
NAME = "cannot be the name of a node pool"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"cluster": SSH, "more": f"access: {{ssh_keys: ['{KEY}']}}\nkubernetes: {{}}\n"},
            "no cluster has `engine: kubernetes`",
        ),
        ({"name": "nd-spot"}, NAME),
        ({"name": "thirteenchars"}, NAME),
        ({"name": "system"}, NAME),
        ({"name": "systemtmp"}, NAME),
        ({"more": "network: {egress: none}\n"}, CLOSED),
        # Manifests need a container of their own.
        ({"more": ACCOUNT}, "Fairway creates none in an existing account"),
        ({"more": "storage: {containers: {cluster-configuration: {}}}\n"}, "a part of an Azure"),
    ],
)
def test_kubernetes_impossible_settings_are_refused(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        _load(tmp_path, **given)


@pytest.mark.parametrize(
    "more",
    [
        # A company's range, in which another network has what pods have here.
        "access: {allowed: [10.0.0.0/8]}\nnetwork: {address_space: 172.20.0.0/16}\n",
        "access: {allowed: [20.0.0.0/8]}\nkubernetes: {pod_range: 20.32.0.0/12}\n",
        'kubernetes: {quota: {services.loadbalancers: "0"}}\n',
        "kubernetes: {system: {nodes: {min: 2, max: 30}}}\n",
    ],
)
def test_kubernetes_settings_that_azure_takes_are_accepted(tmp_path: Path, more: str) -> None:
    assert _load(tmp_path, more=more).aks


@pytest.mark.parametrize(
    ("least", "change", "offers", "said"),
    [
        (0, "", False, "jobs on it get no InfiniBand"),
        # That AKS starts a node for InfiniBand is not verified.
        (0, ", infiniband: true", True, "it is not verified that AKS starts a node for InfiniBand"),
        (0, ", infiniband: false", False, ""),
        (1, ", infiniband: false", False, ""),
    ],
)
def test_kubernetes_pool_that_may_be_empty_needs_explicit_infiniband(
    tmp_path: Path, least: int, change: str, offers: bool, said: str
) -> None:
    loaded = _load(tmp_path, f"{ND.replace('min: 1', f'min: {least}')[:-1]}{change}}}")
    assert _pool(loaded).offers_infiniband is offers
    found = {each.id: each.message for each in check_environment(loaded)}
    assert said in found.get("infiniband-from-zero", "")
    assert ("infiniband-from-zero" in found) is bool(said)


def test_kubernetes_pool_keeps_zones_taints_and_labels(tmp_path: Path) -> None:
    pool = _pool(
        _load(
            tmp_path,
            CPU[:-1] + ", zones: [3, 1], labels: {team: vision}, "
            "taints: ['team=vision:NoSchedule', 'quiet:NoExecute']}",
        )
    )
    assert pool.node_zones(1) == ["1", "3"]
    assert pool.labels == {"team": "vision"}
    assert pool.tainted_keys == ("fairway.dev/pool", "team", "quiet")
    assert not pool.node_range.scales
    assert not pool.offers_infiniband
    assert not pool.has_local_disk


def test_kubernetes_system_pool_takes_size_and_nodes_of_its_section(tmp_path: Path) -> None:
    text = "kubernetes: {system: {size: Standard_D8s_v6, nodes: {min: 2, max: 4}}}\n"
    spec = _load(tmp_path, more=text).aks
    assert spec is not None
    assert spec.system.size == "Standard_D8s_v6"
    assert (spec.system.node_range.min, spec.system.node_range.max) == (2, 4)
    assert SystemPool().node_range.min == 2


@pytest.mark.parametrize("price", [0, float("inf"), float("nan"), 1e300])
def test_spot_price_of_nobody_is_refused(price: float) -> None:
    with pytest.raises(UserError, match="max_price"):
        SpotPool(max_price=price)


def test_kubernetes_public_api_server_requires_a_known_egress_address(tmp_path: Path) -> None:
    allowed = "kubernetes: {api_server: allowed}\n"
    assert _load(tmp_path, more=allowed + HOME).aks
    firewall = (
        "access: {allowed: [203.0.113.0/24]}\nnetwork:\n  egress: {next_hop: 10.0.0.4}\n"
        "  peerings: {hub: {network: /subscriptions/00000000-0000-0000-0000-000000000000/"
        "resourceGroups/hub/providers/Microsoft.Network/virtualNetworks/hub}}\n"
    )
    with pytest.raises(UserError, match="nodes could not reach the API server"):
        _load(tmp_path, more=allowed + firewall)


def test_kubernetes_refuses_more_nodes_than_addresses_of_subnet(tmp_path: Path) -> None:
    """A /21 has a subnet of 64 addresses for nodes, five of which Azure reserves. The system's two
    nodes have others beside them while the provider makes them anew, and the private API server
    has an address."""
    small = "network: {address_space: 10.40.0.0/21}\n"
    assert _load(tmp_path, CPU.replace("nodes: 2", "nodes: 54"), small)
    with pytest.raises(UserError, match=r"need 60 addresses, and 10\.40\.5\.128/26 has 59"):
        _load(tmp_path, CPU.replace("nodes: 2", "nodes: 55"), small)


def test_kubernetes_nodes_have_room_for_pods_while_system_nodes_are_made_anew(
    tmp_path: Path,
) -> None:
    text = "kubernetes: {{pod_range: 10.244.0.0/20, system: {{nodes: {}}}}}\n"
    assert _load(tmp_path, CPU, text.format(7)).aks
    with pytest.raises(UserError, match="the pods of 17 nodes do not fit"):
        _load(tmp_path, CPU.replace("nodes: 2", "nodes: 3"), text.format(7))


@pytest.mark.parametrize(("tier", "full"), [("Free", 1), ("Standard", 5)])
def test_kubernetes_refuses_more_nodes_than_its_tier_has(
    tmp_path: Path, tier: str, full: int
) -> None:
    """The second pool of the system, while the provider makes that anew, is not counted."""
    wide = (
        "network: {address_space: 10.0.0.0/9}\n"
        f"kubernetes: {{tier: {tier}, pod_range: 10.128.0.0/10}}\n"
    )
    pool = CPU.replace("nodes: 2", "nodes: 1000")
    rest = "".join(f"\n  p{number}: {pool}" for number in range(1, full))
    assert _load(tmp_path, CPU.replace("nodes: 2", "nodes: 998") + rest, wide)
    said = f"the pools have {full}001 nodes, and a cluster of `tier: {tier}` has {full}000 at most"
    with pytest.raises(UserError, match=said):
        _load(tmp_path, CPU.replace("nodes: 2", "nodes: 999") + rest, wide)

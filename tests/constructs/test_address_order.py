"""Addresses do not depend on the order of statements: two of each construct, in any order."""

import random
import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any

import pytest
from pydantic import TypeAdapter
from ruamel.yaml import YAML
from tests.constructs.test_components import own_classes
from tests.stacks.test_filesystems import KINDS

import fairway_constructs as az
from fairway_constructs.cdk import context_of
from fairway_constructs.filesystems.base import Site, from_section
from fairway_core.catalog import image, vm_size
from fairway_core.environment import AnyFileSystem, Schedule
from fairway_core.environment.filesystems.rules import dedicated_subnets
from fairway_core.environment.keys import NOBODYS_KEY

PRINCIPAL = "11111111-1111-1111-1111-111111111111"
ACCOUNT = (
    f"/subscriptions/{PRINCIPAL}/resourceGroups/hub/providers/Microsoft.Storage/storageAccounts/hub"
)
BOX = (
    f"/subscriptions/{PRINCIPAL}/resourceGroups/hub/providers/Microsoft.Compute/virtualMachines/box"
)

Statement = Callable[[az.Construct, str], object]

SPACE = IPv4Network("10.40.0.0/16")
SUBNET = az.SubnetRef("/subnet", SPACE, nodes=(SPACE,))
HUB = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub/providers"
    "/Microsoft.Network/virtualNetworks/hub"
)
H100 = "Standard_ND96isr_H100_v5"
PERSON = "11111111-2222-3333-4444-555555555555"


def _group(scope: az.Construct, name: str) -> az.Construct:
    """Returns a scope for constructs that a statement itself needs."""
    return az.Construct(scope, f"needs-{name}")


def _nodes(scope: az.Construct, name: str) -> dict[str, Any]:
    size, system = vm_size(H100), image("ubuntu-hpc-2404")
    identity = az.Identity(_group(scope, name), name)
    return {"size": size, "image": system, "subnet": SUBNET, "identity": identity}


def _pool(scope: az.Construct, name: str) -> None:
    account = az.BatchAccount(_group(scope, f"{name}-account"))
    az.BatchPool(scope, name, account=account, minimum=0, maximum=2, **_nodes(scope, name))


def _kubernetes(scope: az.Construct, name: str) -> az.KubernetesCluster:
    kubelet = _foundation(scope, f"{name}-foundation").kubelet
    return az.KubernetesCluster(scope, name, subnet=SUBNET, kubelet=kubelet)


def _foundation(scope: az.Construct, name: str) -> az.KubernetesSharedState:
    storage = az.Storage.from_id(_group(scope, f"{name}-st"), "storage", ACCOUNT)
    return az.KubernetesSharedState(scope, name, storage=storage, name="manifests")


def _network(scope: az.Construct, name: str) -> az.INetwork:
    subnets = {"compute": ("nodes", SPACE), "endpoints": ("e", IPv4Network("10.41.0.0/24"))}
    return az.Network.from_id(_group(scope, name), "network", HUB, subnets=subnets)


def _node_pool(scope: az.Construct, name: str) -> None:
    cluster = _kubernetes(_group(scope, name), name)
    pool = name.replace("kubernetesnode", "").replace("-", "")
    az.KubernetesNodePool(scope, pool, cluster=cluster, subnet=SUBNET, size=H100, nodes=2)


def _configuration(scope: az.Construct, name: str) -> None:
    inside = _group(scope, name)
    foundation = _foundation(inside, "foundation")
    az.KubernetesConfiguration(
        scope,
        name,
        cluster=_kubernetes(inside, "aks"),
        container=foundation.container,
        manifests={"jobs/namespace.yaml": "kind: Namespace"},
    )


def _scheduler(scope: az.Construct, name: str) -> az.SlurmScheduler:
    return az.SlurmScheduler(
        scope,
        name,
        partitions={"nd": az.SlurmPartition(size=H100, nodes=2)},
        scale_sets={"nd": "/scale-set"},
        shared_state=az.SlurmSharedState(scope, f"{name}-foundation", disk_gib=64),
        subnet=SUBNET,
        mounts=[],
    )


def _login(scope: az.Construct, name: str) -> None:
    inside = _group(scope, name)
    az.SlurmLoginNode(
        scope,
        name,
        size="Standard_D4s_v6",
        scheduler=_scheduler(inside, "scheduler"),
        shared_state=az.SlurmSharedState(inside, disk_gib=64),
        subnet=SUBNET,
        mounts=[],
    )


def _file_system(section: str) -> tuple[str, Statement]:
    """Returns the name of a file system's class and the statement that builds its section."""
    spec = TypeAdapter(AnyFileSystem).validate_python(YAML(typ="safe", pure=True).load(section))
    made = type(spec).__name__

    def statement(scope: az.Construct, name: str) -> object:
        inside = _group(scope, name)
        site = Site(
            network=az.Network(
                inside, address_space=SPACE, filesystems=dedicated_subnets({"": spec})
            ),
            node_roles=["compute"],
            storage=az.Storage(inside, containers=["datasets"]),
            storage_endpoints=(),
            monitored=False,
        )
        kind: type[az.FileSystem] = getattr(az, made)
        return from_section(kind, scope, name, spec, site)

    return made, statement


STATEMENTS: dict[str, Statement] = {
    **dict(_file_system(kind.section) for kind in KINDS.values()),
    "Alerts": lambda s, n: az.Alerts(
        s, n, monitoring=az.Monitoring(_group(s, n), emails=["a@example.com"])
    ).batch_account("/batch"),
    "Bastion": lambda s, n: az.Bastion(s, n, network=_network(s, n), addresses=SPACE),
    "BatchAccount": lambda s, n: az.BatchAccount(s, n),
    "BatchPool": _pool,
    "BatchUserSubscription": lambda s, n: az.BatchUserSubscription(s, n, service_principal=PERSON),
    "Budget": lambda s, n: az.Budget(s, n, amount=1, alerts=[50], emails=["a@example.com"]),
    "Cluster": lambda s, n: az.Cluster(s, n, size=H100, nodes=2, subnet=SUBNET),
    "FirewallEgress": lambda s, n: az.FirewallEgress(s, n, next_hop=SPACE[4]),
    "Gateway": lambda s, n: az.Gateway(s, n, size="Standard_D2s_v6", subnet=SUBNET),
    "ScaleSetCluster": lambda s, n: az.ScaleSetCluster(s, n, nodes=2, **_nodes(s, n)),
    "People": lambda s, n: az.People(s, n, object_id=PERSON).grant(
        "x", "Reader", on="/x", reason="reads"
    ),
    "Identity": lambda s, n: az.Identity(s, n).grant("x", "Reader", on="/x", reason="reads"),
    "IdleStop": lambda s, n: az.IdleStop(
        s, n, identity=az.Identity(_group(s, n), n), clusters={"box": BOX}
    ),
    "KubernetesCluster": _kubernetes,
    "KubernetesConfiguration": _configuration,
    "KubernetesSharedState": _foundation,
    "KubernetesNodePool": _node_pool,
    "Monitoring": lambda s, n: az.Monitoring(s, n, emails=["a@example.com"]),
    "NatEgress": lambda s, n: az.NatEgress(s, n),
    "Network": lambda s, n: az.Network(s, n, address_space=SPACE, private_endpoints=True),
    "Peering": lambda s, n: az.Peering(
        s, n, network=az.Network(_group(s, n), address_space=SPACE), remote_id=HUB
    ),
    "PrivateEndpoints": lambda s, n: az.PrivateEndpoints(s, n, network=_network(s, n)).connect(
        s, n, service="blob", resource_id="/account"
    ),
    "Registry": lambda s, n: az.Registry(s, n),
    "SingleVm": lambda s, n: az.SingleVm(s, n, **_nodes(s, n)),
    "SlurmSharedState": lambda s, n: az.SlurmSharedState(s, n, disk_gib=64),
    "SlurmLoginNode": _login,
    "SlurmScheduler": _scheduler,
    "Storage": lambda s, n: az.Storage(s, n, containers=["datasets"]),
    "Vault": lambda s, n: az.Vault(s, n).key("storage"),
    "StartStopSchedule": lambda s, n: az.StartStopSchedule(
        s, n, clusters={"box": (Schedule(stop="20:00"), BOX)}
    ),
}
PROGRAM = [(kind, f"{kind.lower()}-{which}") for kind in STATEMENTS for which in ("a", "b")]


def _addresses(order: list[int]) -> dict[str, str]:
    """Returns the path of the resource at each address, with the statements in the given order."""
    stack = az.EnvironmentStack(
        az.App(), "lab", location="westeurope", zone=2, ssh_keys=[NOBODYS_KEY]
    )
    for index in order:
        kind, name = PROGRAM[index]
        STATEMENTS[kind](stack, name)
    return context_of(stack).addresses.owners


def test_address_order_program_covers_every_construct() -> None:
    # A stack has only one output `targets`; the others are base classes.
    others = {"Targets", "TakesJobs", "FileSystem", "Service", "Principal"}
    found = {each.__name__ for each in own_classes() if not re.match("I[A-Z]", each.__name__)}
    assert found - others == set(STATEMENTS)


def _shuffled(seed: int) -> list[int]:
    order = list(range(len(PROGRAM)))
    random.Random(seed).shuffle(order)
    return order


@pytest.mark.parametrize(
    "orders",
    [
        # Reverses the order of any two statements.
        [list(reversed(range(len(PROGRAM))))],
        pytest.param([_shuffled(seed) for seed in range(4)], marks=pytest.mark.nightly),
    ],
    ids=["reversed", "shuffled"],
)
def test_address_order_of_statements_changes_no_address(orders: list[list[int]]) -> None:
    usual = _addresses(list(range(len(PROGRAM))))
    assert len(usual) > 300
    for order in orders:
        assert _addresses(order) == usual

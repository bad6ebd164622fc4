"""A user's program: a stack that jobs can run on and that the library's rules allow."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from inspect import Parameter, isclass, signature
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import refused
from environment_files import KEY
from pydantic import BaseModel
from tests.constructs.bindings.validator import validate
from tests.stacks.documents import only

import fairway_constructs as az
from fairway_constructs.azurerm.provider import AzurermProvider, Features
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.azurerm.virtual_network import Encryption, VirtualNetwork
from fairway_constructs.cdk import Token
from fairway_constructs.cdk.library import App as CdktfApp
from fairway_constructs.clusters.slurm.configuration import node_facts
from fairway_constructs.network_access import SubnetRef
from fairway_core.catalog import image, vm_size
from fairway_core.environment import Schedule
from fairway_core.environment.clusters.batch.pool import pool_image
from fairway_core.environment.filesystems.nfs_server import Disks
from fairway_core.findings import UserError
from fairway_core.light_models import LightModel
from fairway_core.slurm import Qos
from fairway_core.target import Target

TEAM = "11111111-2222-3333-4444-555555555555"
OWN = {"Environment": "mine"}
SPACE = "10.40.0.0/16"
PODS = IPv4Network("10.244.0.0/16")
A100, HB = "Standard_NC24ads_A100_v4", "Standard_HB120rs_v3"


def _lab(folder: Path, **more: Any) -> az.EnvironmentStack:
    app = az.App(outdir=str(folder / "lab.out"))
    own: dict[str, Any] = {"tags": {"owner": "ml-platform"}, "ssh_keys": [KEY], **more}
    return az.EnvironmentStack(app, "lab", location="westeurope", zone=2, **own)


@pytest.fixture
def lab(tmp_path: Path) -> az.EnvironmentStack:
    """Returns a program's stack to build in."""
    return _lab(tmp_path)


def _network(lab: az.Construct, **more: Any) -> az.Network:
    return az.Network(lab, address_space=SPACE, private_endpoints=True, **more)


def _written(lab: az.Stack) -> dict[str, Any]:
    """Returns the stack's Terraform, validated against the provider's schema."""
    app = lab.node.root
    app.synth()
    document: dict[str, Any] = json.loads(Path(app.outdir, "stacks/lab/cdk.tf.json").read_text())
    assert not list(validate(document))
    return document


def test_program_of_a_cluster_writes_target_storage_and_dependencies(
    lab: az.EnvironmentStack,
) -> None:
    net = _network(lab)
    data = az.Storage(lab, "data", containers=["datasets", "outputs"], network=net)
    home = az.NfsServer(
        lab, "home", subnet=net.subnet("storage"), path="/data", disks=Disks(count=4, gib=2048)
    )
    h100 = az.Cluster(lab, "h100", size=H100, nodes=2, network=net, mounts=[home])
    data.grant_read_write(h100)
    az.Targets(lab, [h100], storage=data)
    document = _written(lab)
    account, (provider,) = (
        only(document, "azurerm_storage_account"),
        document["provider"]["azurerm"],
    )
    assert account["shared_access_key_enabled"] is False
    assert provider["storage_use_azuread"] is True
    assert account["public_network_access_enabled"] is False
    assert provider["features"]["storage"]["data_plane_available"] is False
    connection = only(document, "azurerm_private_endpoint")["private_service_connection"]
    there = "${azurerm_storage_account.data_"
    assert connection["private_connection_resource_id"].startswith(there)
    waits = only(document, "azurerm_linux_virtual_machine_scale_set")["depends_on"]
    assert {each.partition(".")[0] for each in waits} >= {
        "azurerm_role_assignment",
        "azurerm_subnet_nat_gateway_association",
        "azurerm_subnet_network_security_group_association",
        "azurerm_virtual_machine_data_disk_attachment",
    }
    server = only(document, "azurerm_linux_virtual_machine")
    assert any("nat_gateway_association" in each for each in server["depends_on"])
    (record,) = document["output"]["targets"]["value"]
    target = Target.model_validate(record)
    assert (target.name, target.engine, target.nodes.max) == ("h100", "ssh", 2)
    assert target.mounts == {"home": "/data"}
    assert target.storage is not None
    assert target.storage.containers == ("datasets", "outputs")
    assert target.ssh is not None
    assert target.ssh.shared == "/data/fairway"
    assert target.gateway is not None, "its services have no public side"


def _break_a_rule(lab: az.EnvironmentStack) -> None:
    storage = az.Storage(lab, containers=["outputs"], network=_network(lab))
    storage.account.add_override("lifecycle.prevent_destroy", False)


def test_program_that_breaks_a_rule_is_refused_at_synthesis(lab: az.EnvironmentStack) -> None:
    _break_a_rule(lab)
    with pytest.raises(UserError) as caught:
        _written(lab)
    found = caught.value.findings
    assert {each.id for each in found} == {"unprotected-data"}
    assert all(each.message.startswith("lab: azurerm_storage_account") for each in found)
    assert found[0].hint


ETHERNET, NVLINK = "Standard_D16s_v6", "Standard_ND128isr_GB300_v6"


def _slurm_nodes(lab: az.EnvironmentStack, size: str) -> None:
    net = _network(lab)
    shared = az.SlurmSharedState(lab, disk_gib=64)
    shared.private_endpoints(net)
    own = {"shared_state": shared, "subnet": net.subnet("compute"), "mounts": []}
    partitions = {"p": az.SlurmPartition(size=size, nodes=2)}
    az.SlurmScheduler(lab, partitions=partitions, scale_sets={}, **own)


def _pool_nodes(lab: az.EnvironmentStack, size: str) -> None:
    net, account = _network(lab), az.BatchAccount(lab)
    account.private_endpoints(net)
    given: dict[str, Any] = {"size": vm_size(size), "image": pool_image(vm_size(size))}
    _pool(lab, account, net.subnet("compute"), **given)
    given["identity"] = az.Identity(lab, "alone")
    _pool(lab, account, net.subnet("compute"), name="alone", mpi=False, **given)


@pytest.mark.parametrize(
    ("build", "size", "id_", "path"),
    [
        (
            lambda s, size: _cluster(s, size=size, nodes=2),
            ETHERNET,
            "no-infiniband",
            "box/cluster-box",
        ),
        (lambda s, size: _cluster(s, size=size, nodes=2), NVLINK, "no-imex", "box/cluster-box"),
        (_slurm_nodes, ETHERNET, "no-infiniband", "slurm-scheduler/p"),
        (_pool_nodes, ETHERNET, "no-infiniband", "cluster-hb"),
    ],
)
def test_program_nodes_that_jobs_cannot_join_are_refused_at_synthesis(
    tmp_path: Path, build: Any, size: str, id_: str, path: str
) -> None:
    for ignored in ([], [id_]):
        lab = _lab(tmp_path, ignore_checks=ignored)
        build(lab, size)
        if ignored:
            _written(lab)
            continue
        with pytest.raises(UserError) as caught:
            _written(lab)
        assert [each.id for each in caught.value.findings] == [id_]
        assert path in caught.value.findings[0].message


def test_program_on_cdktf_app_shows_the_hint_of_a_rule(tmp_path: Path) -> None:
    app = CdktfApp(outdir=str(tmp_path / "lab.out"))
    _break_a_rule(az.EnvironmentStack(app, "lab", location="westeurope", zone=2))
    with pytest.raises(
        RuntimeError, match=r"lab: azurerm_storage_account.*\n  lifecycle: prevent_destroy"
    ):
        app.synth()


def test_program_own_subnet_is_closed_except_to_allowed_ranges(
    lab: az.EnvironmentStack,
) -> None:
    network = _network(lab)
    added = network.add_subnet("login", "10.40.200.0/24")
    assert (added.range, network.subnet("login")) == (IPv4Network("10.40.200.0/24"), added)
    network.allow_from(["198.51.100.0/24"], to="login", name="SshFromOffice", port=["22", "80"])
    resources = _written(lab)["resource"]
    groups = resources["azurerm_network_security_group"].values()
    (rules,) = [each["security_rule"] for each in groups if each["name"].endswith("login")]
    assert [(each["name"], each["priority"]) for each in rules] == [
        ("AllowSshFromOffice", 100),
        ("DenyEverythingElse", 4096),
    ]
    assert rules[0]["source_address_prefixes"] == ["198.51.100.0/24"]
    assert rules[0]["destination_port_ranges"] == ["22", "80"]
    assert "login-has-nat" in str(resources["azurerm_subnet_nat_gateway_association"])


GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub/providers"
VNET = f"{GROUP}/Microsoft.Network/virtualNetworks/hub-vnet"
# The spelling that `az` prints.
NODES = GROUP.replace("resourceGroups", "resourcegroups")
EXISTING = {
    "net": ("Network", VNET, {"subnets": {"compute": ("nodes", "10.1.0.0/20")}}),
    "vault": ("Vault", f"{GROUP}/Microsoft.KeyVault/vaults/Hub-KV", {}),
    "batch": (
        "BatchAccount",
        f"{GROUP}/Microsoft.Batch/batchAccounts/hubbatch",
        {"location": "West Europe"},
    ),
    "nodes": ("Identity", f"{NODES}/Microsoft.ManagedIdentity/userAssignedIdentities/hub-id", {}),
    "logs": ("Monitoring", f"{GROUP}/Microsoft.OperationalInsights/workspaces/hub-log", {}),
}


def _existing(lab: az.EnvironmentStack) -> dict[str, Any]:
    return {
        name: getattr(az, kind).from_id(lab, name, id_, **more)
        for name, (kind, id_, more) in EXISTING.items()
    }


def test_program_makes_pool_with_existing_resources(lab: az.EnvironmentStack) -> None:
    hub = _existing(lab)
    hub["vault"].grant_read(hub["nodes"])
    other = az.Vault.from_id(lab, "other", f"{GROUP}/Microsoft.KeyVault/vaults/other-kv")
    other.grant_read(hub["nodes"])
    hub["vault"].diagnostic_settings(hub["logs"])
    _pool(lab, hub["batch"], hub["net"].subnet("compute"), identity=hub["nodes"])
    document = _written(lab)
    pool = only(document, "azurerm_batch_pool")
    assert (pool["account_name"], pool["resource_group_name"]) == ("hubbatch", "hub")
    assert pool["network_configuration"]["subnet_id"] == f"{VNET}/subnets/nodes"
    assert hub["batch"].endpoint == "https://hubbatch.westeurope.batch.azure.com"
    assert hub["vault"].url == "https://hub-kv.vault.azure.net/"
    roles = document["resource"]["azurerm_role_assignment"].values()
    assert {each["scope"] for each in roles} == {EXISTING["vault"][1], other.id}
    (identity,) = document["data"]["azurerm_user_assigned_identity"].values()
    assert (identity["name"], identity["resource_group_name"]) == ("hub-id", "hub")
    sent = only(document, "azurerm_monitor_diagnostic_setting")
    assert sent["log_analytics_workspace_id"] == EXISTING["logs"][1]
    made = {type_.removeprefix("azurerm_") for type_ in document["resource"]}
    rest = {"resource_group", "terraform_data", "batch_pool", "role_assignment"}
    assert made == {*rest, "monitor_diagnostic_setting"}


@pytest.mark.parametrize(("kind", "more"), [(each[0], each[2]) for each in EXISTING.values()])
def test_program_refuses_id_of_another_resource_type(
    lab: az.EnvironmentStack, kind: str, more: dict[str, Any]
) -> None:
    account = f"{GROUP}/Microsoft.Storage/storageAccounts/hubst"
    with pytest.raises(UserError, match=f"`{account}` is not the id of a .*\n  az "):
        getattr(az, kind).from_id(lab, "wrong", account, **more)


def test_program_opens_new_subnet_of_existing_network_to_constructs(
    lab: az.EnvironmentStack,
) -> None:
    bare = az.Network.from_id(lab, "bare", VNET, subnets={})
    assert bare.add_subnet("first", "10.2.0.0/24").range == IPv4Network("10.2.0.0/24")
    hub = _existing(lab)["net"]
    subnet = hub.add_subnet("tools", "10.1.32.0/24")
    box = az.Cluster(lab, "box", size=A100, network=hub)
    hub.allow_from([box, subnet, "10.9.0.0/24"], to="tools", name="Web", port="443")
    document = _written(lab)
    for made in document["resource"]["azurerm_subnet"].values():
        assert (made["virtual_network_name"], made["resource_group_name"]) == ("hub-vnet", "hub")
    groups = document["resource"]["azurerm_network_security_group"].values()
    ((rule, last),) = [each["security_rule"] for each in groups if len(each["security_rule"]) > 1]
    sources = ["10.1.0.0/20", "10.1.32.0/24", "10.9.0.0/24"]
    assert rule["source_address_prefixes"] == sources
    assert last["access"] == "Deny"
    with pytest.raises(UserError, match="`compute` are its owner's\n  add them there"):
        hub.allow_from([box], to="compute", name="Web", port="443")
    with pytest.raises(UserError, match="`tools` has it"):
        hub.add_subnet("others", "10.1.32.0/25")


def test_program_machines_wait_for_subnet_and_depends_on(lab: az.EnvironmentStack) -> None:
    net = _network(lab)
    waited, account = az.Registry(lab), az.BatchAccount(lab)
    for each in (waited, account):
        each.private_endpoints(net)
    subnet = net.subnet("compute")
    az.Gateway(lab, size="Standard_D2s_v6", subnet=subnet, depends_on=[waited])
    _pool(lab, account, subnet, depends_on=[waited])
    document = _written(lab)
    for type_ in ("azurerm_batch_pool", "azurerm_linux_virtual_machine"):
        waits = " ".join(only(document, type_)["depends_on"])
        assert "azurerm_container_registry.registry" in waits
    assert "azurerm_subnet_nat_gateway_association" in " ".join(
        only(document, "azurerm_batch_pool")["depends_on"]
    )


@pytest.mark.parametrize("kind", ["ScaleSetCluster", "SingleVm", "BatchPool", "Slurm"])
def test_program_machines_wait_for_file_systems_and_roles(
    lab: az.EnvironmentStack, kind: str
) -> None:
    net = _network(lab)
    home = az.NfsServer(lab, "home", subnet=net.subnet("storage"), path="/data")
    storage = az.Storage(lab, containers=["outputs"], network=net)
    given: dict[str, Any] = {"subnet": net.subnet("compute"), "mounts": [home, _scratch(lab)]}
    node = {"size": HB, "image": "ubuntu-hpc-2404"}
    identity = az.Identity(lab, "nodes")
    if kind == "Slurm":
        slurm = az.SlurmSharedState(lab, disk_gib=64)
        given["shared_state"], identity = slurm, slurm.nodes
        slurm.private_endpoints(net)
        scheduler = az.SlurmScheduler(lab, partitions={}, scale_sets={}, **given)
        az.SlurmLoginNode(lab, "login", size="Standard_D4s_v6", scheduler=scheduler, **given)
        storage.grant_read_write(identity)
    elif kind == "BatchPool":
        account = az.BatchAccount(lab)
        account.private_endpoints(net)
        storage.grant_read_write(_pool(lab, account, identity=identity, **given))
    else:
        nodes = {"nodes": 2} if kind == "ScaleSetCluster" else {}
        made = getattr(az, kind)(lab, "n", identity=identity, **nodes, **node, **given)
        storage.grant_read_write(made)
    resources = _written(lab)["resource"]
    types = ("batch_pool", "linux_virtual_machine_scale_set", "linux_virtual_machine")
    machines = {k: v for each in types for k, v in resources.get(f"azurerm_{each}", {}).items()}
    waiting = [each for name, each in machines.items() if "nfs-home" not in name]
    assert len(waiting) == (2 if kind == "Slurm" else 1)
    for each in waiting:
        waits = {address.partition(".")[0] for address in each["depends_on"]}
        assert waits >= {
            "azurerm_role_assignment",
            "azurerm_virtual_machine_data_disk_attachment",
            "azurerm_user_assigned_identity",
            "azurerm_subnet_nat_gateway_association",
            "azurerm_subnet_network_security_group_association",
        }
        assert any("outputs" in address for address in each["depends_on"]), "the role of later"


def _scratch(lab: az.EnvironmentStack) -> az.Mount:
    """Returns a mount without a construct, which nothing can wait for."""
    return az.NfsExport(lab, "scratch", path="/scratch", **SERVER).mount


def _pool(lab: az.EnvironmentStack, account: Any, subnet: Any, **more: Any) -> az.BatchPool:
    given = {"size": vm_size(HB), "image": image("ubuntu-hpc-2404"), "minimum": 0, "maximum": 2}
    identity = more.pop("identity", None) or az.Identity(lab, "pool")
    own: dict[str, Any] = {"account": account, "subnet": subnet, "identity": identity}
    return az.BatchPool(lab, more.pop("name", "hb"), **own, **{**given, **more})


def test_program_grants_roles_to_people_like_identities(lab: az.EnvironmentStack) -> None:
    net = _network(lab, bastion=True)
    batch, storage = az.BatchAccount(lab), az.Storage(lab, containers=["outputs"], network=net)
    assert batch.private_endpoints(net) == batch.private_endpoints(net)
    box = az.Cluster(lab, "box", size=A100, network=net)
    team = az.People(lab, "team", object_id=TEAM)
    guest = az.People(lab, "guest", object_id=TEAM.replace("1", "6"), principal_type="User")
    beside = az.Construct(lab, "other")
    az.use_resource_group(
        beside, environment="other", location="westeurope", zone=2, ssh_keys=[KEY]
    )
    other = az.Cluster(beside, "box", size=A100, network=net)
    assert net.bastion is not None
    for nodes in ([box], [other]):
        net.bastion.grant_connect(team, nodes)
        storage.grant_read(team)
    finding = refused(lambda: storage.grant_read_write(team), "is the role `Storage Blob Data R")
    assert finding.id == "role-taken"
    refused(lambda: team.grant("outputs", "Reader", on="/x", reason=""), "on another")
    batch.grant_submit(team)
    batch.grant_read(guest)
    roles = _written(lab)["resource"]["azurerm_role_assignment"].values()
    of_team = [each for each in roles if each["principal_id"] == team.principal_id]
    assert {each["principal_type"] for each in of_team} == {"Group"}
    assert not any("skip_service_principal_aad_check" in each for each in of_team)
    sees = "Connects to nodes through the bastion, and must see"
    assert sorted((each["role_definition_name"], each["description"]) for each in of_team) == [
        ("Azure Batch Data Contributor", "People submit jobs"),
        ("Reader", f"{sees} the bastion for that"),
        ("Reader", f"{sees} the nodes of box for that"),
        ("Reader", f"{sees} the nodes of other/box for that"),
        ("Storage Blob Data Reader", "People read the container outputs without a key"),
    ]
    (of_guest,) = (each for each in roles if each["principal_id"] == guest.principal_id)
    assert of_guest["principal_type"] == "User"
    assert of_guest["role_definition_name"] == "Azure Batch Account Reader"


def test_program_writes_targets_of_every_kind_of_cluster(lab: az.EnvironmentStack) -> None:
    net = _network(lab, pods=PODS)
    subnet = net.subnet("compute")
    assert subnet.nodes == (subnet.range, net.subnet("kubernetes").range), "they mount alike"
    home = az.NfsServer(lab, "home", subnet=net.subnet("storage"), path="/data")
    storage = az.Storage(lab, containers=["outputs"], network=net)
    slurm, batch = az.SlurmSharedState(lab, disk_gib=64), az.BatchAccount(lab)
    for service in (slurm, batch):
        service.private_endpoints(net)
    spec: dict[str, Any] = {
        "size": vm_size(HB),
        "image": image("ubuntu-hpc-2404"),
        "subnet": subnet,
        "identity": az.Identity(lab, "nodes"),
        "mounts": [home],
    }
    mounted: dict[str, Any] = {"shared_state": slurm, "subnet": subnet, "mounts": [home]}
    scheduler = az.SlurmScheduler(
        lab,
        partitions={"hb": az.SlurmPartition(size=HB, nodes=16)},
        scale_sets={"hb": "/scale-set"},
        **mounted,
    )
    az.SlurmLoginNode(lab, "login", size="Standard_D4s_v6", scheduler=scheduler, **mounted)
    own = az.KubernetesSharedState(lab, storage=storage, name="manifests")
    pods: dict[str, Any] = {"subnet": net.subnet("kubernetes")}
    pods["cluster"] = az.KubernetesCluster(lab, kubelet=own.kubelet, **pods)
    jobs: dict[str, Any] = {"job_image": "team.azurecr.io/jobs:1", "mounts": [home]}
    clusters: list[az.TakesJobs] = [
        az.ScaleSetCluster(lab, "pair", nodes=2, **spec),
        az.SingleVm(lab, "box", **spec),
        scheduler.partition("hb"),
        _pool(lab, batch, subnet, mounts=[home], name="many"),
        az.KubernetesNodePool(lab, "t4", size="Standard_NC4as_T4_v3", nodes=2, **pods, **jobs),
    ]
    gateway = az.Gateway(lab, size="Standard_D2s_v6", subnet=net.subnet("management"))
    az.Targets(lab, clusters, storage=storage, gateway=gateway)
    node = az.SlurmNode(
        partition="hb",
        scheduler=scheduler.address,
        vault="https://v/",
        client_id="c",
        packages=scheduler.cluster.packages,
        facts=node_facts(az.vm_size(HB), [home.mount]),
    )
    of_slurm = az.ScaleSetCluster(lab, "hb", nodes=0, externally_scaled=True, slurm=node, **spec)
    with pytest.raises(UserError, match=r"`hb` by their scheduler\n  pass `scheduler.partition"):
        of_slurm.target()
    with pytest.raises(UserError, match="on `hb`: nodes that run jobs together need a folder"):
        scheduler.partition("hb", mounts=[])
    document = _written(lab)
    found = [Target.model_validate(each) for each in document["output"]["targets"]["value"]]
    named = {each.name: each.engine for each in found}
    assert list(named) == ["pair", "box", "hb", "many", "t4"]
    assert list(named.values()) == ["ssh", "ssh", "slurm", "batch", "kubernetes"]
    for each in found:
        assert each.mounts == {"home": "/data"}
        assert each.gateway is not None
        assert "gateway-nic" in each.gateway.host
    partition = found[2].slurm
    assert partition is not None
    assert "login-nic" in partition.host, "people log in there, and not at the scheduler"
    assert found[2].nodes.max == 16
    cluster = only(document, "azurerm_kubernetes_cluster")
    assert "kubelet" in cluster["kubelet_identity"]["client_id"]


def test_program_file_systems_have_interfaces_of_verified_modules(lab: az.EnvironmentStack) -> None:
    net = _network(lab, filesystems=["netapp", "lustre"])
    vault = az.Vault(lab)
    vault.private_endpoints(net)
    agent, key = az.Identity(lab, "agent"), vault.customer_managed_key
    home = az.AzureFiles(lab, "home", path="/home", customer_managed_key=key("home"))
    home.private_endpoints(net)
    data = az.NfsServer(
        lab,
        "data",
        subnet=net.subnet("storage"),
        path="/data",
        customer_managed_key=key("data"),
        managed_identities=[agent],
    )
    volume = az.NetApp(lab, "volume", path="/volume", tib=4, subnet=net.subnet("netapp"))
    fast = az.Lustre(lab, "fast", path="/lustre", tib=48, subnet=net.subnet("lustre"))
    monitoring = az.Monitoring.from_id(lab, "logs", EXISTING["logs"][1])
    team = az.RoleAssignment(
        role_definition_id_or_name="Reader", principal_id=TEAM, description="Looks"
    )
    services: list[Any] = [home, data, volume, fast]
    for each in services:
        each.role_assignments({"team": team})
    for each in services:
        each.diagnostic_settings(monitoring)
    for each in (data, volume, fast):
        with pytest.raises(UserError, match="has no `private_endpoints`\n  leave the call out"):
            each.private_endpoints(net)
    document = _written(lab)
    resources = document["resource"]
    looks = {
        each["scope"].split(".")[0].removeprefix("${azurerm_")
        for each in resources["azurerm_role_assignment"].values()
        if each["role_definition_name"] == "Reader"
    }
    machines = {"storage_account", "linux_virtual_machine"}
    assert looks == machines | {"netapp_volume", "managed_lustre_file_system"}
    encryption = only(document, "azurerm_disk_encryption_set")
    assert encryption["auto_key_rotation_enabled"] is True
    assert encryption["key_vault_key_id"].endswith("keys/data")
    disks = resources["azurerm_managed_disk"].values()
    assert all("azurerm_disk_encryption_set." in each["disk_encryption_set_id"] for each in disks)
    account = only(document, "azurerm_storage_account")
    assert account["customer_managed_key"]["key_vault_key_id"].endswith("keys/home")
    (identity,) = only(document, "azurerm_linux_virtual_machine")["identity"]["identity_ids"]
    assert "agent" in identity
    sent = {
        each["name"].removeprefix("lab-diag-"): (
            each["target_resource_id"].partition("}")[2],
            [log["category"] for log in each.get("enabled_log", ())],
            [metric["category"] for metric in each.get("enabled_metric", ())],
        )
        for each in resources["azurerm_monitor_diagnostic_setting"].values()
    }
    assert sent == {
        "files-home": ("/fileServices/default", ["StorageDelete"], []),
        "nfs-data": ("", [], ["AllMetrics"]),
        "netapp-volume": ("", ["ANFFileAccess"], ["AllMetrics"]),
        "lustre-fast": ("", ["AmlfsAuditEvent"], ["AllMetrics"]),
    }


H100 = "Standard_ND96isr_H100_v5"
# Like cdktf's token for a value that only Terraform knows: any argument accepts it.
TOKEN: Any = SimpleNamespace(
    creation_stack=(), id="/k", version=None, upgrades=None, mode="BatchService"
)
# A number that only Terraform knows, as cdktf represents it.
LATER: Any = -8.1e298
SLURM: dict[str, Any] = dict.fromkeys(("scale_sets", "shared_state", "subnet", "mounts"), TOKEN)
AKS: dict[str, Any] = {"subnet": TOKEN, "kubelet": TOKEN}
POOL: dict[str, Any] = {"subnet": TOKEN, "cluster": TOKEN, "nodes": 2}


def _takers() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yields constructors and methods of each class of the library, and its functions."""
    for name in az.__all__:
        found = getattr(az, name)
        if not isclass(found):
            yield name, found
            continue
        # Models check their arguments themselves, and resources theirs as they take them.
        if issubclass(found, LightModel | BaseModel | az.Resource | az.DataSource):
            continue
        for method, each in vars(found).items():
            function = getattr(each, "__func__", each)
            if hasattr(function, "__wrapped__") and method != "visit":
                yield f"{name}.{method}".removesuffix(".__init__"), function


def test_program_arguments_of_wrong_type_are_refused_by_every_construct() -> None:
    """The error is never Python's or pydantic's own: it names the argument and its line."""
    wrong, count = object(), 0
    for taker, function in _takers():
        parameters = {
            name: each
            for name, each in signature(function).parameters.items()
            if each.kind is not Parameter.VAR_POSITIONAL
        }
        needed = [name for name, each in parameters.items() if each.default is Parameter.empty]
        for name, each in parameters.items():
            if each.annotation in (Parameter.empty, "object"):  # `self`, or any value
                continue
            given = {**dict.fromkeys(needed, TOKEN), name: wrong}
            with pytest.raises(UserError) as caught:
                function(**given)
            (finding,) = caught.value.findings
            assert finding.message.startswith(f"`{name}` of {taker} takes `"), finding.message
            assert finding.path.rpartition(".")[2] == name
            assert finding.hint
            assert finding.location is not None
            assert finding.location.file == __file__
            count += 1
    assert count > 300


def test_program_dataclasses_are_frozen_and_check_arguments() -> None:
    found = [each for each in (getattr(az, name) for name in az.__all__) if is_dataclass(each)]
    assert len(found) > 20
    for each in found:
        if issubclass(each, LightModel):
            continue
        assert each.__dataclass_params__.frozen, each  # type: ignore[attr-defined]  # an attribute set by Python
    first = az.SubnetRef("id", IPv4Network("10.1.0.0/24"))
    changeless = (first, az.NodeRange(min=0, max=1), az.Disks(count=4), az.Qos(priority=1))
    for each in (*changeless, Encryption(enforcement="AllowUnencrypted")):
        name, kind = next(iter(vars(each))), type(each).__name__
        with pytest.raises(UserError, match=rf"`{name}` of {kind} .*\n.* {kind}\({name}="):
            setattr(each, name, getattr(each, name))
    with pytest.raises(UserError, match="`range` of SubnetRef takes `IPv4Network"):
        az.SubnetRef("id", "10.1.0.0/24")  # type: ignore[arg-type]


def test_program_models_take_arguments_by_name() -> None:
    with pytest.raises(UserError, match=r"by name\n  write Disks\(kind=…, count=…, gib=…, "):
        az.Disks(4, gib=2048)  # type: ignore[misc]
    with pytest.raises(UserError, match=r"by name\n  write NodeRange\(min=…, max=…\)"):
        az.NodeRange(1)  # type: ignore[misc, call-arg]


@pytest.mark.parametrize("wrong", [-1, math.nan, [-1], {"of": -1}], ids=str)
def test_program_arguments_out_of_bounds_are_refused_by_every_construct(wrong: Any) -> None:
    """A number that Azure cannot use is refused at its line, before anything is built."""
    faults = []
    for taker, function in _takers():
        parameters = signature(function).parameters
        if "self" in parameters and function.__module__.startswith("fairway_core."):
            continue  # what takes them checks their bounds
        needed = [
            name
            for name, each in parameters.items()
            if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        ]
        for name, each in parameters.items():
            # Implementations of a cdktf interface cannot be recognized.
            takes_anything = re.search("_empty|object|ITerraformDependable", str(each.annotation))
            if takes_anything or each.kind is Parameter.VAR_POSITIONAL:
                continue
            try:
                function(**{**dict.fromkeys(needed, TOKEN), name: wrong})
            except UserError as error:
                (finding,) = error.findings
            except (AttributeError, LookupError, TypeError, ValueError):
                faults.append(f"`{name}` of {taker}")
                continue
            assert finding.id in ("bad-argument", "wrong-argument"), (taker, name)
            assert name in finding.path.rpartition("/")[2].split("."), (taker, name)
    assert not faults


class Location(str):
    """A string class of a program that has the name of a type of the library."""

    __slots__ = ()


OFFICE = ["198.51.100.0/24"]
CLIENTS = SubnetRef("/subnet", IPv4Network("10.40.0.0/17"))
NODE: dict[str, Any] = {"size": H100, "image": image("ubuntu-hpc-2404")}
NODE |= {"subnet": CLIENTS, "identity": TOKEN}
HOME: dict[str, Any] = {"type": "nfs", "options": "rw", "source": "s:/home"}
SERVER: dict[str, Any] = {"host": "nfs.example.com", "export": "/", "mbps": 100}
SUBNETS = {
    "compute": (f"{VNET}/subnets/nodes", "10.1.0.0/20"),
    "storage": (f"{VNET}-two/subnets/files", "10.2.0.0/20"),
}


def _cluster(lab: az.Construct, **more: Any) -> az.Cluster:
    return az.Cluster(lab, "box", **{"size": "Standard_D4s_v6", "subnet": CLIENTS, **more})


def _lustre(lab: az.EnvironmentStack) -> None:
    group = az.Construct(lab, "flat")
    az.use_resource_group(group, environment="flat", location="westus")
    az.Lustre(group, "fast", tib=48, path="/lustre", subnet=CLIENTS)


def _importing(lab: az.EnvironmentStack, container: str) -> None:
    storage = az.Storage(lab, containers=["raw"])
    blobs = az.BlobImport(storage=storage, container=container, service_principal=TEAM)
    az.Lustre(lab, "fast", tib=48, path="/lustre", subnet=CLIENTS, blob_import=blobs)


def _mounting(lab: az.EnvironmentStack, name: str, path: str) -> None:
    """Builds nodes with /data and another file system."""
    home = az.NfsExport(lab, "home", path="/data", **SERVER)
    beside = az.Construct(lab, "beside")
    _cluster(lab, mounts=[home, az.NfsExport(beside, name, path=path, **SERVER)])


def _aks(lab: az.EnvironmentStack, **more: Any) -> az.KubernetesCluster:
    return az.KubernetesCluster(lab, subnet=CLIENTS, kubelet=az.Identity(lab, "kubelet"), **more)


def _allow(lab: az.EnvironmentStack, **more: Any) -> None:
    """Adds two rules, the second with these arguments."""
    net = az.Network(lab, address_space=SPACE)
    rule: dict[str, Any] = {"sources": OFFICE, "to": "management", "port": "443"}
    net.allow_from(**rule, name="Web")
    net.allow_from(**{**rule, "name": "New", **more})


def _many_rules(lab: az.EnvironmentStack) -> None:
    net = az.Network(lab, address_space=SPACE)
    net.add_subnet("tools", "10.40.200.0/24")
    rule: dict[str, Any] = {"sources": OFFICE, "to": "tools", "port": "443"}
    net.allow_from(**rule, name="First")
    group = net.security_groups["tools"]
    first, last = group.given("security_rule")
    group.set_argument("security_rule", [*399 * [first], last])
    net.allow_from(**rule, name="Last")
    net.allow_from(**rule, name="More")


def _stack(**more: Any) -> az.EnvironmentStack:
    return az.EnvironmentStack(az.App(), "b", **{"location": "eastus", **more})


# Mistakes with parts of their findings, in the form `PATH [ID] MESSAGE HINT`.
MISTAKES: list[tuple[Any, str]] = [
    # Contradictory or incomplete arguments.
    (
        lambda lab: az.SlurmScheduler(
            lab, accounting=False, qos={"fast": Qos(priority=9)}, partitions={}, **SLURM
        ),
        "Slurm keeps accounts and qualities of service in its database",
    ),
    (lambda s: az.SlurmScheduler(s, idle=5, partitions={}, **SLURM), "at least a minute"),
    (lambda s: az.KubernetesCluster(s, version="1", **AKS), "`1` is not a minor version"),
    (lambda s: _aks(s, api_server="allowed"), "allowed [ … open to every address"),
    (lambda s: _aks(s, api_server="allowed", allowed=["10.0.0.0/8"]), "allowed ["),
    (lambda s: _aks(s, pod_range="10.40.0.0/16"), "pod_range [ … the subnet's 10.40.0.0/17"),
    (lambda s: _aks(s, service_range="10.244.0.0/16"), "service_range [ … the pods'"),
    (lambda s: _aks(s, service_range="20.32.0.0/12"), "service_range [ … a public range"),
    (lambda s: _aks(s, pod_range="172.30.0.0/16"), "pod_range [ … AKS does not take"),
    (lambda s: az.KubernetesNodePool(s, "n", size=H100, zones=[1, 2], **POOL), "zones"),
    (lambda s: az.KubernetesNodePool(s, "system", size=HB, **POOL), "name [ … belongs to AKS"),
    (lambda s: az.KubernetesNodePool(s, "My-Pool", size=HB, **POOL), "name ["),
    (lambda s: az.Cluster(s, "h", size=H100), "[no-subnet] … `h` has no network"),
    (lambda s: az.Targets(s, []), "clusters [ … name a cluster"),
    (
        lambda s: [az.Targets(each, [_cluster(each)]) for each in (s, az.Construct(s, "beside"))],
        "[id-taken] … the stack `lab` has an output `targets` already",
    ),
    (lambda s: az.Targets(s, [_cluster(s, nodes=2)]), "[no-target] … pass `mounts=` with"),
    (
        lambda s: [az.Targets(s, [each]) for each in 2 * [_cluster(s)]],
        "[id-taken] … name all of its clusters in one `Targets`",
    ),
    (lambda s: az.Targets(s, 2 * [_cluster(s)]), "clusters [ … two targets are called `box`"),
    (
        lambda s: az.Targets(s, [az.KubernetesNodePool(s, "t4", size=HB, **POOL)]),
        "[no-target] … pass `job_image=`",
    ),
    (
        lambda s: _pool(s, TOKEN, CLIENTS, mounts=[az.Mount(name="h", path="/home", **HOME)]),
        "a pool cannot mount `/home`",
    ),
    (lambda s: _mounting(s, "work", "/data/home"), "mounts [ … inside each other"),
    (lambda s: _mounting(s, "work", "/data"), "mounts [ … inside each other"),
    (lambda s: _mounting(s, "home", "/home"), "mounts [ … two are called `home`"),
    (lambda s: az.NfsServer(s, "h", path="/a", subnet=CLIENTS), "clients [ … nobody could"),
    (lambda s: az.NetApp(s, "h", path="/a", tib=4, subnet=CLIENTS), "clients [ … nobody could"),
    (lambda _: az.SlurmPartition(size=HB, nodes=101), "nodes ["),
    (lambda s: az.Network.from_subnets(s, "n", SUBNETS), "subnets [ … of several networks"),
    (lambda s: _cluster(s, ssh_keys=[KEY]), "it is the stack's: EnvironmentStack(…, ssh_keys=…)"),
    # Calls that Python or pydantic would refuse in words of their own.
    (lambda _: az.Packages("apt"), "Packages: too many positional"),  # type: ignore[misc]
    (lambda _: az.HomeDirectories(path="/home"), "HomeDirectories: got an unexpected"),  # type: ignore[call-arg]
    (lambda _: az.Qos(preempts="all"), "preempts [wrong-argument] `preempts` of Qos takes"),  # type: ignore[arg-type]
    (lambda s: az.Resource(s, "a", {}, dependson=[]), "did you mean `depends_on`"),  # type: ignore[call-arg]
    (lambda s: ResourceGroup(s, "a", nam="b", location="c"), "did you mean `name`"),  # type: ignore[call-arg]
    (lambda _: Encryption(enforce="a"), "did you mean `enforcement`"),  # type: ignore[call-arg]
    # Assignments that would change nothing.
    (lambda s: setattr(_network(s), "tags", OWN), 'Network has no `tags` … az.Tags.of(…).add("'),
    (lambda s: setattr(s, "tags", OWN), 'EnvironmentStack has no `tags` … az.Tags.of(…).add("'),
    (lambda s: _network(s).virtual_network.tags.update(OWN), "{**resource.tags_input, …}"),  # type: ignore[attr-defined]
    (lambda s: az.Aspects.of(s).add(5), "`int` is no aspect … derive its class from az.Aspect"),  # type: ignore[arg-type]
    # Values of the wrong form.
    (lambda _: az.vm_size(5), "name ["),  # type: ignore[arg-type]
    (lambda _: az.image(None), "name ["),  # type: ignore[arg-type]
    (lambda s: az.use_resource_group(s, environment="b", location="East US"), "location ["),
    (lambda s: az.use_resource_group(s, environment="b", location="westus", zone=True), "zone ["),
    (lambda s: az.Tags.of(s).add("a?b", "c"), "a?b ["),
    (lambda s: az.Tags.of(s).add("Environment", "c"), "Environment [ … Fairway sets the tag"),
    (lambda s: az.Budget(s, amount=5, alerts=[80, 50], emails=["a@b.org"]), "alerts ["),
    (lambda s: az.Budget(s, amount=5, alerts=[50], emails=["me"]), "emails ["),
    (lambda s: az.Monitoring(s, emails=["a@b.org"], workspace_id=VNET), "workspace_id ["),
    (lambda s: az.Monitoring(s, emails=[]), "emails ["),
    (lambda s: az.Network(s, address_space=SPACE, admins=["me"]), "admins ["),
    (
        lambda s: az.AzureFiles(s, "home", path="/home", subnets=[VNET]),
        "subnets [ … network.subnet(",
    ),
    (lambda s: az.Registry(s, retention_days=400), "lab/registry.retention_days [bad-argument]"),
    (lambda s: az.Registry(s, allowed=["10.0.0.1/8"]), "allowed ["),
    (lambda s: az.Vault(s).customer_managed_key("a_b"), "name ["),
    (lambda s: az.Registry(s, ""), "[bad-id]"),
    (lambda s: az.Registry(s, "2nd"), "lab/2nd [bad-id] … azurerm_container_registry.2nd"),
    (lambda s: az.Registry(s, s.azure.resource_group), "[bad-id]"),
    (lambda s: az.NfsExport(s, "", path="/a", host="a.b", export="/", mbps=1), "[bad-id]"),
    (lambda _: _stack(location=Location("Europe")), "location ["),
    (lambda _: _stack(tags={"a?": "b"}), "a? ["),
    (lambda _: _stack(tags=OWN), "Environment ["),
    (lambda _: az.EnvironmentStack(az.App(), "Lab Two", location="eastus"), "id ["),
    (lambda _: az.EnvironmentStack(az.App(), "..", location="eastus"), "id ["),
    (lambda _: _stack(ignore_checks=["unprotected-dat"]), "[unknown-check]"),
    (lambda _: _stack(ssh_keys=["-----BEGIN OPENSSH PRIVATE KEY-----"]), "[bad-argument]"),
    (lambda _: _cluster(_stack()), "[no-ssh-key] … its stack has none"),
    (
        lambda s: az.IdleStop(s, identity=TOKEN, clusters={"box": VNET}),
        f"clusters [ … `{VNET}` is not the id of a VM or of a scale set",
    ),
    (
        lambda s: az.StartStopSchedule(s, clusters={"box": (Schedule(stop="20:00"), "box")}),
        "clusters [ … `box` is not the id of a VM or of a scale set",
    ),
    (lambda _: _stack(zone=9), "[wrong-argument]"),
    (lambda _: _stack(location="westeurop"), "[unknown-region]"),
    (lambda _: _stack(resource_group="hub"), "[bad-argument]"),
    # Rules and subnets that Azure would refuse.
    (lambda s: _allow(s, name="Web"), "lab/network/Web.name ["),
    (lambda s: _allow(s, name="a b"), "lab/network/a b.name ["),
    (lambda s: _allow(s, sources=[]), "lab/network/New.sources ["),
    (lambda s: _allow(s, port=[]), "lab/network/New.port ["),
    (_many_rules, "[many-rules] … has 400 rules already"),
    (lambda s: _network(s).add_subnet("t", "10.40.200.0/30"), "addresses [ … too small"),
    (lambda s: _network(s).add_subnet("t", "10.40.0.0/24"), "[bad-subnet] … `compute` has it"),
    (lambda s: _network(s).add_subnet("t", "10.41.0.0/24"), f"[bad-subnet] … free in {SPACE}"),
    (
        lambda s: _network(s, bastion=True).add_subnet("t", "10.40.152.0/24"),
        "[bad-subnet] … `bastion` has it",
    ),
    (lambda s: az.Network(s, address_space="10.0.0.0/24"), "cannot be cut into"),
    (lambda s: az.Network(s, address_space="8.8.0.0/16"), "a public range"),
    (lambda s: az.Network(s, address_space="172.16.0.0/16"), "which InfiniBand uses inside"),
    (lambda s: _existing(s)["net"].add_subnet("t", "172.16.9.0/24"), "addresses [ … InfiniBand"),
    (
        lambda s: az.Network.from_subnets(
            s, "n", {"compute": (f"{VNET}/subnets/a", "224.0.0.0/9")}
        ),
        "subnets.compute [ … which Azure takes for no virtual network",
    ),
    (
        lambda s: az.KubernetesCluster(
            s, kubelet=TOKEN, subnet=SubnetRef("/s", IPv4Network("172.30.0.0/24"))
        ),
        "subnet [ … which AKS does not take",
    ),
    (
        lambda s: az.SingleVm(s, "n", accept_terms=True, **NODE),
        "image `ubuntu-hpc-2404` has no terms to accept leave it out",
    ),
    (
        lambda s: az.Network(
            s, address_space=SPACE, egress=az.Firewall(next_hop=IPv4Address("10.40.0.4"))
        ),
        "the network's own range",
    ),
    (
        lambda s: az.Network(s, address_space=SPACE, pods=IPv4Network("10.0.0.0/8")),
        f"pods [ … overlaps the network's {SPACE}",
    ),
    (lambda s: az.Network(s, address_space=SPACE, filesystems=["lustr"]), "mean `lustre`"),
    (lambda s: _network(s).subnet("storge"), "did you mean `storage`"),
    (lambda s: az.Storage(s, containers=["Data_1"]), "not a valid name for a storage"),
    (
        lambda s: az.Storage(s, containers=["code"], expire_days={"cod": 3}),
        "unknown container `cod`",
    ),
    (lambda s: _importing(s, "row"), "unknown container `row`"),
    (lambda s: _lustre(s), "`fast` needs a zone, and its stack has none give the stack one"),
    # Hints to type something else for a wrong type.
    (lambda s: az.Network(s, address_space=SPACE, egress="natt"), "did you mean `nat`"),
    (lambda _: _stack(ssh_keys=KEY), "`ssh_keys` of EnvironmentStack takes"),
    (
        lambda s: az.ScaleSetCluster(s, "p", nodes=2, **{**NODE, "size": 5}),
        'write "Standard_ND96isr_',
    ),
    (lambda s: az.ScaleSetCluster(s, "p", nodes=2, **{**NODE, "image": "u"}), "unknown image `u`"),
    (lambda s: _cluster(s, size="Standard_D4s_v"), "did you mean `Standard_D4s_v"),
    (lambda s: az.Network(s, address_space="rub"), "`rub` is not an IPv4 range write it as"),
    (
        lambda s: az.Network(s, address_space=SPACE, pods="10.244.0.0/16"),
        "takes `IPv4Network | None`, not the text `10.244.0.0/16` write ipaddress.IPv4Network",
    ),
    (lambda s: az.Storage(s, containers="abc"), "not the text `abc` write a list"),
    (lambda s: az.Storage(s, containers=(n for n in "a")), "not a generator write a list"),
    (lambda s: az.Tags.of(s).add("a", 5), 'value [ … takes `str`, not the number 5 write "5"'),
    (lambda s: _cluster(s, nodes=LATER), "takes `int`, not a value that only Terraform will"),
    (lambda s: az.Storage(s, containers=["abc", 5]), "not a list of `int` and `str` write"),
    (lambda s: az.NfsServer(s, "d", subnet="x", path="/d"), 'network.subnet("compute")'),
    (lambda s: az.Storage(s, containers=[], replicaton="ZRS"), "did you mean `replication"),
    (lambda s: az.Storage(s, containers=[], replication="ZSR"), "did you mean `ZRS`?"),
    (
        lambda s: az.Network.from_subnets(s, "net", {"compute": ("id", "10.1.0.1/16")}),
        "`10.1.0.1/16` does not start at its network's address did you mean `10.1.0.0/16`?",
    ),
    (lambda s: az.Network(s), "[unknown-argument] … Network: missing a required"),
]


@pytest.mark.parametrize(("make", "said"), MISTAKES)
def test_program_mistake_is_reported_at_its_argument_and_line(
    lab: az.EnvironmentStack, make: Any, said: str
) -> None:
    finding = refused(lambda: make(lab))
    found = f"{finding.path} [{finding.id}] {finding.message} {finding.hint}"
    assert all(part in found for part in said.split(" … ")), found
    assert not re.search(r"`[a-z_]+:[ `]|`(access|network.existing|resource_group)\.", found), (
        "keys of a file"
    )
    assert finding.location is not None
    assert finding.location.file == __file__


@pytest.mark.parametrize("port", ["99999", "0", "-1", "abc", "443-80", "1-2-3", "", "80,443"])
def test_program_refuses_invalid_port(lab: az.EnvironmentStack, port: str) -> None:
    net = az.Network(lab, address_space=SPACE)
    for ports in (port, ["443", port]):
        finding = refused(lambda: net.allow_from(OFFICE, to="compute", name="W", port=ports))  # noqa: B023
        assert finding.path == "lab/network/W.port"


def test_program_deny_rule_of_a_subnet_keeps_the_last_priority(lab: az.EnvironmentStack) -> None:
    net = az.Network(lab, address_space=SPACE)
    for number in range(3):
        net.allow_from(OFFICE, to="management", name=f"Rule{number}", port="80")
    numbers = [
        each["priority"] for each in net.security_groups["management"].given("security_rule")
    ]
    assert numbers == [*sorted(set(numbers[:-1])), 4096]


@pytest.mark.parametrize("made", [az.Component, az.Resource, AzurermProvider])
def test_program_construct_without_scope_id_or_stack_is_refused(
    lab: az.EnvironmentStack, made: Any
) -> None:
    arguments: dict[Any, Any] = {az.Component: {}, az.Resource: {"attributes": {}}}
    own = type("Own", (made,), {"TYPE": "azurerm_own"})
    more = arguments.get(made, {"features": Features()})
    with pytest.raises(UserError, match="is a SimpleNamespace, and no construct"):
        own(SimpleNamespace(), id="own", **more)
    if made is AzurermProvider:
        return
    app = lab.node.root
    with pytest.raises(UserError, match=r"^the id of \w+ in lab is empty"):
        own(lab, id="", **more)
    with pytest.raises(UserError, match="the app itself is no stack"):
        own(app, id="own", **more)
    with pytest.raises(UserError, match="beside is in no stack"):
        own(az.Construct(app, "beside"), id="own", **more)


def test_program_resource_without_type_or_arguments_is_refused(lab: az.EnvironmentStack) -> None:
    class Untyped(az.Resource):
        pass

    class Own(az.Resource):
        TYPE = "azurerm_own"

    assert refused(lambda: Untyped(lab, "own", {}), "Untyped does not say").id == "no-type"
    nothing: Any = None
    refused(lambda: Own(lab, "own", nothing), "the arguments of Own are nothing")
    for number, wrong in enumerate((Path("a"), {1}, [math.nan])):
        refused(lambda: Own(lab, f"own{number}", {"a": wrong}), "`a` of azurerm_own")  # noqa: B023
    Own(lab, "tokens", {"a": Token.as_any("${b}"), "c": Token.as_list(["d"])})


def test_program_tags_differing_only_in_case_are_one_tag(lab: az.EnvironmentStack) -> None:
    az.Network(lab, address_space=SPACE)
    for name, value in (("Owner", "somebody else"), ("CostCenter", "1"), ("costcenter", "2")):
        az.Tags.of(lab).add(name, value)
    tags = only(_written(lab), "azurerm_virtual_network")["tags"]
    assert (tags["owner"], tags["CostCenter"]) == ("somebody else", "2")
    assert not {"Owner", "costcenter"} & {*tags}


def test_program_tags_beyond_azure_limits_are_refused(lab: az.EnvironmentStack) -> None:
    for number in range(14):
        az.Tags.of(lab).add(f"tag{number}", "x")
    az.Storage(lab, containers=["outputs"], network=_network(lab))
    with pytest.raises(UserError, match="too many for the DNS zone") as caught:
        _written(lab)
    assert {each.id for each in caught.value.findings} == {"azure-tags"}


def test_program_app_creates_output_folder_and_parents(tmp_path: Path) -> None:
    az.App(outdir=tmp_path / "build/lab.out")
    assert (tmp_path / "build/lab.out").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/lab\.out: Not a directory"):
        az.App(outdir=str(tmp_path / "file/lab.out"))


@pytest.mark.parametrize("other", ["", "other"])
def test_program_duplicate_names_are_refused_only_within_one_group(
    lab: az.EnvironmentStack, other: str
) -> None:
    beside = az.Construct(lab, "beside")
    if other:
        az.use_resource_group(beside, environment=other, location="westeurope")
    for scope in (lab, beside):
        az.Vault(scope, allowed=["203.0.113.0/24"])
    if other:
        _written(lab)
        return
    with pytest.raises(UserError, match=r"azurerm_key_vault\.\w+ has the name `lab-kv") as caught:
        _written(lab)
    assert {each.id for each in caught.value.findings} == {"name-taken"}


def test_program_stacks_referring_to_each_other_are_refused(lab: az.EnvironmentStack) -> None:
    app = lab.node.root
    data = az.EnvironmentStack(app, "data", location="westeurope", environment="lab", role="data")
    net = _network(lab, bastion=True)
    az.Storage(data, containers=["outputs"], network=net)
    assert net.bastion
    net.bastion.grant_connect(az.People(data, "team", object_id=TEAM))
    az.Output(lab, "beside", value=data.azure.resource_group)
    finding = refused(app.synth, "refer to each other")
    assert "`People`" in finding.hint


def test_program_stacks_with_duplicate_id_are_refused(lab: az.EnvironmentStack) -> None:
    """The second stack would silently overwrite the first."""
    app = lab.node.root
    az.EnvironmentStack(az.Construct(app, "beside"), "lab", location="westeurope")
    refused(app.synth, "two stacks are called `lab`: lab and beside/lab")


@pytest.mark.parametrize(
    ("more", "subscriptions", "taken"),
    [
        ({}, 1, "key_vault resource_group storage_account user_assigned_identity"),
        ({"role": "b"}, 1, "key_vault storage_account user_assigned_identity"),
        ({}, 2, "storage_account"),
        ({"role": "b", "ignore_checks": ["name-taken"]}, 1, ""),
    ],
)
def test_program_stacks_with_duplicate_azure_names_are_refused(
    lab: az.EnvironmentStack, more: dict[str, Any], subscriptions: int, taken: str
) -> None:
    app, own = lab.node.root, {"allowed": OFFICE}
    second = az.EnvironmentStack(app, "b", location="westeurope", environment="lab", **more)
    for number, stack in enumerate((lab, second)):
        subscription = TEAM.replace("1", str(number % subscriptions))
        stack.node.find_child("azurerm").add_override("subscription_id", subscription)
        az.Vault(stack, **own)
        az.Storage(stack, containers=["outputs"], account="contosodata", **own)
        # Each in a new group, and both in an existing one.
        shared = az.Construct(stack, "shared")
        group = f"/subscriptions/{TEAM}/resourceGroups/shared"
        az.use_resource_group(shared, environment="lab", location="westeurope", existing=group)
        for scope in (stack, shared):
            az.Identity(scope, "own")
        # Only Terraform knows whether these names differ.
        az.Registry(stack, **own).registry.name = "lab${random_pet.own.id}"
    if not taken:
        app.synth()
        return
    with pytest.raises(UserError, match="lab/azurerm_") as caught:
        app.synth()
    found = sorted(each.path.partition(".")[0] for each in caught.value.findings)
    assert found == [f"azurerm_{each}" for each in taken.split()]
    assert {each.id for each in caught.value.findings} == {"name-taken"}


@pytest.mark.parametrize(
    ("name", "value", "rule", "hint"),
    [
        ("dns_server", ["10.40.0.4"], "no-argument", "did you mean `dns_servers`?"),
        ("ddos", {"a": 1}, "no-argument", "for an attribute of your own write `_ddos`"),
        ("dns_servers", "10.40.0.4", "wrong-argument", 'write a list: ["…"]'),
        ("location", 5, "wrong-argument", 'write "5"'),
        ("tags", {"a": 5}, "wrong-argument", "write a Mapping[str, str]"),
        ("private_endpoint_vnet_policies", True, "wrong-argument", 'write "True"'),
    ],
)
def test_program_wrong_resource_argument_is_refused(
    lab: az.EnvironmentStack, name: str, value: object, rule: str, hint: str
) -> None:
    vnet = az.Network(lab, address_space=SPACE).virtual_network
    finding = refused(lambda: setattr(vnet, name, value), f"`{name}`")
    assert (finding.id, finding.hint) == (rule, hint)
    if rule == "wrong-argument":
        refused(lambda: vnet.set_argument(name, value), f"`{name}`")
        given = {"name": "a", "resource_group_name": "a", "location": "westeurope", name: value}
        refused(lambda: VirtualNetwork(lab, "own", **given), f"`{name}`")


def test_program_resource_accepts_references_and_attributes_of_its_own(
    lab: az.EnvironmentStack,
) -> None:
    vnet = az.Network(lab, address_space=SPACE).virtual_network
    vnet.dns_servers = "${var.servers}"  # type: ignore[assignment]
    vnet.flow_timeout_in_minutes = "${var.minutes}"  # type: ignore[assignment]
    vnet._remark = "of the program's own"  # type: ignore[attr-defined]
    assert (vnet.given("dns_servers"), vnet.given("_remark")) == ("${var.servers}", None)


def test_program_resource_subclass_may_set_attributes_before_init(
    lab: az.EnvironmentStack,
) -> None:
    class Team(ResourceGroup):
        def __init__(self, scope: az.Construct, team: str) -> None:
            self.team = team
            super().__init__(scope, team, name=team, location="westeurope")

    assert Team(lab, "vision").team == "vision"


def test_program_resource_without_bindings_accepts_any_argument_later(
    lab: az.EnvironmentStack,
) -> None:
    class Apps(az.Resource):
        TYPE = "azurerm_container_app_environment"

    apps = Apps(lab, "apps", {"name": "lab-cae", **lab.azure.common})
    apps.zone_redundancy_enabled = True  # type: ignore[attr-defined]
    made = lab.to_terraform()["resource"]["azurerm_container_app_environment"]["apps"]
    assert made["zone_redundancy_enabled"] is True


@pytest.mark.parametrize("more", [{"checks": False}, {"ignore_checks": ["unknown-region"]}])
def test_program_may_use_region_missing_in_catalog_if_check_is_ignored(more: Any) -> None:
    assert _stack(location="newregion", **more).azure.location == "newregion"


def _named(folder: Path, naming: Any) -> dict[str, Any]:
    lab = _lab(folder, naming=naming)
    net = _network(lab)
    az.Storage(lab, "data", containers=["datasets"], network=net)
    second = az.Construct(lab, "second")
    az.use_resource_group(second, environment="two", location="eastus")
    az.Network(second, "net", address_space="10.41.0.0/16", private_endpoints=False)
    return _written(lab)


def test_program_naming_uses_a_pattern_or_function(tmp_path: Path) -> None:
    document = _named(tmp_path, "{type}-{name}-{environment}-{region}")
    groups = {each["name"] for each in document["resource"]["azurerm_resource_group"].values()}
    assert groups == {"rg-lab-westeurope", "rg-two-eastus"}
    account = only(document, "azurerm_storage_account")
    assert account["name"].startswith("stlabwesteurope${")
    document = _named(tmp_path, lambda of: of.default if of.unique else f"corp-{of.default}")
    networks = {each["name"] for each in document["resource"]["azurerm_virtual_network"].values()}
    assert networks == {"corp-lab-vnet", "corp-two-vnet"}
    assert only(document, "azurerm_storage_account")["name"].startswith("labst${")


@pytest.mark.parametrize(
    ("naming", "id_", "said"),
    [
        ("{type}-{environment}", "bad-pattern", "add {name}"),
        (az.Naming("{type}-{environment}"), "bad-pattern", "add {name}"),
        (lambda of: f"{of.environment}-{of.type}", "name-taken", "group compute and network"),
        (az.Naming(function=lambda of: of.type), "name-taken", "gives two resources"),
        (lambda of: of.default + "x" * 80, "name-too-long", "Azure takes"),
        (lambda of: of.default.upper(), "bad-name", "lower-case"),
        (lambda of: of.unique or None, "bad-name", "a resource_group a NoneType"),
        (lambda of: of.fill("{Type}"), "unknown-token", "did you mean `type`?"),
    ],
)
def test_program_naming_that_is_invalid_is_refused(
    tmp_path: Path, naming: Any, id_: str, said: str
) -> None:
    finding = refused(lambda: _named(tmp_path, naming))
    assert finding.id == id_
    assert said in f"{finding.message} {finding.hint}"

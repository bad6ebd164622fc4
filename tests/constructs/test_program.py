"""A program of a user's: a stack that jobs can run on, and that the library's rules allow."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, is_dataclass
from inspect import Parameter, isclass, signature
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from endings import refused
from environment_files import KEY
from tests.constructs.bindings.validator import validate

import fairway_constructs as az
from fairway_constructs.azurerm.provider import AzurermProvider, Features
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.cdk.library import App as CdktfApp
from fairway_constructs.network_access import SubnetRef
from fairway_constructs.slurm.configuration import node_facts
from fairway_core.catalog import image, vm_size
from fairway_core.environment import Disks
from fairway_core.environment.addresses import subnet_plan
from fairway_core.findings import UserError
from fairway_core.slurm import Qos
from fairway_core.target import Target

TEAM = "11111111-2222-3333-4444-555555555555"
OWN = {"Environment": "mine"}


def _lab(folder: Path) -> tuple[az.App, az.EnvironmentStack]:
    app = az.App(outdir=str(folder / "lab.out"))
    return app, az.EnvironmentStack(
        app, "lab", location="westeurope", zone=2, tags={"owner": "ml-platform"}, ssh_keys=[KEY]
    )


def _written(app: az.App, folder: Path) -> dict[str, Any]:
    app.synth()
    document: dict[str, Any] = json.loads((folder / "lab.out/stacks/lab/cdk.tf.json").read_text())
    assert not list(validate(document))
    return document


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A network, data, a file server, a cluster, and the output for jobs."""
    folder = tmp_path_factory.mktemp("program")
    app, lab = _lab(folder)
    net = az.Network(lab, "net", address_space="10.40.0.0/16", private_endpoints=True)
    data = az.Storage(lab, "data", containers=["datasets", "outputs"], network=net)
    home = az.NfsServer(
        lab, "home", subnet=net.subnet("storage"), path="/data", disks=Disks(count=4, gib=2048)
    )
    h100 = az.Cluster(
        lab, "h100", size="Standard_ND96isr_H100_v5", nodes=2, network=net, mounts=[home]
    )
    data.grant_read_write(h100)
    az.Targets(lab, [h100], storage=data)
    return _written(app, folder)


def _one(document: dict[str, Any], type_: str) -> dict[str, Any]:
    (found,) = document["resource"][type_].values()
    body: dict[str, Any] = found
    return body


def test_the_provider_fits_the_storage(document: dict[str, Any]) -> None:
    account, (provider,) = (
        _one(document, "azurerm_storage_account"),
        document["provider"]["azurerm"],
    )
    assert account["shared_access_key_enabled"] is False
    assert provider["storage_use_azuread"] is True
    assert account["public_network_access_enabled"] is False
    assert provider["features"]["storage"]["data_plane_available"] is False


def test_the_storage_is_reached_inside_the_network(document: dict[str, Any]) -> None:
    endpoint = _one(document, "azurerm_private_endpoint")
    connection = endpoint["private_service_connection"]
    assert connection["private_connection_resource_id"].startswith(
        "${azurerm_storage_account.data_"
    )


def test_nodes_wait_for_what_they_need(document: dict[str, Any]) -> None:
    types = {each.partition(".")[0] for each in _waits(document)}
    assert types >= {
        "azurerm_role_assignment",
        "azurerm_subnet_nat_gateway_association",
        "azurerm_subnet_network_security_group_association",
        "azurerm_virtual_machine_data_disk_attachment",
    }
    server = _one(document, "azurerm_linux_virtual_machine")
    assert any("nat_gateway_association" in each for each in server["depends_on"])


def _waits(document: dict[str, Any]) -> list[str]:
    waits: list[str] = _one(document, "azurerm_linux_virtual_machine_scale_set")["depends_on"]
    return waits


def test_the_disks_go_to_the_ranges_of_nodes(document: dict[str, Any]) -> None:
    assert _one(document, "azurerm_virtual_network")["address_space"] == ["10.40.0.0/16"]
    assert len(document["resource"]["azurerm_managed_disk"]) == 4


def test_jobs_know_where_to_run(document: dict[str, Any]) -> None:
    (record,) = document["output"]["targets"]["value"]
    target = Target.model_validate(record)
    assert (target.name, target.engine, target.nodes.max) == ("h100", "ssh", 2)
    assert target.mounts == {"home": "/data"}
    assert target.storage is not None
    assert target.storage.containers == ("datasets", "outputs")
    assert target.ssh is not None
    assert target.ssh.shared == "/data/fairway"
    assert target.gateway is not None, "its services have no public side"


def test_program_that_breaks_a_rule_is_refused_at_synthesis(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    network = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True)
    storage = az.Storage(lab, containers=["outputs"], network=network)
    storage.account.add_override("lifecycle.prevent_destroy", False)
    with pytest.raises(UserError) as caught:
        app.synth()
    found = caught.value.findings
    assert {each.id for each in found} == {"unprotected-data"}
    assert all(each.message.startswith("lab: azurerm_storage_account") for each in found)
    assert found[0].hint


def test_an_app_of_cdktf_itself_shows_the_hint_of_a_rule(tmp_path: Path) -> None:
    app = CdktfApp(outdir=str(tmp_path / "lab.out"))
    lab = az.EnvironmentStack(app, "lab", location="westeurope", zone=2)
    network = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True)
    storage = az.Storage(lab, containers=["outputs"], network=network)
    storage.account.add_override("lifecycle.prevent_destroy", False)
    with pytest.raises(
        RuntimeError, match=r"lab: azurerm_storage_account.*\n  lifecycle: prevent_destroy"
    ):
        app.synth()


def test_allow_from_opens_a_port_to_a_range_and_passes_the_checks(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    network = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True)
    network.allow_from(["198.51.100.0/24"], to="management", name="SshFromOffice", port="22")
    groups = _written(app, tmp_path)["resource"]["azurerm_network_security_group"].values()
    rules = [rule for group in groups for rule in group["security_rule"]]
    (let_in,) = [each for each in rules if each["name"] == "AllowSshFromOffice"]
    assert let_in["source_address_prefixes"] == ["198.51.100.0/24"]


GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub/providers"
VNET = f"{GROUP}/Microsoft.Network/virtualNetworks/hub-vnet"
EXISTING = {
    "net": ("Network", VNET, {"subnets": {"compute": ("nodes", "10.1.0.0/20")}}),
    "vault": ("Vault", f"{GROUP}/Microsoft.KeyVault/vaults/Hub-KV", {}),
    "batch": (
        "BatchAccount",
        f"{GROUP}/Microsoft.Batch/batchAccounts/hubbatch",
        {"location": "West Europe"},
    ),
    "nodes": ("Identity", f"{GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/hub-id", {}),
    "logs": ("Monitoring", f"{GROUP}/Microsoft.OperationalInsights/workspaces/hub-log", {}),
}


def _existing(lab: az.EnvironmentStack) -> dict[str, Any]:
    return {
        name: getattr(az, kind).from_id(lab, name, id_, **more)
        for name, (kind, id_, more) in EXISTING.items()
    }


def test_a_pool_stands_among_what_exists(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    hub = _existing(lab)
    hub["vault"].grant_read(hub["nodes"])
    hub["vault"].diagnostic_settings(hub["logs"])
    _pool(lab, hub["batch"], hub["net"].subnet("compute"), identity_id=hub["nodes"].id)
    document = _written(app, tmp_path)
    pool = _one(document, "azurerm_batch_pool")
    assert (pool["account_name"], pool["resource_group_name"]) == ("hubbatch", "hub")
    assert pool["network_configuration"]["subnet_id"] == f"{VNET}/subnets/nodes"
    assert hub["batch"].endpoint == "https://hubbatch.westeurope.batch.azure.com"
    assert hub["vault"].url == "https://hub-kv.vault.azure.net/"
    assert _one(document, "azurerm_role_assignment")["scope"] == EXISTING["vault"][1]
    (identity,) = document["data"]["azurerm_user_assigned_identity"].values()
    assert (identity["name"], identity["resource_group_name"]) == ("hub-id", "hub")
    sent = _one(document, "azurerm_monitor_diagnostic_setting")
    assert sent["log_analytics_workspace_id"] == EXISTING["logs"][1]
    made = {type_.removeprefix("azurerm_") for type_ in document["resource"]}
    rest = {"resource_group", "terraform_data", "batch_pool", "role_assignment"}
    assert made == {*rest, "monitor_diagnostic_setting"}


@pytest.mark.parametrize(("kind", "more"), [(each[0], each[2]) for each in EXISTING.values()])
def test_id_of_anything_else_is_refused(tmp_path: Path, kind: str, more: dict[str, Any]) -> None:
    _, lab = _lab(tmp_path)
    account = f"{GROUP}/Microsoft.Storage/storageAccounts/hubst"
    with pytest.raises(UserError, match=f"`{account}` is not the id of a .*\n  az "):
        getattr(az, kind).from_id(lab, "wrong", account, **more)


def test_subnets_of_several_networks_are_refused(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    subnets = {
        "compute": (f"{VNET}/subnets/nodes", "10.1.0.0/20"),
        "storage": (f"{VNET}-two/subnets/files", "10.2.0.0/20"),
    }
    finding = refused(lambda: az.Network.from_subnets(lab, "net", subnets))
    assert (finding.id, finding.path) == ("bad-argument", "lab/net.subnets")


def test_a_subnet_of_an_existing_network_opens_to_constructs(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    bare = az.Network.from_id(lab, "bare", VNET, subnets={})
    assert bare.add_subnet("first", "10.2.0.0/24").range == IPv4Network("10.2.0.0/24")
    hub = _existing(lab)["net"]
    subnet = hub.add_subnet("tools", "10.1.32.0/24")
    box = az.Cluster(lab, "box", size="Standard_NC24ads_A100_v4", network=hub)
    hub.allow_from([box, subnet, "10.9.0.0/24"], to="tools", name="Web", port="443")
    document = _written(app, tmp_path)
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


def test_machines_wait_for_their_subnet_and_what_they_are_told(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True)
    waited, account = az.Registry(lab), az.BatchAccount(lab)
    for each in (waited, account):
        each.private_endpoints(net)
    subnet = net.subnet("compute")
    az.Gateway(lab, size="Standard_D2s_v6", subnet=subnet, depends_on=[waited])
    _pool(lab, account, subnet, depends_on=[waited])
    document = _written(app, tmp_path)
    for type_ in ("azurerm_batch_pool", "azurerm_linux_virtual_machine"):
        waits = " ".join(_one(document, type_)["depends_on"])
        assert "azurerm_container_registry.registry" in waits
    assert "azurerm_subnet_nat_gateway_association" in " ".join(
        _one(document, "azurerm_batch_pool")["depends_on"]
    )


def _pool(lab: az.EnvironmentStack, account: Any, subnet: Any, **more: Any) -> az.BatchPool:
    size, system = vm_size("Standard_HB120rs_v3"), image("ubuntu-hpc-2404")
    identity = more.pop("identity_id", None) or az.Identity(lab, "pool").id
    return az.BatchPool(
        lab,
        more.pop("name", "hb"),
        account=account,
        subnet=subnet,
        identity_id=identity,
        size=size,
        image=system,
        minimum=0,
        maximum=2,
        **more,
    )


def test_people_get_roles_as_identities_do(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True, bastion=True)
    batch, storage = az.BatchAccount(lab), az.Storage(lab, containers=["outputs"], network=net)
    batch.private_endpoints(net)
    box = az.Cluster(lab, "box", size="Standard_NC24ads_A100_v4", network=net)
    team = az.People(lab, "team", object_id="11111111-2222-3333-4444-555555555555")
    guest = az.People(
        lab, "guest", object_id="66666666-2222-3333-4444-555555555555", principal_type="User"
    )
    beside = az.Construct(lab, "other")
    az.place_in_group(beside, environment="other", location="westeurope", zone=2, ssh_keys=[KEY])
    other = az.Cluster(beside, "box", size="Standard_NC24ads_A100_v4", network=net)
    assert net.bastion is not None
    net.bastion.grant_connect(team, [box, other])
    storage.grant_read(team)
    batch.grant_submit(team)
    batch.grant_read(guest)
    roles = _written(app, tmp_path)["resource"]["azurerm_role_assignment"].values()
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


def test_one_identity_reads_two_vaults(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    hub = _existing(lab)
    other = az.Vault.from_id(lab, "other", f"{GROUP}/Microsoft.KeyVault/vaults/other-kv")
    nodes = az.Identity(lab, "nodes-of-ours")
    for vault in (hub["vault"], other):
        vault.grant_read(nodes)
    assert len(_written(app, tmp_path)["resource"]["azurerm_role_assignment"]) == 2


def test_every_kind_of_cluster_takes_jobs(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    pods = IPv4Network("10.244.0.0/16")
    net = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True, pods=pods)
    subnet = net.subnet("compute")
    home = az.NfsServer(lab, "home", subnet=net.subnet("storage"), path="/data")
    storage = az.Storage(lab, containers=["outputs"], network=net)
    slurm, batch = az.SlurmFoundation(lab, disk_gib=64), az.BatchAccount(lab)
    for service in (slurm, batch):
        service.private_endpoints(net)
    nodes = az.Identity(lab, "nodes")
    spec: dict[str, Any] = {
        "size": vm_size("Standard_HB120rs_v3"),
        "image": image("ubuntu-hpc-2404"),
        "subnet": subnet,
        "identity_id": nodes.id,
        "mounts": [home.mount],
    }
    scheduler = az.SlurmScheduler(
        lab,
        partitions={"hb": az.SlurmPartition(size="Standard_HB120rs_v3", nodes=16)},
        scale_sets={"hb": "/scale-set"},
        foundation=slurm,
        subnet=subnet,
        mounts=[home.mount],
    )
    az.SlurmLoginNode(
        lab,
        "login",
        size="Standard_D4s_v6",
        scheduler=scheduler,
        foundation=slurm,
        subnet=subnet,
        mounts=[home.mount],
    )
    aks = az.KubernetesCluster(lab, subnet=net.subnet("kubernetes"), kubelet=nodes)
    pool = az.KubernetesNodePool(
        lab,
        "t4",
        cluster=aks,
        subnet=net.subnet("kubernetes"),
        size="Standard_NC4as_T4_v3",
        nodes=2,
        job_image="team.azurecr.io/jobs:1",
        mounts=[home.mount],
    )
    gateway = az.Gateway(lab, size="Standard_D2s_v6", subnet=net.subnet("management"))
    clusters: list[az.TakesJobs] = [
        az.GpuCluster(lab, "pair", nodes=2, **spec),
        az.SingleVm(lab, "box", **spec),
        scheduler.partition("hb"),
        _pool(lab, batch, subnet, mounts=[home.mount], name="many"),
        pool,
    ]
    az.Targets(lab, clusters, storage=storage, gateway=gateway)
    size = az.vm_size("Standard_HB120rs_v3")
    node = az.SlurmNode(
        partition="hb",
        scheduler=scheduler.address,
        vault="https://v/",
        client_id="c",
        packages=scheduler.cluster.packages,
        facts=node_facts(size, [home.mount]),
    )
    own = az.GpuCluster(lab, "hb", nodes=0, resized=True, slurm=node, **spec)
    with pytest.raises(UserError, match=r"`hb` by their scheduler\n  pass `scheduler.partition"):
        own.target()
    document = _written(app, tmp_path)
    found = [Target.model_validate(each) for each in document["output"]["targets"]["value"]]
    assert [(each.name, each.engine) for each in found] == [
        ("pair", "ssh"),
        ("box", "ssh"),
        ("hb", "slurm"),
        ("many", "batch"),
        ("t4", "kubernetes"),
    ]
    for each in found:
        assert each.mounts == {"home": "/data"}
        assert each.gateway is not None
        assert "gateway-nic" in each.gateway.host
    partition = found[2].slurm
    assert partition is not None
    assert "login-nic" in partition.host, "people log in there, and not at the scheduler"
    assert found[2].nodes.max == 16


def test_a_pool_has_no_home_of_others(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    mount = az.Mount(name="home", type="nfs", options="rw", source="s:/home", path="/home")
    hub = _existing(lab)
    with pytest.raises(
        UserError, match=r"pool `hb`: .*cannot mount `/home`.*\n  mount it elsewhere"
    ):
        _pool(lab, hub["batch"], hub["net"].subnet("compute"), mounts=[mount])


def test_a_node_pool_without_an_image_is_no_target(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    aks: Any = SimpleNamespace(id="/k", version=None, upgrades=None, creation_stack=())
    subnet = SubnetRef("/subnet", IPv4Network("10.40.0.0/17"))
    pool = az.KubernetesNodePool(
        lab, "t4", cluster=aks, subnet=subnet, size="Standard_NC4as_T4_v3", nodes=2
    )
    with pytest.raises(UserError, match=r"no job can run on `t4`.*\n  pass `job_image=`"):
        az.Targets(lab, [pool])


def test_file_servers_have_the_interfaces_of_verified_modules(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    net = az.Network(
        lab,
        address_space="10.40.0.0/16",
        private_endpoints=True,
        filesystems=["netapp", "lustre"],
    )
    vault = az.Vault(lab)
    vault.private_endpoints(net)
    agent, subnet = az.Identity(lab, "agent"), net.subnet("storage")
    home = az.AzureFiles(
        lab, "home", path="/home", customer_managed_key=vault.customer_managed_key("home")
    )
    home.private_endpoints(net)
    data = az.NfsServer(
        lab,
        "data",
        subnet=subnet,
        path="/data",
        customer_managed_key=vault.customer_managed_key("data"),
        managed_identities=[agent],
    )
    volume = az.NetApp(lab, "volume", path="/volume", tib=4, subnet=net.subnet("netapp"))
    fast = az.Lustre(lab, "fast", path="/lustre", tib=48, subnet=net.subnet("lustre"))
    monitoring = az.Monitoring.from_id(lab, "logs", EXISTING["logs"][1])
    team = az.RoleAssignment(
        role_definition_id_or_name="Reader",
        principal_id=TEAM,
        description="Looks",
    )
    services: list[Any] = [home, data, volume, fast]
    for each in services:
        each.role_assignments({"team": team})
    for each in (volume, fast):
        each.diagnostic_settings(monitoring)
        with pytest.raises(UserError, match="has no `private_endpoints`\n  leave the call out"):
            each.private_endpoints(net)
    document = _written(app, tmp_path)
    resources = document["resource"]
    looks = [
        each["scope"]
        for each in resources["azurerm_role_assignment"].values()
        if each["role_definition_name"] == "Reader"
    ]
    assert {each.split(".")[0].removeprefix("${azurerm_") for each in looks} == {
        "storage_account",
        "linux_virtual_machine",
        "netapp_volume",
        "managed_lustre_file_system",
    }
    encryption = _one(document, "azurerm_disk_encryption_set")
    assert encryption["auto_key_rotation_enabled"] is True
    assert encryption["key_vault_key_id"].endswith("keys/data")
    disks = resources["azurerm_managed_disk"].values()
    assert all("azurerm_disk_encryption_set." in each["disk_encryption_set_id"] for each in disks)
    account = _one(document, "azurerm_storage_account")
    assert account["customer_managed_key"]["key_vault_key_id"].endswith("keys/home")
    (identity,) = _one(document, "azurerm_linux_virtual_machine")["identity"]["identity_ids"]
    assert "agent" in identity
    assert len(resources["azurerm_monitor_diagnostic_setting"]) == 2


def test_a_cluster_needs_a_network(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    with pytest.raises(UserError, match="cluster `h100` stands in no network"):
        az.Cluster(lab, "h100", size="Standard_ND96isr_H100_v5")


def test_a_stack_may_do_without_protection(tmp_path: Path) -> None:
    app = az.App(outdir=str(tmp_path / "lab.out"))
    lab = az.EnvironmentStack(app, "lab", location="westeurope", protect=False)
    network = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True)
    az.Storage(lab, containers=["outputs"], network=network)
    resources = _written(app, tmp_path)["resource"]
    assert "azurerm_management_lock" not in resources
    assert "lifecycle" not in next(iter(resources["azurerm_storage_account"].values()))


H100 = "Standard_ND96isr_H100_v5"
# What cdktf has for a value that Terraform alone will know: any argument takes it.
TOKEN: Any = SimpleNamespace(creation_stack=())
SLURM: dict[str, Any] = dict.fromkeys(("scale_sets", "foundation", "subnet", "mounts"), TOKEN)
AKS: dict[str, Any] = {"subnet": TOKEN, "kubelet": TOKEN}
POOL: dict[str, Any] = {"subnet": TOKEN, "cluster": TOKEN, "nodes": 2}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda lab: az.SlurmScheduler(
                lab, accounting=False, qos={"fast": Qos(priority=9)}, partitions={}, **SLURM
            ),
            "Slurm keeps accounts and qualities of service in its database",
        ),
        (
            lambda lab: az.SlurmScheduler(lab, idle=5, partitions={}, **SLURM),
            "nodes stay idle for at least a minute",
        ),
        (
            lambda lab: az.KubernetesCluster(lab, version="1", **AKS),
            "`1` is not a minor version of Kubernetes",
        ),
        (
            lambda lab: az.KubernetesNodePool(lab, "nd", size=H100, zones=[1, 2], **POOL),
            f"the InfiniBand of {H100} does not cross zones",
        ),
    ],
)
def test_argument_that_contradicts_another_is_refused(tmp_path: Path, make: Any, said: str) -> None:
    _, lab = _lab(tmp_path)
    with pytest.raises(UserError, match=said):
        make(lab)


def _takers() -> Iterator[tuple[str, Callable[..., object]]]:
    """Constructors and methods of each class of the library, and its functions."""
    for name in az.__all__:
        found = getattr(az, name)
        if not isclass(found):
            yield name, found
            continue
        if not found.__module__.startswith("fairway_constructs."):
            continue
        for method, each in vars(found).items():
            function = getattr(each, "__func__", each)
            if hasattr(function, "__wrapped__") and method != "visit":
                yield f"{name}.{method}".removesuffix(".__init__"), function


def test_every_argument_of_every_construct_is_checked() -> None:
    """Never by an error of Python's or pydantic's, but by its name and at its line."""
    wrong, count = object(), 0
    for taker, function in _takers():
        parameters = {
            name: each
            for name, each in signature(function).parameters.items()
            if each.kind is not Parameter.VAR_POSITIONAL
        }
        needed = [name for name, each in parameters.items() if each.default is Parameter.empty]
        for name, each in parameters.items():
            if each.annotation in (Parameter.empty, "object"):  # the first, or any at all
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


def test_dataclasses_for_programs_are_frozen_and_checked_each_time() -> None:
    found = [each for each in (getattr(az, name) for name in az.__all__) if is_dataclass(each)]
    assert len(found) > 20
    for each in found:
        assert each.__dataclass_params__.frozen, each  # type: ignore[attr-defined]  # of Python's
    first = az.SubnetRef("id", IPv4Network("10.1.0.0/24"))
    with pytest.raises(FrozenInstanceError):
        first.id = "another"  # type: ignore[misc]
    with pytest.raises(UserError, match="`range` of SubnetRef takes `IPv4Network"):
        az.SubnetRef("id", "10.1.0.0/24")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, math.nan, [-1], {"of": -1}], ids=str)
def test_no_argument_of_any_construct_takes_a_number_without_bounds(wrong: Any) -> None:
    """One that Azure has no use for is refused at its line, before anything is made of it."""
    faults = []
    for taker, function in _takers():
        parameters = signature(function).parameters
        needed = [
            name
            for name, each in parameters.items()
            if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        ]
        for name, each in parameters.items():
            # Of an interface of cdktf's nobody can tell who has it.
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
    """A text of a program's own class, whose name is that of a type of the library."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda _: az.vm_size(5), "name"),  # type: ignore[arg-type]
        (lambda _: az.image(None), "name"),  # type: ignore[arg-type]
        (lambda lab: az.place_in_group(lab, environment="two", location="West Europe"), "location"),
        (lambda _: az.EnvironmentStack(az.App(), "two", location=Location("Europe")), "location"),
        (lambda lab: az.Targets(lab, []), "clusters"),
        (lambda lab: az.Tags.of(lab).add("a?b", "c"), "a?b"),
        (lambda _: az.EnvironmentStack(az.App(), "b", location="eastus", tags={"a?": "b"}), "a?"),
        (lambda lab: az.Budget(lab, amount=5, alerts=[80, 50], emails=["a@b.org"]), "alerts"),
        (lambda lab: az.Budget(lab, amount=5, alerts=[50], emails=["me"]), "emails"),
        (lambda lab: az.Monitoring(lab, emails=["a@b.org"], workspace_id=VNET), "workspace_id"),
        (lambda lab: az.Network(lab, address_space="10.40.0.0/16", admins=["me"]), "admins"),
        (lambda lab: az.AzureFiles(lab, "home", path="/home", subnet_ids=[VNET]), "subnet_ids"),
        (lambda lab: az.Registry(lab, retention_days=400), "retention_days"),
        (lambda lab: az.place_in_group(lab, environment="b", location="eastus", zone=True), "zone"),
        (lambda lab: az.Monitoring(lab, emails=[]), "emails"),
        (lambda _: az.EnvironmentStack(az.App(), "Lab Two", location="eastus"), "id"),
        (lambda lab: az.Registry(lab, allowed=["10.0.0.1/8"]), "allowed"),
        (lambda _: az.EnvironmentStack(az.App(), "b", location="eastus", tags=OWN), "Environment"),
        (lambda lab: az.Vault(lab).customer_managed_key("a_b"), "name"),
        (lambda lab: az.Registry(lab, ""), "lab"),
        (lambda lab: az.Registry(lab, lab.place.resource_group), "lab"),
        (lambda lab: az.NfsExport(lab, "", path="/a", host="a.b", export="/", mbps=1), "lab"),
    ],
)
def test_value_of_another_form_is_refused_at_its_argument(
    tmp_path: Path, call: Any, path: str
) -> None:
    _, lab = _lab(tmp_path)
    finding = refused(lambda: call(lab))
    assert finding.path.rpartition(".")[2] == path
    assert finding.location is not None
    assert finding.location.file == __file__


def test_path_of_an_argument_has_an_id_that_nobody_gave(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    with pytest.raises(UserError) as caught:
        az.Registry(lab, retention_days=400)
    assert caught.value.findings[0].path == "lab/registry.retention_days"


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"name": "Web"}, "Web.name"),
        ({"name": "a b"}, "a b.name"),
        ({"sources": []}, "New.sources"),
        ({"port": []}, "New.port"),
    ],
)
def test_rule_that_azure_would_not_take_is_refused(
    tmp_path: Path, wrong: dict[str, Any], path: str
) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16")
    rule: dict[str, Any] = {"sources": ["198.51.100.0/24"], "to": "management", "port": "443"}
    net.allow_from(**rule, name="Web")
    with pytest.raises(UserError) as caught:
        net.allow_from(**{**rule, "name": "New", **wrong})
    assert caught.value.findings[0].path == f"lab/network/{path}"


@pytest.mark.parametrize("port", ["99999", "0", "-1", "abc", "443-80", "1-2-3", "", "80,443"])
def test_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16")
    for ports in (port, ["443", port]):
        with pytest.raises(UserError) as caught:
            net.allow_from(["198.51.100.0/24"], to="management", name="Web", port=ports)
        assert caught.value.findings[0].path == "lab/network/Web.port"


def test_kubernetes_and_its_foundation_fit_in_one_stack_without_ids(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    pods = IPv4Network("10.244.0.0/16")
    net = az.Network(lab, "net", address_space="10.40.0.0/16", private_endpoints=True, pods=pods)
    data = az.Storage(lab, "data", containers=["outputs"], network=net)
    foundation = az.KubernetesFoundation(lab, storage_account_id=data.id, name="manifests")
    kubelet = foundation.kubelet
    az.KubernetesCluster(lab, subnet=net.subnet("kubernetes"), kubelet=kubelet)
    cluster = _one(_written(app, tmp_path), "azurerm_kubernetes_cluster")
    assert "kubelet" in cluster["kubelet_identity"]["client_id"]


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (
            lambda lab: az.Network(lab, address_space="rubbish"),
            "`address_space` of Network: `rubbish` is not an IPv4 range",
            "10.40.0.0/16",
        ),
        (
            lambda lab: az.Network(lab, address_space="10.40.0.0/16", pods="10.244.0.0/16"),
            "`pods` of Network takes `IPv4Network | None`, not the text",
            "write ipaddress.IPv4Network",
        ),
        (
            lambda lab: az.Storage(lab, containers="abc"),
            "`containers` of Storage takes `Sequence[str]`, not the text `abc`",
            "write a list",
        ),
        (
            lambda lab: az.Storage(lab, containers=(name for name in ["abc"])),
            "`containers` of Storage takes `Sequence[str]`, not a generator",
            "write a list",
        ),
        (
            lambda lab: az.Tags.of(lab).add("cost-center", 5),
            "`value` of Tags.add takes `str`, not the number 5",
            'write "5"',
        ),
        (
            lambda lab: az.Storage(lab, containers=["abc", 5]),
            "`containers` of Storage takes `Sequence[str]`, not a list of `int` and `str`",
            "write a list",
        ),
        (
            lambda lab: az.NfsServer(lab, "data", subnet="storage", path="/data"),
            "`subnet` of NfsServer takes `SubnetRef`, not the text `storage`",
            'network.subnet("compute")',
        ),
        (
            lambda lab: az.Storage(lab, containers=["abc"], replicaton="ZRS"),
            "Storage: got an unexpected keyword argument 'replicaton'",
            "did you mean `replication`?",
        ),
        (
            lambda lab: az.Storage(lab, containers=["abc"], replication="ZSR"),
            "`replication` of Storage takes `Literal[",
            "did you mean `ZRS`?",
        ),
        (
            lambda lab: az.Network.from_subnets(lab, "net", {"compute": ("id", "10.1.0.1/16")}),
            "`subnets` of Network.from_subnets: `10.1.0.1/16` does not start",
            "did you mean `10.1.0.0/16`?",
        ),
        (lambda lab: az.Network(lab), "Network: missing a required", "help(Network)"),
    ],
)
def test_argument_of_another_type_says_what_to_type(
    tmp_path: Path, make: Any, message: str, hint: str
) -> None:
    _, lab = _lab(tmp_path)
    finding = refused(lambda: make(lab))
    assert finding.message.startswith(message)
    assert hint in finding.hint
    assert finding.location is not None
    assert "lambda lab" in finding.location.text


@pytest.mark.parametrize("made", [az.Component, az.Resource, AzurermProvider])
def test_scope_that_is_no_construct_is_refused(made: Any) -> None:
    arguments: dict[Any, Any] = {
        az.Component: {"id": "room"},
        az.Resource: {"id": "group", "attributes": {}},
        AzurermProvider: {"features": Features()},
    }
    own = type("Own", (made,), {"TYPE": "azurerm_own"})
    with pytest.raises(UserError, match="is a SimpleNamespace, and no construct"):
        own(SimpleNamespace(), **arguments[made])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "work", "path": "/data/home"}, "inside each other"),
        ({"name": "work", "path": "/data"}, "inside each other"),
        ({"name": "home", "path": "/home"}, "two are called `home`"),
    ],
)
def test_mount_that_would_hide_another_is_refused(
    tmp_path: Path, other: dict[str, str], said: str
) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16")
    server: dict[str, Any] = {"host": "nfs.example.com", "export": "/", "mbps": 100}
    home = az.NfsExport(lab, "home", path="/data", **server)
    beside = az.Construct(lab, "beside")
    mounts = [home, az.NfsExport(beside, **other, **server)]
    with pytest.raises(UserError, match=said):
        az.Cluster(lab, "box", size="Standard_D4s_v6", network=net, mounts=mounts)


def test_file_system_that_nobody_could_mount_is_refused(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    group = f"/subscriptions/{TEAM}/resourceGroups/hub/providers/Microsoft.Network"
    subnets = {"storage": (f"{group}/virtualNetworks/hub/subnets/storage", "10.1.0.0/24")}
    subnet = az.Network.from_subnets(lab, "hub", subnets).subnet("storage")
    for made in (
        lambda: az.NfsServer(lab, "home", path="/data", subnet=subnet),
        lambda: az.NetApp(lab, "fast", path="/fast", tib=4, subnet=subnet),
    ):
        with pytest.raises(UserError, match="nobody could mount it") as caught:
            made()
        assert caught.value.findings[0].path == "clients"
    az.NfsServer(lab, "more", path="/data", subnet=subnet, clients=[IPv4Network("10.2.0.0/24")])


def test_cluster_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16")
    box = az.Cluster(lab, "box", size="Standard_D4s_v6", network=net)
    with pytest.raises(UserError, match="two targets are called `box`"):
        az.Targets(lab, [box, box])


def test_tag_that_differs_in_case_alone_is_the_same_tag(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    az.Network(lab, address_space="10.40.0.0/16")
    for name, value in (("Owner", "somebody else"), ("CostCenter", "1"), ("costcenter", "2")):
        az.Tags.of(lab).add(name, value)
    made = _written(app, tmp_path)["resource"]["azurerm_virtual_network"]
    (tags,) = (each["tags"] for each in made.values())
    assert (tags["owner"], tags["CostCenter"]) == ("somebody else", "2")
    assert not {"Owner", "costcenter"} & {*tags}


def test_app_makes_its_folder_with_those_above_it(tmp_path: Path) -> None:
    az.App(outdir=tmp_path / "build/lab.out")
    assert (tmp_path / "build/lab.out").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file/lab\.out: Not a directory"):
        az.App(outdir=str(tmp_path / "file/lab.out"))


def test_two_resources_of_one_name_are_refused_in_one_group_alone(tmp_path: Path) -> None:
    def make(folder: Path, apart: bool) -> az.App:
        app, lab = _lab(folder)
        beside = az.Construct(lab, "beside")
        if apart:
            az.place_in_group(beside, environment="other", location="westeurope")
        for scope in (lab, beside):
            az.Vault(scope, allowed=["203.0.113.0/24"])
        return app

    with pytest.raises(UserError, match=r"azurerm_key_vault\.\w+ has the name `lab-kv") as caught:
        make(tmp_path / "one", apart=False).synth()
    assert {each.id for each in caught.value.findings} == {"name-taken"}
    make(tmp_path / "two", apart=True).synth()


@pytest.mark.parametrize("made", [az.Component, az.Resource])
def test_construct_without_an_id_or_a_stack_is_refused(tmp_path: Path, made: Any) -> None:
    app, lab = _lab(tmp_path)
    more: dict[Any, tuple[Any, ...]] = {az.Component: (), az.Resource: ({},)}
    own = type("Own", (made,), {"TYPE": "azurerm_own"})
    with pytest.raises(UserError, match=r"^the id of \w+ in lab is empty"):
        own(lab, "", *more[made])
    with pytest.raises(UserError, match="the app itself is no stack"):
        own(app, "own", *more[made])
    with pytest.raises(UserError, match="beside stands in no stack"):
        own(az.Construct(app, "beside"), "own", *more[made])


def test_stacks_that_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    app, lab = _lab(tmp_path)
    data = az.EnvironmentStack(app, "data", location="westeurope", environment="lab", role="data")
    net = az.Network(lab, address_space="10.40.0.0/16", private_endpoints=True, bastion=True)
    az.Storage(data, containers=["outputs"], network=net)
    assert net.bastion
    net.bastion.grant_connect(az.People(data, "team", object_id=TEAM))
    az.Output(lab, "beside", value=data.place.resource_group)
    with pytest.raises(UserError, match="refer to each other") as caught:
        app.synth()
    assert "`People`" in caught.value.findings[0].hint


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        ("10.40.200.0/30", "too small for a subnet"),
        ("BASTION", "`bastion` has it"),
        ("10.40.0.0/24", "`compute` has it"),
    ],
)
def test_subnet_that_azure_would_refuse_is_refused(
    tmp_path: Path, addresses: str, said: str
) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16", bastion=True)
    bastion = str(subnet_plan(IPv4Network("10.40.0.0/16"))["bastion"])
    with pytest.raises(UserError, match=said):
        net.add_subnet("tools", addresses.replace("BASTION", bastion))


def test_rules_end_where_their_priorities_do(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    net = az.Network(lab, address_space="10.40.0.0/16")
    net.add_subnet("tools", "10.40.200.0/24")
    for number in range(400):
        net.allow_from(["10.9.0.0/24"], to="tools", name=f"Rule{number}", port=str(1000 + number))
    rules = net.security_groups["tools"].given("security_rule")
    assert max(each["priority"] for each in rules[:-1]) < rules[-1]["priority"] == 4096
    with pytest.raises(UserError, match="has 400 rules already"):
        net.allow_from(["10.9.0.0/24"], to="tools", name="More", port="80")


def test_identity_is_found_by_its_id_as_az_writes_it(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    group = f"/subscriptions/{TEAM}/resourcegroups/hub/providers"
    identity_id = f"{group}/Microsoft.ManagedIdentity/userAssignedIdentities/nodes"
    found = az.Identity.from_id(lab, "nodes", identity_id)
    assert found.resource.given("resource_group_name") == "hub"


def test_two_stacks_of_one_id_are_refused(tmp_path: Path) -> None:
    """The second would be written over the first, without a word."""
    app, _ = _lab(tmp_path)
    az.EnvironmentStack(az.Construct(app, "beside"), "lab", location="westeurope")
    with pytest.raises(UserError, match="two stacks are called `lab`: lab and beside/lab"):
        app.synth()


def test_misspelt_argument_of_a_resource_is_refused(tmp_path: Path) -> None:
    _, lab = _lab(tmp_path)
    vnet = az.Network(lab, address_space="10.40.0.0/16").virtual_network
    with pytest.raises(UserError, match="has no argument `dns_server`") as caught:
        vnet.dns_server = ["10.40.0.4"]  # type: ignore[attr-defined]
    assert caught.value.findings[0].hint == "did you mean `dns_servers`?"
    vnet.remark = "of the program's own"  # type: ignore[attr-defined]
    assert vnet.given("remark") is None


def test_resource_of_a_program_has_attributes_of_its_own_before_it_is_made(tmp_path: Path) -> None:
    class Team(ResourceGroup):
        def __init__(self, scope: az.Construct, team: str) -> None:
            self.team = team
            super().__init__(scope, team, name=team, location="westeurope")

    _, lab = _lab(tmp_path)
    assert Team(lab, "vision").team == "vision"


def test_resource_without_a_class_takes_any_argument_later(tmp_path: Path) -> None:
    class Apps(az.Resource):
        TYPE = "azurerm_container_app_environment"

    app, lab = _lab(tmp_path)
    apps = Apps(lab, "apps", {"name": "lab-cae", **lab.place.common})
    apps.zone_redundancy_enabled = True  # type: ignore[attr-defined]
    app.synth()
    document = json.loads((tmp_path / "lab.out/stacks/lab/cdk.tf.json").read_text())
    made = document["resource"]["azurerm_container_app_environment"]["apps"]
    assert made["zone_redundancy_enabled"] is True


def test_partition_is_one_scale_set() -> None:
    with pytest.raises(UserError) as caught:
        az.SlurmPartition(size="Standard_HB176rs_v4", nodes=101)
    assert caught.value.findings[0].path == "nodes"


@pytest.mark.parametrize(
    ("arguments", "id_"),
    [
        ({"ignore_checks": ["unprotected-dat"]}, "unknown-check"),
        ({"ssh_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}, "bad-argument"),
        ({"zone": 9}, "wrong-argument"),
        ({"location": "westeurop"}, "unknown-region"),
        ({"resource_group": "hub"}, "bad-argument"),
    ],
)
def test_stack_with_a_mistake_is_refused(tmp_path: Path, arguments: Any, id_: str) -> None:
    given = {"location": "eastus", **arguments}
    with pytest.raises(UserError) as caught:
        az.EnvironmentStack(az.App(outdir=str(tmp_path)), "lab", **given)
    assert caught.value.findings[0].id == id_


@pytest.mark.parametrize("more", [{"checks": False}, {"ignore_checks": ["unknown-region"]}])
def test_a_region_may_be_newer_than_the_catalogue(tmp_path: Path, more: Any) -> None:
    lab = az.EnvironmentStack(az.App(outdir=str(tmp_path)), "lab", location="newregion", **more)
    assert lab.place.location == "newregion"


def _named(folder: Path, naming: Any) -> dict[str, Any]:
    app = az.App(outdir=str(folder / "lab.out"))
    lab = az.EnvironmentStack(
        app, "lab", location="westeurope", zone=2, ssh_keys=[KEY], naming=naming
    )
    net = az.Network(lab, "net", address_space="10.40.0.0/16", private_endpoints=True)
    az.Storage(lab, "data", containers=["datasets"], network=net)
    second = az.Construct(lab, "second")
    az.place_in_group(second, environment="two", location="eastus")
    az.Network(second, "net", address_space="10.41.0.0/16", private_endpoints=False)
    return _written(app, folder)


def test_a_stack_names_by_a_pattern(tmp_path: Path) -> None:
    document = _named(tmp_path, "{type}-{name}-{environment}-{region}")
    groups = {each["name"] for each in document["resource"]["azurerm_resource_group"].values()}
    assert groups == {"rg-lab-westeurope", "rg-two-eastus"}
    account = _one(document, "azurerm_storage_account")
    assert account["name"].startswith("stlabwesteurope${")


def test_a_stack_names_by_a_function(tmp_path: Path) -> None:
    document = _named(tmp_path, lambda of: of.default if of.unique else f"corp-{of.default}")
    networks = {each["name"] for each in document["resource"]["azurerm_virtual_network"].values()}
    assert networks == {"corp-lab-vnet", "corp-two-vnet"}
    assert _one(document, "azurerm_storage_account")["name"].startswith("labst${")


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
def test_naming_that_cannot_be_is_refused(tmp_path: Path, naming: Any, id_: str, said: str) -> None:
    finding = refused(lambda: _named(tmp_path, naming))
    assert finding.id == id_
    assert said in f"{finding.message} {finding.hint}"

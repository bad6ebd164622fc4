"""Networks in an environment file, and names that a firewall in front of a network has to allow."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from environment_files import KEY, SMALLEST, fault, load

from fairway_core.catalog.tables import table
from fairway_core.documents import FieldError
from fairway_core.environment import Environment, Firewall, load_environment
from fairway_core.environment.addresses import SUBNETS
from fairway_core.environment.egress import outbound
from fairway_core.environment.network import ExistingSubnets
from fairway_core.findings import Finding
from fairway_core.resource_ids import parts_of
from fairway_core.target import SshRoute

GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub"
HUB = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hub"
ADMIN = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SERVER = "filesystems: {data: {kind: nfs_server, path: /data}}\n"


def _subnet(name: str, range_: str, network: str = HUB) -> str:
    return f"{name}: {{id: {network}/subnets/{name}, range: {range_}}}"


COMPUTE = _subnet("compute", "10.1.0.0/24")
STORAGE = _subnet("storage", "10.1.1.0/24")
ENDPOINTS = _subnet("endpoints", "10.1.2.0/24")


def _existing(*subnets: str, more: str = "") -> str:
    return f"network: {{{more}existing: {{subnets: {{{', '.join(subnets)}}}}}}}\n"


def _text(more: str, access: str = "") -> str:
    return f'{SMALLEST}access: {{ssh_keys: ["{KEY}"]{access}}}\n{more}'


def _load(tmp_path: Path, more: str, access: str = "") -> Environment:
    return load(tmp_path, _text(more, access))


def _fault(tmp_path: Path, more: str, access: str = "") -> Finding:
    finding = fault(tmp_path, _text(more, access))
    assert finding.location is not None
    return finding


def test_network_egress_through_firewall_takes_its_address(tmp_path: Path) -> None:
    more = f"network: {{egress: {{next_hop: 10.0.0.4}}, peerings: {{hub: {{network: {HUB}}}}}}}\n"
    network = _load(tmp_path, more).network
    assert network.egress == Firewall(next_hop=IPv4Address("10.0.0.4"))
    assert not network.has_nat
    assert network.peerings["hub"].both_ways
    assert not network.peerings["hub"].gateway


def test_network_existing_needs_only_subnet_ids_and_ranges(tmp_path: Path) -> None:
    # Azure ignores case in ids.
    storage = _subnet("storage", "10.1.1.0/24", HUB.replace("/hub", "/Hub"))
    environment = _load(tmp_path, _existing(COMPUTE, storage, ENDPOINTS) + SERVER)
    existing = environment.network.existing
    assert existing is not None
    assert list(existing.subnets.by_role) == ["compute", "storage", "endpoints"]
    assert existing.subnets.compute.range == IPv4Network("10.1.0.0/24")


def test_network_existing_without_endpoints_needs_only_compute_subnet(tmp_path: Path) -> None:
    environment = _load(tmp_path, _existing(COMPUTE, more="private_endpoints: false, "))
    assert environment.network.existing is not None
    assert not environment.network.has_nat


def test_network_existing_covers_every_subnet_but_the_bastion() -> None:
    assert {*ExistingSubnets.model_fields, "bastion"} == SUBNETS.keys()


def test_access_lists_bastion_and_admins(tmp_path: Path) -> None:
    access = _load(tmp_path, "", f", bastion: true, admins: [{ADMIN}]").access
    assert access.bastion
    assert access.admins == (ADMIN,)


MAIL = "monitoring: {emails: [a@example.com]}\n"


def test_access_refuses_bastion_in_existing_network(tmp_path: Path) -> None:
    finding = _fault(tmp_path, _existing(COMPUTE, ENDPOINTS), ", bastion: true")
    assert finding.path == "access.bastion"


def test_network_existing_refuses_more_nodes_than_addresses(tmp_path: Path) -> None:
    small = _subnet("compute", "10.1.0.0/29")
    text = _text(SERVER + _existing(small, STORAGE, ENDPOINTS))
    finding = fault(tmp_path, text.replace("nodes: 1", "nodes: 4, mounts: [data]"))
    assert "the nodes need 4 addresses, and 10.1.0.0/29 has 3" in finding.message
    assert finding.path == "network.existing"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{HUB}/",
        f"{HUB}\n",
        HUB.replace("1111", "111", 1),
        HUB.lower(),
        HUB.replace("/hub/", "/${var.group}/"),
        f"{GROUP}/providers/Microsoft.Network/virtualNetworks/a/b",
    ],
)
def test_network_id_that_is_invalid_suggests_the_az_command(text: str) -> None:
    with pytest.raises(FieldError, match="not the id of a virtual network") as caught:
        parts_of("virtual network", text)
    assert caught.value.hint.startswith("az network vnet show")


BASTION = f"{GROUP}/providers/Microsoft.Network/bastionHosts/hub-bas"


def test_access_reach_accepts_bastion_jump_host_or_direct(tmp_path: Path) -> None:
    access = f", ssh_route: {{bastion: {BASTION}}}"
    assert _load(tmp_path, "", access).access.ssh_route == SshRoute(bastion=BASTION)
    access = ", ssh_route: {jump: [me@gate.contoso.com]}"
    assert _load(tmp_path, "", access).access.ssh_route == SshRoute(jump=("me@gate.contoso.com",))
    assert _load(tmp_path, "", ", bastion: true, ssh_route: direct").access.ssh_route == "direct"


@pytest.mark.parametrize(
    "more",
    [
        'network: {proxy: {http: "http://10.40.1.8:3128"}}\n',
        'network: {proxy: {http: "http://proxy.example.com:3128/"}}\n',
        'network: {proxy: {http: "https://52.10.0.7:443"}}\n',
        _existing(COMPUTE, ENDPOINTS, more='proxy: {http: "http://10.0.0.8:3128"}, '),
        f'network: {{peerings: {{hub: {{network: {HUB}}}}}, proxy: {{http: "http://10.0.0.8:1"}}}}',
    ],
)
def test_network_proxy_may_be_at_any_reachable_address(tmp_path: Path, more: str) -> None:
    proxy = _load(tmp_path, more).network.proxy
    assert proxy is not None
    assert not proxy.http.endswith("/")
    assert proxy.https is None


def test_network_without_egress_but_with_proxy_is_not_closed(tmp_path: Path) -> None:
    proxy = 'proxy: {http: "http://proxy.example.com:3128"}'
    environment = _load(tmp_path, f"network: {{egress: none, {proxy}}}\n{SERVER}{MAIL}")
    assert environment.network.egress == "none"
    assert not environment.network.is_closed


SECTIONS = Path(__file__).parents[2] / "stacks" / "sections"


def _names(environment: Environment) -> set[str]:
    return {each.name for each in outbound(environment)}


def test_outbound_lists_names_that_a_firewall_must_allow() -> None:
    environment = load_environment(SECTIONS / "hub.yaml")
    assert _names(environment) == {
        "azure.archive.ubuntu.com",
        "security.ubuntu.com",
        "archive.ubuntu.com",
        "management.azure.com",
        "global.handler.control.monitor.azure.com",
        "westeurope.handler.control.monitor.azure.com",
        "WORKSPACE-ID.ods.opinsights.azure.com",
    }
    assert {each.port for each in outbound(environment)} == {80, 443}


UBUNTU, AZURE = "security.ubuntu.com", "management.azure.com"
LOGS = "westeurope.handler.control.monitor.azure.com WORKSPACE-ID.ods.opinsights.azure.com"
KUBERNETES = "mcr.microsoft.com *.hcp.westeurope.azmk8s.io registry.k8s.io"
WATCHED, DRIVERS, PATCHES = "*.monitoring.azure.com", "nvcr.io", "snapshot.ubuntu.com"
PROXY = "network.proxy.http=http://proxy.example.com:3128"
CPU = "{engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}"


@pytest.mark.parametrize(
    ("section", "changes", "named", "others"),
    [
        ("existing", [], UBUNTU, ""),
        ("own", [], LOGS, "pas.windows.net"),
        ("company", [], f"{UBUNTU} {AZURE}", ""),
        ("duo", [PROXY], AZURE, ""),
        ("duo", [PROXY, "clusters.pair.idle=", "clusters.box.idle="], UBUNTU, AZURE),
        ("pods", [], f"{KUBERNETES} {DRIVERS} {WATCHED}", PATCHES),
        ("pods", ["monitoring="], KUBERNETES, WATCHED),
        ("pods", [f"clusters={{cpu: {CPU}}}"], KUBERNETES, DRIVERS),
        ("pods", ["kubernetes.upgrades.nodes=SecurityPatch"], PATCHES, ""),
    ],
)
def test_outbound_includes_names_only_for_the_parts_of_an_environment(
    section: str, changes: list[str], named: str, others: str
) -> None:
    found = _names(load_environment(SECTIONS / f"{section}.yaml", overrides=changes))
    assert found >= {*named.split()}
    assert not found & {*others.split()}


@pytest.mark.parametrize("section", ["box", "people", "nat", "duo"])
def test_outbound_is_empty_with_own_egress(section: str) -> None:
    assert outbound(load_environment(SECTIONS / f"{section}.yaml")) == []


def test_outbound_rows_have_names_source_and_date() -> None:
    rows = table("egress")["egress"]
    kinds = "ubuntu almalinux slurm slurm-microsoft idle monitoring entra blobfuse web operators"
    kubernetes = "kubernetes kubernetes-monitoring kubernetes-patches"
    assert {row["for"] for row in rows} == {*kinds.split(), *kubernetes.split()}
    assert all(row["names"] and row["source"] and row["date"] for row in rows)

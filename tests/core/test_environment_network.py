"""The sections `network:` and `access:`: what goes together, and what is refused where."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

import pytest

from fairway_core.documents import FieldError
from fairway_core.environment import Environment, Firewall, load_environment, subnet_plan
from fairway_core.findings import Finding, UserError
from fairway_core.reach import Reach
from fairway_core.resource_ids import network_of, parts_of

if TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub"
HUB = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hub"
ADMIN = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SMALLEST = """\
name: lab
location: westeurope
clusters:
  box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}
"""
SERVER = "filesystems: {data: {kind: nfs_server, path: /data}}\n"


def _subnet(name: str, range_: str, network: str = HUB) -> str:
    return f"{name}: {{id: {network}/subnets/{name}, range: {range_}}}"


COMPUTE = _subnet("compute", "10.1.0.0/24")
STORAGE = _subnet("storage", "10.1.1.0/24")
ENDPOINTS = _subnet("endpoints", "10.1.2.0/24")


def _existing(*subnets: str, more: str = "") -> str:
    return f"network: {{{more}existing: {{subnets: {{{', '.join(subnets)}}}}}}}\n"


def _load(tmp_path: Path, more: str, access: str = "") -> Environment:
    file = tmp_path / "lab.yaml"
    file.write_text(f'{SMALLEST}access: {{ssh_keys: ["{KEY}"]{access}}}\n{more}')
    return load_environment(file)


def _fault(tmp_path: Path, more: str, access: str = "") -> Finding:
    with pytest.raises(UserError) as caught:
        _load(tmp_path, more, access)
    (finding,) = caught.value.findings
    assert finding.location is not None
    return finding


def test_a_firewall_is_named_by_its_address(tmp_path: Path) -> None:
    more = f"network: {{egress: {{next_hop: 10.0.0.4}}, peerings: {{hub: {{network: {HUB}}}}}}}\n"
    network = _load(tmp_path, more).network
    assert network.egress == Firewall(next_hop=IPv4Address("10.0.0.4"))
    assert not network.has_nat
    assert network.peerings["hub"].both_ways
    assert not network.peerings["hub"].gateway


def test_a_network_that_is_there_needs_only_its_subnets(tmp_path: Path) -> None:
    environment = _load(tmp_path, _existing(COMPUTE, STORAGE, ENDPOINTS) + SERVER)
    existing = environment.network.existing
    assert existing is not None
    assert list(existing.subnets.by_role) == ["compute", "storage", "endpoints"]
    assert existing.subnets.compute.range == IPv4Network("10.1.0.0/24")


def test_without_endpoints_and_servers_one_subnet_is_enough(tmp_path: Path) -> None:
    environment = _load(tmp_path, _existing(COMPUTE, more="private_endpoints: false, "))
    assert environment.network.existing is not None
    assert not environment.network.has_nat


def test_admins_come_through_the_bastion(tmp_path: Path) -> None:
    access = _load(tmp_path, "", f", bastion: true, admins: [{ADMIN}]").access
    assert access.bastion
    assert access.admins == (ADMIN,)


ACCESS = [
    (f", admins: [{ADMIN}]", "access.admins", "there is none"),
    (", bastion: true, admins: [me@example.com]", "access.admins.0", "not the object id"),
    (", bastion: maybe", "access.bastion", "expected true or false"),
]


@pytest.mark.parametrize(("access", "path", "message"), ACCESS, ids=lambda v: v[:30])
def test_a_fault_of_access_is_shown_at_its_field(
    tmp_path: Path, access: str, path: str, message: str
) -> None:
    finding = _fault(tmp_path, "", access)
    assert finding.path == path
    assert message in finding.message


VAULT = "vault: {}\n"
MAIL = "monitoring: {emails: [a@example.com]}\n"
FAR = HUB.replace("hub", "far")
ZONE = f"{GROUP}/providers/Microsoft.Network/privateDnsZones"
CLOSED = "private_endpoints: false"
LEADING_HUB, LEADING_FAR = (f"{{network: {network}, gateway: true}}" for network in (HUB, FAR))
FAULTS = {
    "a firewall nowhere": (
        "network: {egress: {next_hop: 10.0.0.4}}\n",
        "network.egress",
        "is in no connected network",
    ),
    "a firewall without an address": (
        "network: {egress: {next_hop: gateway}}\n",
        "network.egress.next_hop",
        "not an IPv4 address",
    ),
    "not the id of a network": (
        "network: {peerings: {hub: {network: hub}}}\n",
        "network.peerings.hub.network",
        "not the id of a virtual network",
    ),
    "the id of a subnet": (
        f"network: {{peerings: {{hub: {{network: {HUB}/subnets/a}}}}}}\n",
        "network.peerings.hub.network",
        "not the id of a virtual network",
    ),
    "the name of a peering": (
        f"network: {{peerings: {{Hub: {{network: {HUB}}}}}}}\n",
        "network.peerings.Hub",
        "part of an Azure name",
    ),
    "two gateways": (
        f"network: {{peerings: {{a: {LEADING_HUB}, b: {LEADING_FAR}}}}}\n",
        "network.peerings.b.gateway",
        "gateway of only one other",
    ),
    "no way to install a server": (
        f"network: {{egress: none}}\n{SERVER}",
        "filesystems.data",
        "installs its NFS server",
    ),
    "no way to send logs": (
        f"network: {{egress: none}}\n{MAIL}",
        "network.egress",
        "could not send their logs",
    ),
    "a vault that knows nobody": (
        f"network: {{egress: none, {CLOSED}}}\n{VAULT}",
        "network.private_endpoints",
        "could not reach the vault",
    ),
    "storage without a way": (
        f"network: {{{CLOSED}, service_endpoints: []}}\n",
        "network.service_endpoints",
        "service endpoint of their subnet",
    ),
    "an unknown service": (
        "network: {service_endpoints: [Microsoft.Everything]}\n",
        "network.service_endpoints.0",
        "expected one of",
    ),
    "existing and a range": (
        _existing(COMPUTE, ENDPOINTS, more="address_space: 10.1.0.0/16, "),
        "network.address_space",
        "has no effect",
    ),
    "existing and a way out": (
        _existing(COMPUTE, ENDPOINTS, more="egress: nat, "),
        "network.egress",
        "has no effect",
    ),
    "existing without compute": (
        _existing(STORAGE),
        "network.existing.subnets.compute",
        "",
    ),
    "existing without endpoints": (
        _existing(COMPUTE),
        "network.existing.subnets",
        "no subnet for private endpoints",
    ),
    "existing without storage": (
        _existing(COMPUTE, ENDPOINTS) + SERVER,
        "network.existing.subnets",
        "no subnet for `data`",
    ),
    "existing without several": (
        _existing(COMPUTE) + "filesystems: {data: {kind: nfs_server, path: /data}, "
        "flex: {kind: netapp, path: /flex}}\n",
        "network.existing.subnets",
        "no subnet for `data`, `flex`, private endpoints",
    ),
    "a password for a proxy": (
        'network: {proxy: {http: "http://me:hunter2@proxy.example.com:3128"}}\n',
        "network.proxy.http",
        "a user or password in a proxy's address would be kept",
    ),
    "a user of a proxy": (
        'network: {proxy: {http: "http://p:80", https: "http://me@p:80"}}\n',
        "network.proxy.https",
        "a user or password in a proxy's address",
    ),
    "a proxy without a port": (
        'network: {proxy: {http: "http://proxy.example.com"}}\n',
        "network.proxy.http",
        "is not the address of a proxy",
    ),
    "a proxy at no port": (
        'network: {proxy: {http: "http://proxy.example.com:99999"}}\n',
        "network.proxy.http",
        "is not the address of a proxy",
    ),
    "a proxy with a command": (
        'network: {proxy: {http: "http://p:80;reboot"}}\n',
        "network.proxy.http",
        "is not the address of a proxy",
    ),
    "a proxy of another kind": (
        'network: {proxy: {http: "socks5://p:1080"}}\n',
        "network.proxy.http",
        "is not the address of a proxy",
    ),
    "a proxy for https alone": (
        'network: {proxy: {https: "http://p:80"}}\n',
        "network.proxy.http",
        "",
    ),
    "two names in one": (
        'network: {proxy: {http: "http://p:80", no_proxy: ["a.com,b.com"]}}\n',
        "network.proxy.no_proxy.0",
        "is neither a name nor an address",
    ),
    "a proxy nowhere": (
        'network: {proxy: {http: "http://10.0.0.8:3128"}}\n',
        "network.proxy",
        " 10.0.0.8",
    ),
    "a proxy for https nowhere": (
        'network: {proxy: {http: "http://p:80", https: "http://10.0.0.8:3128"}}\n',
        "network.proxy",
        " 10.0.0.8",
    ),
    "a proxy on an internet that is closed": (
        'network: {egress: none, proxy: {http: "http://4.4.4.4:3128"}}\n',
        "network.proxy",
        " 4.4.4.4",
    ),
    "DNS servers of a network of others": (
        _existing(COMPUTE, ENDPOINTS, more="dns: {servers: [10.0.0.4]}, "),
        "network.dns.servers",
        "the owner of an existing network sets its DNS servers",
    ),
    "zones without endpoints": (
        f"network: {{{CLOSED}, dns: {{zones: none}}}}\n",
        "network.dns.zones",
        "there are no private DNS zones",
    ),
    "a DNS server by name": (
        "network: {dns: {servers: [dns.contoso.com]}}\n",
        "network.dns.servers.0",
        "not an IPv4 address",
    ),
    "a zone of another service": (
        f"network: {{dns: {{zones: {{blob: {ZONE}/privatelink.batch.azure.com}}}}}}\n",
        "network.dns.zones.blob",
        "not the zone of `blob`",
    ),
    "a zone of no service": (
        f"network: {{dns: {{zones: {{blobs: {ZONE}/privatelink.batch.azure.com}}}}}}\n",
        "network.dns.zones.blobs",
        "there is no service `blobs`",
    ),
    "zones that lack services": (
        f"network: {{dns: {{zones: {{batch: {ZONE}/privatelink.batch.azure.com}}}}}}\n" + VAULT,
        "network.dns.zones",
        "no zone for blob, vault: nodes could not resolve their names",
    ),
    "existing in two networks": (
        _existing(COMPUTE, _subnet("storage", "10.1.1.0/24", FAR), ENDPOINTS),
        "network.existing.subnets.storage.id",
        "different virtual networks",
    ),
    "existing that overlap": (
        _existing(COMPUTE, _subnet("storage", "10.1.0.128/25"), ENDPOINTS),
        "network.existing.subnets.storage.range",
        "addresses in common",
    ),
    "existing in InfiniBand's range": (
        _existing(_subnet("compute", "172.16.0.0/24"), ENDPOINTS),
        "network.existing.subnets.compute.range",
        "InfiniBand uses inside each VM",
    ),
    "existing and a vault outside": (
        _existing(COMPUTE, more=f"{CLOSED}, ") + VAULT,
        "network.private_endpoints",
        "could not reach the vault",
    ),
}


@pytest.mark.parametrize(("text", "path", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_the_network_is_shown_at_its_field(
    tmp_path: Path, text: str, path: str, message: str
) -> None:
    finding = _fault(tmp_path, text)
    assert finding.path == path
    assert message in finding.message


def test_a_bastion_has_no_room_in_a_network_of_others(tmp_path: Path) -> None:
    finding = _fault(tmp_path, _existing(COMPUTE, ENDPOINTS), ", bastion: true")
    assert finding.path == "access.bastion"


def test_nodes_find_an_address_each_in_a_subnet_that_is_there(tmp_path: Path) -> None:
    small = _subnet("compute", "10.1.0.0/29")
    cluster = "clusters:\n  box: {engine: ssh, size: Standard_HB176rs_v4, nodes: 4, mounts: [data]}"
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n{cluster}\n{SERVER}"
        + _existing(small, STORAGE, ENDPOINTS)
    )
    with pytest.raises(UserError, match="4 nodes do not fit in the 3 addresses") as caught:
        load_environment(file)
    assert caught.value.findings[0].path == "network.existing"


def test_the_bastion_has_its_block_for_ever() -> None:
    plan = subnet_plan(IPv4Network("10.40.0.0/16"))
    assert str(plan["bastion"]) == "10.40.152.0/21"
    assert subnet_plan(IPv4Network("10.40.0.0/21"))["bastion"].prefixlen == 26


class TestIds:
    def test_a_subnet_knows_its_network(self) -> None:
        assert network_of(f"{HUB}/subnets/a") == HUB
        parts = parts_of("subnet", f"{HUB}/subnets/a")
        assert (parts["resource_group"], parts["network"], parts["name"]) == ("hub", "hub", "a")

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
    def test_anything_else_is_refused_with_the_command_that_shows_it(self, text: str) -> None:
        with pytest.raises(FieldError, match="not the id of a virtual network") as caught:
            parts_of("virtual network", text)
        assert caught.value.hint.startswith("az network vnet show")


BASTION = f"{GROUP}/providers/Microsoft.Network/bastionHosts/hub-bas"


def test_nodes_are_reached_by_what_is_named(tmp_path: Path) -> None:
    access = f", reach: {{bastion: {BASTION}}}"
    assert _load(tmp_path, "", access).access.reach == Reach(bastion=BASTION)
    access = ", reach: {jump: [me@gate.contoso.com]}"
    assert _load(tmp_path, "", access).access.reach == Reach(jump=("me@gate.contoso.com",))
    assert _load(tmp_path, "", ", bastion: true, reach: direct").access.reach == "direct"


@pytest.mark.parametrize(
    ("reach", "message", "hint"),
    [
        ("direct", "reached directly anyway", "leave it out"),
        ("{jump: [me@a me@b]}", "is not a jump host", "one per item"),
        ("{bastion: hub-bas}", "not the id of a Bastion", "az network bastion show"),
        ("{bastion: '${evil}'}", "not the id of a Bastion", "az network bastion show"),
    ],
)
def test_a_way_that_leads_nowhere_is_refused(
    tmp_path: Path, reach: str, message: str, hint: str
) -> None:
    fault = _fault(tmp_path, "", f", reach: {reach}")
    assert message in fault.message
    assert hint in fault.hint
    assert fault.path.startswith("access.reach")


def test_a_password_of_a_proxy_is_in_no_message(tmp_path: Path) -> None:
    more = 'network: {proxy: {http: "http://me:hunter2@proxy.example.com:3128"}}\n'
    finding = _fault(tmp_path, more)
    assert "hunter2" not in f"{finding.message} {finding.hint}"
    assert "without a sign-in" in finding.hint


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
def test_a_proxy_may_be_wherever_the_network_leads(tmp_path: Path, more: str) -> None:
    proxy = _load(tmp_path, more).network.proxy
    assert proxy is not None
    assert not proxy.http.endswith("/")
    assert proxy.https is None


def test_with_a_proxy_a_closed_network_reaches_what_it_installs(tmp_path: Path) -> None:
    proxy = 'proxy: {http: "http://proxy.example.com:3128"}'
    environment = _load(tmp_path, f"network: {{egress: none, {proxy}}}\n{SERVER}{MAIL}")
    assert environment.network.egress == "none"
    assert not environment.network.is_closed

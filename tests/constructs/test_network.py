"""The network: one egress, closed except to named ranges; bastion, peerings, existing subnets."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
from endings import refused

import fairway_constructs as az
from fairway_core.checks import CheckContext, check_stack
from fairway_core.environment import Firewall

Synthesize = Callable[[Callable[[az.Stack], object]], dict[str, Any]]

SPACE = IPv4Network("10.40.0.0/16")
ROLES = ("compute", "storage", "management")
ALLOWED = [IPv4Network("203.0.113.0/24"), IPv4Network("198.51.100.7/32")]
ADMIN = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
HUB = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hub-rg/providers"
    "/Microsoft.Network/virtualNetworks/hub"
)

# Rules that Azure requires of a bastion's subnet: direction, source, destination, ports.
# Source: Azure documentation, configure NSG rules for Azure Bastion.
REQUIRED = {
    ("Inbound", "Internet", "*", "443"),
    ("Inbound", "GatewayManager", "*", "443"),
    ("Inbound", "AzureLoadBalancer", "*", "443"),
    ("Inbound", "VirtualNetwork", "VirtualNetwork", "5701"),
    ("Inbound", "VirtualNetwork", "VirtualNetwork", "8080"),
    ("Outbound", "*", "VirtualNetwork", "22"),
    ("Outbound", "*", "VirtualNetwork", "3389"),
    ("Outbound", "*", "AzureCloud", "443"),
    ("Outbound", "VirtualNetwork", "VirtualNetwork", "5701"),
    ("Outbound", "VirtualNetwork", "VirtualNetwork", "8080"),
    ("Outbound", "*", "Internet", "80"),
}


def _network(synthesize: Synthesize, **options: Any) -> dict[str, Any]:
    """Returns the resources of a network with these options."""
    document = synthesize(lambda stack: az.Network(stack, address_space=SPACE, **options))
    resources: dict[str, Any] = document["resource"]
    return resources


def _values(rule: dict[str, Any], one: str, several: str) -> list[str]:
    """Returns whichever of a rule's two arguments is set; the other is null."""
    values: list[str] = [rule[one]] if rule[one] != "${null}" else rule[several]
    return values


def _openings(group: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """Returns traffic that a group's rules allow: direction, source, target and port."""
    found = set()
    for rule in group["security_rule"]:
        sources = _values(rule, "source_address_prefix", "source_address_prefixes")
        targets = _values(rule, "destination_address_prefix", "destination_address_prefixes")
        ports = _values(rule, "destination_port_range", "destination_port_ranges")
        if rule["access"] == "Allow":
            found |= {
                (rule["direction"], source, target, port)
                for source in sources
                for target in targets
                for port in ports
            }
    return found


def _faults(stack: dict[str, Any], context: CheckContext) -> set[str]:
    """Returns the checks that a stack fails, except on tags, which come from the fixture."""
    return {finding.id for finding in check_stack(stack, context, ignore=["untagged"])}


def _rules(resources: dict[str, Any], role: str) -> dict[str, Any]:
    group = resources["azurerm_network_security_group"][f"{role}-rules"]
    return {rule["name"]: rule for rule in group["security_rule"]}


def test_network_gives_each_role_a_subnet_with_rules_and_nat(synthesize: Synthesize) -> None:
    resources = _network(synthesize)
    assert set(resources["azurerm_subnet"]) == set(ROLES)
    for role in ROLES:
        subnet = resources["azurerm_subnet"][role]
        assert subnet["name"] == f"lab-snet-{role}"
        assert subnet["default_outbound_access_enabled"] is False
        # Only compute has a service endpoint for blob storage.
        own = [{"service": "Microsoft.Storage"}] if role == "compute" else None
        assert subnet.get("service_endpoint") == own
        subnet_id = f"${{azurerm_subnet.{role}.id}}"
        rules = resources["azurerm_subnet_network_security_group_association"][f"{role}-has-rules"]
        assert rules["subnet_id"] == subnet_id
        group = f"${{azurerm_network_security_group.{role}-rules.id}}"
        assert rules["network_security_group_id"] == group
        nat = resources["azurerm_subnet_nat_gateway_association"][f"{role}-has-nat"]
        assert nat["subnet_id"] == subnet_id
    # The only public address is the NAT gateway's.
    assert list(resources["azurerm_public_ip"]) == ["nat-address"]
    assert resources["azurerm_public_ip"]["nat-address"]["zones"] == ["2"]
    (association,) = resources["azurerm_nat_gateway_public_ip_association"].values()
    assert association["public_ip_address_id"] == "${azurerm_public_ip.nat-address.id}"


def test_network_rules_admit_only_nfs_to_storage_and_traffic_between_nodes(
    synthesize: Synthesize,
) -> None:
    resources = _network(synthesize)
    storage = _rules(resources, "storage")
    nfs = storage["AllowNfsFromCompute"]
    assert nfs["source_address_prefixes"] == ["10.40.0.0/17"]
    assert nfs["destination_address_prefixes"] == ["10.40.128.0/21"]
    assert (nfs["destination_port_range"], nfs["protocol"]) == ("2049", "Tcp")
    ports = {r["destination_port_range"] for r in storage.values() if r["access"] == "Allow"}
    assert ports == {"2049", "22"}
    rule = _rules(resources, "compute")["AllowComputeToCompute"]
    assert rule["source_address_prefixes"] == rule["destination_address_prefixes"]
    assert (rule["destination_port_range"], rule["protocol"]) == ("*", "*")
    for role in ROLES:
        *rules, last = _rules(resources, role).values()
        assert all(rule["access"] == "Allow" for rule in rules)
        sources = [each for rule in rules for each in rule["source_address_prefixes"]]
        assert all(IPv4Network(source).subnet_of(SPACE) for source in sources)
        keys = ("source_address_prefix", "destination_port_range", "protocol")
        assert (last["access"], *(last[key] for key in keys)) == ("Deny", "*", "*", "*")


def test_network_rules_admit_only_ssh_from_allowed_ranges(synthesize: Synthesize) -> None:
    # Azure takes no rule with a range inside another.
    inside = IPv4Network("203.0.113.64/26")
    resources = _network(synthesize, allowed=[inside, *ALLOWED, ALLOWED[0]])
    for role in ROLES:
        rules = _rules(resources, role)
        named = [str(each) for each in ALLOWED]
        (ssh,) = (each for each in rules.values() if each["source_address_prefixes"] == named)
        assert (ssh["name"], ssh["destination_port_range"]) == ("AllowSshFromNamedRanges", "22")
        priorities = [rule["priority"] for rule in rules.values()]
        assert priorities == sorted(set(priorities)), "the last rule comes last"


class TestBastion:
    def test_bastion_host_has_its_subnet_and_exactly_the_rules_that_azure_requires(
        self, synthesize: Synthesize
    ) -> None:
        resources = _network(synthesize, bastion=True)
        subnet = resources["azurerm_subnet"]["bastion"]
        assert subnet["name"] == "AzureBastionSubnet"
        assert subnet["address_prefixes"] == ["10.40.152.0/21"]
        host = resources["azurerm_bastion_host"]["bastion-host"]
        assert host["sku"] == "Standard"
        assert host["tunneling_enabled"] is True
        assert host["ip_connect_enabled"] is True
        assert host["ip_configuration"]["subnet_id"] == "${azurerm_subnet.bastion.id}"
        waits = "azurerm_subnet_network_security_group_association.bastion-has-rules"
        assert host["depends_on"] == [waits]
        assert "bastion-has-nat" not in resources["azurerm_subnet_nat_gateway_association"]
        groups = resources["azurerm_network_security_group"]
        rules = groups["bastion-rules"]
        assert _openings(rules) == REQUIRED
        last = rules["security_rule"][-1]
        assert (last["access"], last["direction"], last["priority"]) == ("Deny", "Inbound", 4096)
        for direction in ("Inbound", "Outbound"):
            numbers = [r["priority"] for r in rules["security_rule"] if r["direction"] == direction]
            assert len(set(numbers)) == len(numbers)
        # The bastion reaches nodes and servers only by ssh.
        for role in ROLES:
            opened = _openings(groups[f"{role}-rules"])
            assert {line[3] for line in opened if line[1] == "10.40.152.0/21"} == {"22"}

    def test_bastion_https_is_open_to_allowed_ranges_and_azure_services_only(
        self, synthesize: Synthesize
    ) -> None:
        ranges = ["203.0.113.0/24", "10.1.0.0/16", "203.0.113.7/32"]
        resources = _network(synthesize, bastion=True, allowed=ranges)
        opened = _openings(resources["azurerm_network_security_group"]["bastion-rules"])
        https = {line[1] for line in opened if line[0] == "Inbound" and line[3] == "443"}
        assert https == {"203.0.113.0/24", "GatewayManager", "AzureLoadBalancer"}

    def test_bastion_moves_no_subnet_passes_checks_and_is_readable_by_admins(
        self, synthesize: Synthesize
    ) -> None:
        before = _network(synthesize)
        after = _network(synthesize, bastion=True, admins=[ADMIN])
        for kind, instances in before.items():
            if kind != "azurerm_network_security_group":
                assert {name: after[kind][name] for name in instances} == instances
        stack = {"resource": after}
        assert not _faults(stack, CheckContext(bastion=True))
        assert _faults(stack, CheckContext(bastion=False)) == {"open-to-internet", "public-address"}
        (grant,) = after["azurerm_role_assignment"].values()
        assert grant["role_definition_name"] == "Reader"
        assert grant["scope"] == "${azurerm_bastion_host.bastion-host.id}"
        assert grant["principal_id"] == ADMIN
        assert grant["description"]


class TestFileSystems:
    def test_network_file_system_subnets_move_no_other_and_netapp_has_no_nat(
        self, synthesize: Synthesize
    ) -> None:
        before = _network(synthesize, private_endpoints=True)["azurerm_subnet"]
        after = _network(synthesize, private_endpoints=True, filesystems={"netapp", "lustre"})
        assert {name: after["azurerm_subnet"][name] for name in before} == before
        assert set(after["azurerm_subnet"]) - set(before) == {"netapp", "lustre"}
        (delegation,) = after["azurerm_subnet"]["netapp"]["delegation"]
        delegated = delegation["service_delegation"]
        assert delegated["name"] == "Microsoft.Netapp/volumes"
        assert "Microsoft.Network/virtualNetworks/subnets/join/action" in delegated["actions"]
        assert "netapp-has-nat" not in after["azurerm_subnet_nat_gateway_association"]
        assert set(_rules(after, "netapp")) == {"AllowNfsFromCompute", "DenyEverythingElse"}

    def test_network_rules_let_lustre_and_nodes_connect(self, synthesize: Synthesize) -> None:
        resources = _network(
            synthesize, private_endpoints=True, filesystems={"lustre"}, allowed=ALLOWED
        )
        rules = _rules(resources, "lustre")
        assert set(rules) == {
            "AllowLustreToLustre",
            "AllowLustreFromCompute",
            "AllowAzureMonitor",
            "DenyEverythingElse",
        }
        ports = ["988", "1019-1023"]
        assert rules["AllowLustreFromCompute"]["destination_port_ranges"] == ports
        back = _rules(resources, "compute")["AllowLustreToCompute"]
        assert back["destination_port_ranges"] == ports
        assert back["source_address_prefixes"] == ["10.40.168.0/21"]
        inside = _rules(resources, "endpoints")["AllowHttpsFromInside"]
        assert "10.40.168.0/21" in inside["source_address_prefixes"], "it reads Blob storage"

    def test_network_rules_for_nfs_3_open_only_its_fixed_ports(
        self, synthesize: Synthesize
    ) -> None:
        before, after = (
            _network(synthesize, private_endpoints=True, nfs_3=on) for on in (False, True)
        )
        for role, rule, ports in (
            ("storage", "AllowNfs3FromCompute", ["111", "20048", "32765", "32803"]),
            ("compute", "AllowNfs3FromStorage", ["111", "32765", "32803"]),
        ):
            old, new = _rules(before, role), _rules(after, role)
            assert {name: new[name] for name in old} == old
            assert set(new) - set(old) == {rule}
            assert new[rule]["destination_port_ranges"] == ports


class TestEgress:
    def test_egress_none_makes_no_nat_public_address_or_route(self, synthesize: Synthesize) -> None:
        resources = _network(synthesize, egress="none")
        assert not {kind for kind in resources if "nat" in kind or "public_ip" in kind}
        assert "azurerm_route_table" not in resources
        for subnet in resources["azurerm_subnet"].values():
            assert subnet["default_outbound_access_enabled"] is False

    def test_egress_through_firewall_routes_internet_traffic_to_it(
        self, synthesize: Synthesize
    ) -> None:
        egress = Firewall(next_hop=IPv4Address("10.0.0.4"))
        resources = _network(synthesize, egress=egress)
        assert "azurerm_public_ip" not in resources
        (route,) = resources["azurerm_route_table"]["firewall-routes"]["route"]
        assert route == {
            "name": "internet",
            "address_prefix": "0.0.0.0/0",
            "next_hop_type": "VirtualAppliance",
            "next_hop_in_ip_address": "10.0.0.4",
        }
        links = resources["azurerm_subnet_route_table_association"]
        assert set(links) == {f"{role}-has-routes" for role in resources["azurerm_subnet"]}

    def test_network_service_endpoints_of_compute_follow_the_argument(
        self, synthesize: Synthesize
    ) -> None:
        names = ["Microsoft.Storage", "Microsoft.KeyVault"]
        subnets = _network(synthesize, service_endpoints=names)["azurerm_subnet"]
        assert subnets["compute"]["service_endpoint"] == [{"service": name} for name in names]
        none = _network(synthesize, service_endpoints=[])["azurerm_subnet"]
        assert "service_endpoint" not in none["compute"]

    @pytest.mark.parametrize("private", [False, True])
    def test_network_whose_nodes_could_not_reach_a_vault_is_refused(
        self, synthesize: Synthesize, private: bool
    ) -> None:
        """The vault admits the address of the NAT gateway, from which nodes then do not come."""

        def build(stack: az.Stack) -> None:
            network = az.Network(
                stack,
                address_space=SPACE,
                service_endpoints=["Microsoft.KeyVault"],
                private_endpoints=private,
            )
            az.SlurmSharedState(stack, disk_gib=64, egress_address=network.egress_address)

        if private:
            synthesize(build)
        else:
            finding = refused(lambda: synthesize(build))
            assert finding.id == "bad-argument"
            assert "`Microsoft.KeyVault`" in finding.hint


def _peered(synthesize: Synthesize, **values: Any) -> dict[str, Any]:
    def build(stack: az.Stack) -> None:
        network = az.Network(stack, address_space=SPACE)
        az.Peering(stack, "hub", network=network, remote_id=HUB, forwarded=True, **values)

    return synthesize(build)


class TestPeering:
    @pytest.mark.parametrize("gateway", [True, False])
    def test_peering_makes_both_halves_each_in_its_subscription(
        self, synthesize: Synthesize, gateway: bool
    ) -> None:
        document = _peered(synthesize, gateway=gateway)
        halves = document["resource"]["azurerm_virtual_network_peering"]
        near, far = halves["peering-to-hub"], halves["peering-from-hub"]
        assert near["remote_virtual_network_id"] == HUB
        assert near["allow_forwarded_traffic"] is True
        assert far["remote_virtual_network_id"] == "${azurerm_virtual_network.vnet.id}"
        assert (far["resource_group_name"], far["virtual_network_name"]) == ("hub-rg", "hub")
        assert far["provider"] == "azurerm.hub"
        providers = document["provider"]["azurerm"]
        assert {p.get("alias"): p.get("subscription_id") for p in providers} == {
            None: None,
            "hub": SUBSCRIPTION,
        }
        # The far half must offer its gateway before the near half uses it.
        assert near["use_remote_gateways"] is far["allow_gateway_transit"] is gateway
        assert near["allow_gateway_transit"] is far["use_remote_gateways"] is False
        assert near["depends_on"] == ["azurerm_virtual_network_peering.peering-from-hub"]

    def test_peering_one_way_makes_only_the_near_half(self, synthesize: Synthesize) -> None:
        document = _peered(synthesize, both_ways=False)
        halves = document["resource"]["azurerm_virtual_network_peering"]
        assert list(halves) == ["peering-to-hub"]
        assert halves["peering-to-hub"]["use_remote_gateways"] is False
        assert len(document["provider"]["azurerm"]) == 1


EXISTING = {
    role: (f"{HUB}/subnets/{role}", range_)
    for role, range_ in (("compute", "10.1.0.0/20"), ("endpoints", "10.1.16.0/24"))
}


@pytest.mark.parametrize("private", [False, True])
def test_network_from_existing_subnets_makes_nothing_but_endpoints(
    synthesize: Synthesize, private: bool
) -> None:
    networks: list[az.INetwork] = []

    def build(stack: az.Stack) -> None:
        network = az.Network.from_subnets(stack, "network", EXISTING, private_endpoints=private)
        networks.append(network)
        if network.endpoints:
            network.endpoints.connect(stack, "storage", service="blob", resource_id="/account")

    document = synthesize(build)
    (network,) = networks
    assert network.egress_address == ""
    assert network.subnets["compute"].id == f"{HUB}/subnets/compute"
    assert network.subnets["compute"].address_pattern == "10.1.*"
    # Terraform stops if a range is wrong.
    output = document["output"]["subnet_compute"]
    assert output["precondition"]["condition"] == (
        '${contains(data.azurerm_subnet.compute.address_prefixes, "10.1.0.0/20")}'
    )
    assert (
        "correct that of the existing subnet `compute`" in output["precondition"]["error_message"]
    )
    subnet = document["data"]["azurerm_subnet"]["compute"]
    assert subnet["name"] == "compute"
    assert subnet["virtual_network_name"] == "hub"
    assert subnet["resource_group_name"] == "hub-rg"
    if not private:
        assert "resource" not in document
        return
    resources = document["resource"]
    (link,) = resources["azurerm_private_dns_zone_virtual_network_link"].values()
    assert link["virtual_network_id"] == HUB
    (endpoint,) = resources["azurerm_private_endpoint"].values()
    assert endpoint["subnet_id"] == f"{HUB}/subnets/endpoints"

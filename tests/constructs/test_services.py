"""Storage, registry, vault, keys and endpoints: closed, without passwords, and hard to lose."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from typing import Any

import pytest

import fairway_constructs as az
from fairway_constructs.network_access import public_addresses, public_ranges
from fairway_core.findings import UserError

Synthesize = Callable[..., dict[str, Any]]


VNET = (
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
    "/Microsoft.Network/virtualNetworks/hub"
)


def _storage(synthesize: Synthesize, **arguments: Any) -> dict[str, Any]:
    return synthesize(lambda stack: az.Storage(stack, containers=["datasets", "code"], **arguments))


def test_storage_has_no_keys_or_public_access_and_keeps_deleted_data(
    synthesize: Synthesize,
) -> None:
    nodes = az.SubnetRef(f"{VNET}/subnets/nodes", IPv4Network("10.1.0.0/24"))
    document = _storage(synthesize, subnets=[nodes])
    account = document["resource"]["azurerm_storage_account"]["storage"]
    for closed in (
        "shared_access_key_enabled",
        "allow_nested_items_to_be_public",
        "cross_tenant_replication_enabled",
        "local_user_enabled",
    ):
        assert account[closed] is False, closed
    assert account["min_tls_version"] == "TLS1_2"
    assert account["https_traffic_only_enabled"] is True
    assert account["infrastructure_encryption_enabled"] is True
    assert account["network_rules"] == {
        "default_action": "Deny",
        "bypass": ["AzureServices"],
        "virtual_network_subnet_ids": [f"{VNET}/subnets/nodes"],
        "ip_rules": [],
    }
    properties = account["blob_properties"]
    assert properties["versioning_enabled"] is True
    assert properties["delete_retention_policy"]["days"] >= 7
    assert properties["container_delete_retention_policy"]["days"] >= 7
    containers = document["resource"]["azurerm_storage_container"]
    assert {c["name"] for c in containers.values()} == {"datasets", "code"}
    assert {c["container_access_type"] for c in containers.values()} == {"private"}


def test_storage_name_is_given_or_made_unique_by_subscription(
    synthesize: Synthesize,
) -> None:
    document = _storage(synthesize)
    assert document["resource"]["azurerm_storage_account"]["storage"]["name"] == (
        'labst${substr(sha256(join("-", '
        '[data.azurerm_client_config.current.subscription_id, "lab"])), 0, 8)}'
    )
    assert "current" in document["data"]["azurerm_client_config"]
    document = _storage(synthesize, account="contosodata")
    assert document["resource"]["azurerm_storage_account"]["storage"]["name"] == "contosodata"
    assert "data" not in document
    with pytest.raises(UserError, match="not a valid name for a storage account"):
        _storage(synthesize, account="Contoso-Data")


def test_storage_from_id_grants_roles_on_its_containers(synthesize: Synthesize) -> None:
    account = (
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers"
        "/Microsoft.Storage/storageAccounts/theirs"
    )

    def build(stack: az.Stack) -> None:
        nodes = az.Identity(stack, "nodes")
        az.Storage.from_id(stack, "shared", account, containers=["raw"]).grant_read(nodes)
        az.Storage(stack, containers=["outputs"]).grant_read_write(nodes)
        with pytest.raises(UserError, match="not the id of a storage account"):
            az.Storage.from_id(stack, "other", "/subscriptions/x")

    document = synthesize(build)
    grants = document["resource"]["azurerm_role_assignment"]
    assert {name: one["role_definition_name"] for name, one in grants.items()} == {
        "nodes-shared-raw": "Storage Blob Data Reader",
        "nodes-outputs": "Storage Blob Data Contributor",
    }
    assert grants["nodes-shared-raw"]["scope"].endswith(
        "/theirs/blobServices/default/containers/raw"
    )
    assert set(document["data"]["azurerm_storage_container"]) == {"container-raw"}


OFFICE = [IPv4Network("203.0.113.0/24"), IPv4Network("10.0.0.0/8")]

SUBNET = az.SubnetRef("/subnet", IPv4Network("10.40.0.0/24"))


def test_public_ranges_and_addresses_have_the_form_services_accept() -> None:
    texts = ("10.1.0.0/16", "172.20.0.0/16", "192.168.1.0/24", "100.64.0.0/16", "127.0.0.1/32")
    private = [IPv4Network(each) for each in texts]
    assert (public_ranges(private), public_addresses(private)) == ([], [])
    ranges = [IPv4Network(text) for text in ("8.8.8.8/32", "8.8.4.4/31", "8.8.0.0/30")]
    assert public_addresses(ranges) == ["8.8.8.8", "8.8.4.4", "8.8.4.5", "8.8.0.0/30"]
    assert public_ranges(ranges) == ["8.8.8.8/32", "8.8.4.4/31", "8.8.0.0/30"]


@pytest.mark.parametrize(
    ("given", "public", "ranges"),
    [
        ({}, False, []),
        ({"allowed": OFFICE}, True, ["203.0.113.0/24"]),
        ({"egress_address": "4.5.6.7"}, True, ["4.5.6.7/32"]),
        ({"sku": "Standard", "allowed": OFFICE}, True, []),
    ],
)
def test_registry_has_no_password_and_admits_allowed_ranges_if_premium(
    synthesize: Synthesize, given: dict[str, Any], public: bool, ranges: list[str]
) -> None:
    def build(stack: az.Stack) -> None:
        az.Registry(stack, **given).grant_pull(az.Identity(stack, "nodes"))

    resources = synthesize(build)["resource"]
    registry = resources["azurerm_container_registry"]["registry"]
    assert registry["admin_enabled"] is registry["anonymous_pull_enabled"] is False
    assert registry["public_network_access_enabled"] is public
    rules = [{"action": "Allow", "ip_range": each} for each in ranges]
    wanted = [{"default_action": "Deny", "ip_rule": rules}] if rules else None
    assert registry.get("network_rule_set") == wanted
    premium = (registry.get("retention_policy_in_days"), registry.get("zone_redundancy_enabled"))
    assert premium == ((30, True) if registry["sku"] == "Premium" else (None, None))
    assert registry["name"].startswith("labcr${substr(sha256(")
    (grant,) = resources["azurerm_role_assignment"].values()
    assert grant["role_definition_name"] == "AcrPull"
    assert grant["scope"] == "${azurerm_container_registry.registry.id}"


class TestVault:
    """The key vault and its keys."""

    @pytest.mark.parametrize("ranges", [[], ["203.0.113.0/24", "4.5.6.7/32"]])
    def test_vault_uses_roles_and_admits_only_allowed_ranges_and_egress(
        self, synthesize: Synthesize, ranges: list[str]
    ) -> None:
        given: dict[str, Any] = {"allowed": OFFICE, "egress_address": "4.5.6.7"} if ranges else {}
        named = partial(synthesize, environment="twelve-chars")
        made = named(lambda stack: az.Vault(stack, **given))["resource"]["azurerm_key_vault"]
        vault = made["vault"]
        assert vault["rbac_authorization_enabled"] is True
        assert vault["purge_protection_enabled"] is True
        assert vault["soft_delete_retention_days"] == 90
        assert vault["public_network_access_enabled"] is bool(ranges)
        rules = {"ip_rules": ranges} if ranges else {}
        closed = {"default_action": "Deny", "bypass": "AzureServices"}
        assert vault["network_acls"] == {**closed, **rules}
        assert "access_policy" not in vault
        assert vault["lifecycle"]["prevent_destroy"] is True
        # The name fits even with the longest name of an environment.
        stem, _, expression = vault["name"].partition("${")
        assert expression.endswith(", 0, 8)}")
        assert len(stem) + 8 <= 24

    @pytest.mark.parametrize(("sku", "kind"), [("standard", "RSA"), ("premium", "RSA-HSM")])
    def test_vault_key_is_deployed_by_management_plane_and_granted_to_account(
        self, synthesize: Synthesize, sku: Any, kind: str
    ) -> None:
        def build(stack: az.Stack) -> None:
            key = az.Vault(stack, sku=sku).customer_managed_key("storage")
            az.Storage(stack, containers=["outputs"], customer_managed_key=key)

        resources = synthesize(build)["resource"]
        assert "azurerm_key_vault_key" not in resources
        (deployment,) = resources["azurerm_resource_group_template_deployment"].values()
        (key,) = json.loads(deployment["template_content"])["resources"]
        assert key["type"] == "Microsoft.KeyVault/vaults/keys"
        assert key["apiVersion"] >= "2026-02-01", "Azure retires all before in February 2027"
        assert key["properties"]["kty"] == kind
        assert key["properties"]["keyOps"] == ["wrapKey", "unwrapKey"]
        parameters = json.loads(deployment["parameters_content"])
        assert parameters == {
            "vault": {"value": "${azurerm_key_vault.vault.name}"},
            "key": {"value": "storage"},
        }
        # The account has one role on the key, assigned beforehand.
        ((name, grant),) = resources["azurerm_role_assignment"].items()
        assert grant["role_definition_name"] == "Key Vault Crypto Service Encryption User"
        assert grant["scope"] == "${azurerm_key_vault.vault.id}/keys/storage"
        account = resources["azurerm_storage_account"]["storage"]
        identity = "${azurerm_user_assigned_identity.storage-key.id}"
        assert account["identity"] == {"type": "UserAssigned", "identity_ids": [identity]}
        assert account["customer_managed_key"] == {
            "key_vault_key_id": "${azurerm_key_vault.vault.vault_uri}keys/storage",
            "user_assigned_identity_id": identity,
        }
        made = "azurerm_resource_group_template_deployment.storage-key-deployment"
        assert grant["depends_on"] == [made]
        assert account["depends_on"] == [made, f"azurerm_role_assignment.{name}"]


@pytest.mark.parametrize(
    ("given", "public", "action", "ranges"),
    [
        ({}, False, "Deny", []),
        ({"allowed": OFFICE}, True, "Deny", ["203.0.113.0/24"]),
        ({"public": True}, True, "Allow", []),
    ],
    ids=["alone", "allowed", "public"],
)
def test_storage_is_open_only_as_requested(
    synthesize: Synthesize,
    given: dict[str, Any],
    public: bool,
    action: str,
    ranges: list[str],
) -> None:
    account = _storage(synthesize, **given)["resource"]["azurerm_storage_account"]["storage"]
    assert account.get("public_network_access_enabled", True) is public
    assert account["network_rules"]["default_action"] == action
    assert account["network_rules"]["ip_rules"] == ranges
    assert account["shared_access_key_enabled"] is False


def test_storage_containers_expire_by_separate_rules(synthesize: Synthesize) -> None:
    resources = _storage(synthesize, expire_days={"code": 90})["resource"]
    (policy,) = resources["azurerm_storage_management_policy"].values()
    versions, code = policy["rule"]
    assert code["name"] == "expire-code"
    assert code["filters"]["prefix_match"] == ["code/"]
    blob = code["actions"]["base_blob"]
    assert blob == {"delete_after_days_since_modification_greater_than": 90}
    assert "prefix_match" not in versions["filters"]
    assert "base_blob" not in versions["actions"]
    assert versions["actions"]["version"] == {"delete_after_days_since_creation": 14}


def test_services_have_all_private_endpoints_and_share_zones(
    synthesize: Synthesize,
) -> None:
    def build(stack: az.Stack) -> None:
        network = az.Network(stack, address_space="10.40.0.0/16", private_endpoints=True)
        for service in (
            az.BatchAccount(stack),
            az.Vault(stack),
            az.SlurmSharedState(stack, disk_gib=64),
            az.AzureFiles(stack, "home", path="/home"),
        ):
            service.private_endpoints(network)

    resources = synthesize(build)["resource"]
    made = resources["azurerm_private_endpoint"]
    assert {
        name: each["private_service_connection"]["subresource_names"] for name, each in made.items()
    } == {
        "batch-endpoint": ["batchAccount"],
        "batch-nodes-endpoint": ["nodeManagement"],
        "vault-endpoint": ["vault"],
        "slurm-vault-endpoint": ["vault"],
        "files-home-endpoint": ["file"],
    }
    zones = resources["azurerm_private_dns_zone"]
    assert {zone["name"] for zone in zones.values()} == {
        "privatelink.batch.azure.com",
        "privatelink.vaultcore.azure.net",
        "privatelink.file.core.windows.net",
    }
    links = resources["azurerm_private_dns_zone_virtual_network_link"]
    vnet = "${azurerm_virtual_network.vnet.id}"
    assert [link["virtual_network_id"] for link in links.values()] == [vnet] * 3
    nodes = made["batch-nodes-endpoint"]
    assert nodes["subnet_id"] == "${azurerm_subnet.endpoints.id}"
    policies = resources["azurerm_subnet"]["endpoints"]["private_endpoint_network_policies"]
    assert policies == "NetworkSecurityGroupEnabled", "else no rule holds for endpoints"
    connection = nodes["private_service_connection"]
    assert connection["is_manual_connection"] is False
    assert connection["private_connection_resource_id"] == "${azurerm_batch_account.batch.id}"
    zone = "${azurerm_private_dns_zone.privatelink-batch-azure-com.id}"
    assert nodes["private_dns_zone_group"]["private_dns_zone_ids"] == [zone]


def test_private_endpoint_of_unknown_service_is_refused(stack: az.Stack) -> None:
    network = az.Network.from_id(stack, "hub", VNET, subnets={"endpoints": ("e", "10.1.0.0/24")})
    endpoints = az.PrivateEndpoints(stack, network=network)
    with pytest.raises(UserError, match="unknown private link service"):
        endpoints.connect(stack, "x", service="bloob", resource_id="/x")


def test_kubernetes_public_api_server_may_admit_its_nodes_alone(synthesize: Synthesize) -> None:
    def build(stack: az.Stack) -> None:
        given: dict[str, Any] = {"api_server": "allowed", "egress_address": "198.51.100.4"}
        az.KubernetesCluster(stack, subnet=SUBNET, kubelet=az.Identity(stack, "kubelet"), **given)

    (made,) = synthesize(build)["resource"]["azurerm_kubernetes_cluster"].values()
    assert made["api_server_access_profile"]["authorized_ip_ranges"] == ["198.51.100.4/32"]


class TestInterfaces:
    """Interfaces that services share with Azure Verified Modules."""

    @pytest.mark.parametrize(
        ("private", "said"),
        [
            (False, "`kubernetes` gets no private endpoint"),
            (True, "has no `private_endpoints`"),
        ],
    )
    def test_service_interface_missing_in_service_or_network_is_refused(
        self, stack: az.Stack, private: bool, said: str
    ) -> None:
        network = az.Network(stack, address_space="10.40.0.0/16", private_endpoints=private)
        cluster = az.KubernetesCluster(stack, subnet=SUBNET, kubelet=az.Identity(stack, "kubelet"))
        with pytest.raises(UserError, match=said):
            cluster.private_endpoints(network)

    def test_service_roles_are_assigned_by_name_or_id(self, synthesize: Synthesize) -> None:
        role = "/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/r"
        team = az.RoleAssignment(
            role_definition_id_or_name="AcrPush",
            principal_id="11111111-2222-3333-4444-555555555555",
            principal_type="Group",
            description="The team pushes images",
        )

        def build(stack: az.Stack) -> None:
            own = replace(team, role_definition_id_or_name=role)
            az.Registry(stack).role_assignments({"team": team, "own": own})

        made = synthesize(build)["resource"]["azurerm_role_assignment"]
        pushes, own = made["registry-role-team"], made["registry-role-own"]
        assert pushes["scope"] == "${azurerm_container_registry.registry.id}"
        assert pushes["role_definition_name"] == "AcrPush"
        assert (pushes["principal_type"], pushes["description"]) == ("Group", team.description)
        assert "role_definition_id" not in pushes
        assert own["role_definition_id"] == role
        assert "role_definition_name" not in own

    @pytest.mark.parametrize(
        ("protect", "lock"), [(True, None), (False, None), (True, False), (False, True)]
    )
    def test_service_lock_follows_protection_unless_set(
        self, synthesize: Synthesize, protect: bool, lock: bool | None
    ) -> None:
        made = synthesize(lambda stack: az.Vault(stack, lock=lock), protect=protect)["resource"]
        wanted = protect if lock is None else lock
        assert ("azurerm_management_lock" in made) == wanted
        (vault,) = made["azurerm_key_vault"].values()
        assert ("lifecycle" in vault) == protect, "what Terraform may do is another question"

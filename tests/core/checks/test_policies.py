"""A company's policies refuse only what they deny, and point to the line that breaks them."""

from pathlib import Path

import pytest
from environment_files import KEY, checked

from fairway_core.findings import Finding, Severity, UserError

LAB = "name: lab\nlocation: westeurope\n"
BOX = "clusters: {box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}\n"
SERVER = "filesystems: {data: {kind: nfs_server, path: /data}}\n"
ACCESS = f'access: {{ssh_keys: ["{KEY}"]'
REGISTRY = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/g/providers"
STORAGE = f"{REGISTRY}/Microsoft.Storage/storageAccounts/lake"
REGISTRY += "/Microsoft.ContainerRegistry/registries/r"


def _found(tmp_path: Path, text: str, access: str = "") -> list[Finding]:
    text = f"{LAB}{ACCESS}{access}}}\n{text}{'' if 'clusters:' in text else BOX}"
    found = checked(tmp_path, text)
    return [each for each in found if each.id.startswith("policy-")]


def _shown(found: list[Finding]) -> list[tuple[str, str, str]]:
    assert all(each.severity is Severity.ERROR for each in found)
    assert all(each.location is not None and each.hint for each in found)
    return [(each.id, each.path, each.location.text.strip()) for each in found if each.location]


@pytest.mark.parametrize("policies", ["", "policies: {}\n"])
def test_policies_unset_report_nothing(tmp_path: Path, policies: str) -> None:
    assert _found(tmp_path, f"{policies}{SERVER}registry: {{}}\n", ", bastion: true") == []


def test_policies_report_each_missing_required_tag(tmp_path: Path) -> None:
    tags = 'tags: {Owner: me, cost-center: " ", team: a}\n'
    policies = "policies: {required_tags: [owner, Cost-Center, project, environment]}\n"
    found = _found(tmp_path, policies + tags)
    assert _shown(found) == [("policy-tag", "tags", tags.strip())] * 2
    for each, tag, said in zip(
        found, ("Cost-Center", "project"), ("has no value", "is missing"), strict=True
    ):
        assert f"the tag `{tag}`" in each.message
        assert "`policies.required_tags` requires on every resource" in each.message
        assert said in each.message
    assert _found(tmp_path, "policies: {required_tags: [managed-by]}\n") == [], "Fairway's own"
    # A file without tags is reported too, with a location.
    (alone,) = _found(tmp_path, "policies: {required_tags: [owner]}\n")
    assert (alone.id, alone.path) == ("policy-tag", "tags")
    assert alone.location is not None


def test_policies_report_location_that_is_not_allowed(tmp_path: Path) -> None:
    (found,) = _found(tmp_path, "policies: {locations: [northeurope, eastus]}\n")
    assert _shown([found]) == [("policy-region", "location", "location: westeurope")]
    assert found.hint == "take northeurope or eastus"
    assert _found(tmp_path, "policies: {locations: [eastus, westeurope]}\n") == []


def test_policies_report_public_addresses_of_nat_gateway_and_bastion(tmp_path: Path) -> None:
    deny = "policies: {deny_public_addresses: true}\n"
    bastion, nat = _found(tmp_path, f"{deny}network: {{egress: nat}}\n", ", bastion: true")
    assert (nat.path, bastion.path) == ("network.egress", "access.bastion")
    assert nat.message.startswith("the NAT gateway has a public address")
    assert bastion.message.startswith("the bastion has a public address")
    (usual,) = _found(tmp_path, deny)
    assert usual.path == "network.egress", "also where the file does not say it"
    assert _found(tmp_path, f"{deny}network: {{egress: none}}\n") == []


def test_policies_report_services_with_public_access(tmp_path: Path) -> None:
    deny = "policies: {deny_public_access: true}\n"
    closed = "network: {private_endpoints: false}\n"
    ranges, endpoints = _found(tmp_path, deny + closed, ", allowed: [10.0.0.0/8, 203.0.113.0/24]")
    assert (ranges.path, endpoints.path) == ("access.allowed", "network.private_endpoints")
    assert "open to these public ranges" in ranges.message
    assert "open to the subnets of the nodes" in endpoints.message
    assert _found(tmp_path, deny, ", allowed: [10.0.0.0/8]") == []


def test_policies_report_open_vault_of_user_subscription_batch_account(tmp_path: Path) -> None:
    (found,) = _found(tmp_path, f"policies: {{deny_public_access: true}}\n{OWN}")
    assert (found.path, found.hint) == ("batch.mode", "use `mode: BatchService`")
    assert "is open to Azure's services, which `policies.deny_public_access`" in found.message


POOL = "clusters: {p: {engine: batch, size: Standard_ND96asr_v4, nodes: 2}}\n"
BATCH = "00000000-0000-0000-0000-000000000000"
OWN = f"batch: {{mode: UserSubscription, service_principal: {BATCH}}}\n{POOL}"
SHARE = "filesystems: {home: {kind: azure_files, gib: 1024, path: /home}}\n"


@pytest.mark.parametrize(
    ("kind", "more", "path", "hint"),
    [
        ("storage", "", "storage", "set `customer_managed_key: true`"),
        ("registry", "registry: {}\n", "registry", "remove `registry` from"),
        ("batch", POOL, "clusters", "remove `batch` from"),
        ("files", SHARE, "filesystems.home", "remove `files` from"),
        ("disks", SERVER, "filesystems.data", "remove `disks` from"),
        ("disks", OWN, "clusters.p", "remove `disks` from"),
    ],
)
def test_policies_report_resources_without_a_customer_managed_key(
    tmp_path: Path, kind: str, more: str, path: str, hint: str
) -> None:
    found = _found(tmp_path, f"policies: {{require_cmk: [{kind}]}}\n{more}")
    assert path in [each.path for each in found]
    assert {each.id for each in found} == {"policy-key"}
    assert "encrypted only with Azure's key" in found[0].message
    assert hint in found[0].hint


def test_policies_require_customer_managed_key_for_gateway_disk(tmp_path: Path) -> None:
    policies = "policies: {require_cmk: [disks]}\n"
    assert _found(tmp_path, policies + POOL) == []
    (found,) = _found(tmp_path, policies + POOL, ", gateway: true")
    assert (found.path, "the disk of the gateway" in found.message) == ("access.gateway", True)
    assert "customer_managed_key" not in found.hint


@pytest.mark.parametrize(
    ("kinds", "more"),
    [
        ("storage", "storage: {customer_managed_key: true}\n"),
        ("storage", f"storage: {{existing: {STORAGE}}}\n"),
        ("registry", f"registry: {{existing: {REGISTRY}}}\n"),
        ("registry, batch, files", ""),
        ("disks", POOL),
    ],
)
def test_policies_require_no_key_for_absent_or_existing_resources(
    tmp_path: Path, kinds: str, more: str
) -> None:
    assert _found(tmp_path, f"policies: {{require_cmk: [{kinds}]}}\n{more}") == []


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ("{required_tags: [a, A]}", "`A` is named twice"),
        ("{required_tags: ['']}", "a tag without a name"),
        ("{required_tags: owner}", "list"),
        ("{require_cmk: [vault]}", "expected one of"),
        ("{require_cmk: true}", "list"),
        ("{deny_public_adresses: true}", "unknown key"),
    ],
)
def test_policies_refuse_invalid_values(tmp_path: Path, policies: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        _found(tmp_path, f"policies: {policies}\n")
    assert said in caught.value.findings[0].message

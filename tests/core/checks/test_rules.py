"""Rules that need more than one example."""

import base64
import datetime
import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from environment_files import checked, load

from fairway_core.catalog import vm_size
from fairway_core.checks import CheckContext, check_stack
from fairway_core.checks.environment.clusters import no_infiniband, retiring, starved_gpus
from fairway_core.checks.job import nested_launcher
from fairway_core.checks.terraform.network import open_to_internet
from fairway_core.environment import read_environment
from fairway_core.environment.filesystems.nfs_server import Disks, NfsServer
from fairway_core.environment.state import AzurermState

ENDS = datetime.date(2027, 5, 31)


@pytest.mark.parametrize(
    ("today", "found"),
    [
        (ENDS - datetime.timedelta(days=366), False),
        (ENDS - datetime.timedelta(days=365), True),
        (ENDS - datetime.timedelta(days=1), True),
        (ENDS, False),  # the size is off: an error of the file itself
    ],
)
def test_rules_warn_a_year_before_a_size_retires(today: datetime.date, found: bool) -> None:
    violations = list(retiring(vm_size("Standard_HC44rs"), today))
    assert bool(violations) is found
    for violation in violations:
        assert "2027-05-31" in violation.message
        assert "Standard_HB176rs_v4" in violation.hint


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("day", "said"),
    [("2026-12-28", ""), ("2026-12-29", "retires on"), ("2027-06-30", "retired on")],
)
def test_rules_warn_half_a_year_before_an_image_retires(
    tmp_path: Path, day: str, said: str, own: bool
) -> None:
    gallery = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lab/providers"
    image = f"{gallery}/Microsoft.Compute/galleries/lab/images/gpu/versions/1.0.0"
    text = f"""\
name: lab
location: westeurope
clusters:
  sweep:
    engine: batch
    size: Standard_NC4as_T4_v3
    nodes: {{min: 0, max: 8}}
    {f"image_id: {image}" if own else "image: ubuntu-hpc-2204"}
  new: {{engine: batch, size: Standard_ND96asr_v4, nodes: {{min: 0, max: 8}}}}
"""
    found = checked(tmp_path, text, today=datetime.date.fromisoformat(day))
    told = [each for each in found if each.id == "retiring"]
    assert [each.message for each in told] == (
        [f"image `ubuntu-hpc-2204` {said} 2027-06-30"] if said else []
    )
    for each in told:
        assert "`ubuntu-hpc-2404`" in each.hint
        assert each.position[0] == 8


@pytest.mark.parametrize(
    ("day", "found"),
    [
        ("2026-08-29", ""),
        ("2026-08-30", "warning"),
        ("2026-11-30", "warning"),
        ("2026-12-01", "error"),
    ],
)
def test_rules_warn_three_months_before_kubernetes_version_ends(
    tmp_path: Path, day: str, found: str
) -> None:
    text = """\
name: lab
location: westeurope
budget: {monthly: 10, emails: [me@example.com]}
tags: {owner: me}
filesystems: {data: {kind: azure_files, path: /data}}
kubernetes: {version: "1.34"}
clusters: {d: {engine: kubernetes, size: Standard_D16s_v6, nodes: 2, mounts: [data], job_image: a}}
"""
    findings = checked(tmp_path, text, today=datetime.date.fromisoformat(day))
    told = [each for each in findings if each.path == "kubernetes.version"]
    assert [each.severity for each in told] == ([found] if found else [])
    for each in told:
        assert each.position[0] == 6
        assert "2026-11-30" in each.message
        assert '"1.36" ends on 2027-06-30' in each.hint
        assert '"1.34"' not in each.hint


def test_rules_suggest_nearest_size_with_infiniband() -> None:
    (violation,) = no_infiniband(vm_size("Standard_ND96is_H100_v5"), nodes=2)
    assert "Standard_ND96isr_H100_v5" in violation.hint
    (violation,) = no_infiniband(vm_size("Standard_NC24ads_A100_v4"), nodes=2)
    assert "fairway sizes --rdma" in violation.hint
    assert not list(no_infiniband(vm_size("Standard_ND96is_H100_v5"), nodes=1))


@pytest.mark.parametrize(
    ("mbps", "named", "field"),
    [
        (125, "its disks give 500", "`disks: {mbps: …}`"),
        (500, "the disk limit of its VM size gives 992", "`size:`"),
    ],
)
def test_rules_name_the_binding_throughput_limit_and_its_field(
    mbps: int, named: str, field: str
) -> None:
    disks = Disks(count=4, iops=5000, mbps=mbps)
    server = NfsServer(kind="nfs_server", path="/data", disks=disks)
    (violation,) = starved_gpus(server, gpus=40)
    assert f"1600 MB/s, and {named} MB/s" in violation.message
    assert field in violation.hint
    assert not list(starved_gpus(server, gpus=12))


TAGS = {"environment": "demo", "managed-by": "fairway"}
DENY = {"default_action": "Deny"}


def _scale(dedicated: int, low: int = 0) -> dict[str, int]:
    return {"target_dedicated_nodes": dedicated, "target_low_priority_nodes": low}


def _rule(**values: Any) -> dict[str, Any]:
    return {"name": "r", "direction": "Inbound", "access": "Allow", **values}


@pytest.mark.parametrize(
    ("source", "more", "found"),
    [
        *((each, {}, True) for each in ("*", "Internet", "0.0.0.0/0", "Any", "8.8.8.8")),
        ("8.8.8.0/23", {}, True),
        ("8.8.9.0/25", {}, False),  # within an allowed range
        ("10.0.0.0/8", {}, False),
        ("AzureLoadBalancer", {}, False),
        ("${azurerm_subnet.a.address_prefixes[0]}", {}, False),
        ("*", {"access": "Deny"}, False),
        ("*", {"direction": "Outbound"}, False),
    ],
)
@pytest.mark.parametrize("plural", [False, True])
def test_rules_open_to_internet_finds_only_open_sources_outside_allowed_ranges(
    source: str, more: dict[str, str], found: bool, plural: bool
) -> None:
    sources = {"source_address_prefixes": ["10.0.0.0/8", source]}
    rule = _rule(**sources if plural else {"source_address_prefix": source}, **more)
    violations = list(open_to_internet(rule, [IPv4Network("8.8.9.0/24")], bastion=False))
    assert len(violations) == found


@pytest.mark.parametrize(
    ("port", "bastion", "found"), [("443", True, 0), ("443", False, 1), ("22", True, 1)]
)
def test_rules_open_to_internet_allows_https_only_for_requested_bastion(
    port: str, bastion: bool, found: int
) -> None:
    rule = _rule(source_address_prefix="Internet", destination_port_range=port)
    rules = {"bastion-rules": {"security_rule": [rule], "tags": TAGS}}
    applied = {
        "subnet_id": "${azurerm_subnet.bastion.id}",
        "network_security_group_id": "${azurerm_network_security_group.bastion-rules.id}",
    }
    stack = {
        "azurerm_network_security_group": rules,
        "azurerm_subnet": {"bastion": {"name": "AzureBastionSubnet"}},
        "azurerm_subnet_network_security_group_association": {"bastion-has-rules": applied},
    }
    findings = check_stack({"resource": stack}, CheckContext(bastion=bastion))
    assert [finding.id for finding in findings] == ["open-to-internet"] * found


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----\nx",
        "AccountKey=" + "a" * 60 + "==",
        "curl 'https://x.blob.core.windows.net/a?sv=1&sig=" + "b" * 40 + "'",
        "export DB_PASSWORD=hunter2",
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_rules_find_secrets_in_encoded_custom_data(secret: str, wrapped: bool) -> None:
    data = _encoded(f"#cloud-config\n# some text before it\n{secret}\n")
    if wrapped:
        data = f'${{base64encode(replace(base64decode("{data}"), "@@0@@", azurerm_x.y.z))}}'
    machine = {"custom_data": data, "tags": TAGS}
    stack = {"resource": {"azurerm_linux_virtual_machine": {"server": machine}}}
    (finding,) = check_stack(stack, CheckContext())
    assert finding.id == "plain-secret"
    assert finding.path == "azurerm_linux_virtual_machine.server.custom_data"
    assert "hunter2" not in finding.message


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("${azurerm_storage_account.s.primary_access_key}", True),
        ("${azurerm_storage_account.s.primary_blob_connection_string}", True),
        ({"nested": ["${azurerm_batch_account.b.primary_access_key}"]}, True),
        ("${azurerm_log_analytics_workspace.w.primary_shared_key}", True),
        ("${azurerm_kubernetes_cluster.k.kube_config_raw}", True),
        ("${azurerm_storage_account.s.primary_blob_endpoint}", False),
        ("${azurerm_key_vault.v.vault_uri}", False),
        ("${azurerm_key_vault_key.k.id}", False),
    ],
)
def test_rules_find_secrets_in_outputs(value: Any, found: bool) -> None:
    findings = check_stack({"output": {"x": {"value": value, "sensitive": True}}}, CheckContext())
    assert [finding.id for finding in findings] == ["plain-secret"] * found


@pytest.mark.parametrize(("bypass", "named"), [("AzureServices", "v"), ("None", "v"), (None, "w")])
def test_rules_treat_batch_vault_with_azure_services_bypass_as_reachable(
    bypass: str | None, named: str
) -> None:
    vault = {"name": "v", "network_acls": {**DENY, "bypass": bypass or "AzureServices"}}
    reference = {"id": f"${{azurerm_key_vault.{named}.id}}", "url": "u"}
    account = {"name": "b", "public_network_access_enabled": False}
    account |= {"tags": TAGS, "key_vault_reference": reference}
    stack = {
        "azurerm_key_vault": {"v": {**vault, "tags": TAGS}},
        "azurerm_batch_account": {"b": account},
    }
    context = CheckContext(protect=False, private_endpoints=True)
    found = {finding.path for finding in check_stack({"resource": stack}, context)}
    assert ("azurerm_key_vault.v" in found) is (bypass != "AzureServices")


def test_rules_allow_public_state_account_only_if_requested(
    repository: Path, tmp_path: Path
) -> None:
    demo = read_environment(repository / "stacks/environments/demo.yaml").environment
    state = AzurermState(
        backend="azurerm", resource_group="rg", storage_account="labstate", public_access=True
    )
    account = {"name": "labstate", "tags": TAGS}
    stack = {"resource": {"azurerm_storage_account": {"state": account}}}
    assert (
        check_stack(stack, CheckContext.from_environment(demo.model_copy(update={"state": state})))
        == []
    )
    closed = state.model_copy(update={"public_access": False})
    (finding,) = check_stack(
        stack, CheckContext.from_environment(demo.model_copy(update={"state": closed}))
    )
    assert finding.id == "public-service"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("single_placement_group", None),
        ("overprovision", None),
        ("platform_fault_domain_count", 5),
        ("instances", 101),
        ("zones", ["1", "2"]),
        ("capacity_reservation_group_id", "x"),
    ],
)
def test_rules_report_broken_fabric_for_each_wrong_argument(argument: str, value: Any) -> None:
    arguments = {
        "sku": "Standard_ND96isr_H100_v5",
        "instances": 100,
        "zones": ["1"],
        "overprovision": False,
        "platform_fault_domain_count": 1,
        "single_placement_group": True,
        "tags": TAGS,
    }
    kind = "azurerm_linux_virtual_machine_scale_set"
    assert check_stack({"resource": {kind: {"nd": arguments}}}, CheckContext()) == []
    wrong = {**arguments, argument: value}
    (finding,) = check_stack({"resource": {kind: {"nd": wrong}}}, CheckContext())
    assert finding.id == "broken-fabric"
    assert finding.path == f"{kind}.nd.{argument}"
    without = {**wrong, "sku": "Standard_D32s_v6"}
    assert check_stack({"resource": {kind: {"nd": without}}}, CheckContext()) == []


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        ("batch_pool", {"fixed_scale": _scale(1, 1)}, "the nodes of a job must not be mixed"),
        ("batch_pool", {"fixed_scale": _scale(101)}, "such a pool holds 100 nodes"),
        ("key_vault", {"public_network_access_enabled": False}, "nobody can reach this"),
        ("role_assignment", {"role_definition_name": "Reader"}, "this role has no description"),
    ],
)
def test_rules_report_expected_message_and_hint_for_each_resource(
    kind: str, arguments: dict[str, Any], said: str
) -> None:
    tagged = {**arguments, "tags": TAGS}
    stack = {"resource": {f"azurerm_{kind}": {"x": tagged}}}
    (finding,) = check_stack(stack, CheckContext(protect=False))
    assert finding.message == said
    assert finding.path.startswith(f"azurerm_{kind}.x")
    assert finding.hint


def test_rules_findings_point_to_lines_of_the_file_in_order(
    tmp_path: Path, repository: Path
) -> None:
    text = (repository / "stacks/environments/demo.yaml").read_text()
    text = text.replace("isr_H100", "is_H100").replace("tags:", "# tags:")
    findings = checked(tmp_path, text, ignore=["no-budget", "no-way-in", "placeholder"])
    by_id = {finding.id: finding for finding in findings}
    assert set(by_id) == {"no-infiniband", "no-owner"}
    place = by_id["no-infiniband"].location
    assert place is not None
    assert (place.text, place.length) == ("  pair:", len("pair"))
    # A missing key has no line of its own: the finding points to the document's first line.
    assert by_id["no-owner"].location is not None
    assert findings == sorted(findings, key=lambda each: each.position)


@pytest.mark.parametrize(
    ("different", "zoneless", "refused"),
    [
        ({}, False, True),
        ({"storage_account_type": "UltraSSD_LRS", "zone": None}, False, True),
        ({}, True, False),
        ({"zone": "1"}, False, False),
        ({"storage_account_type": "Premium_LRS"}, False, False),
        ({"location": "northcentralus"}, False, False),
        ({"location": "${var.region}"}, False, False),
    ],
)
def test_rules_require_zone_of_zonal_disk_unless_file_sets_none(
    repository: Path, tmp_path: Path, different: dict[str, Any], zoneless: bool, refused: bool
) -> None:
    text = (repository / "stacks/environments/demo.yaml").read_text()
    text = text.replace("zone: 1", "zone: none") if zoneless else text
    context = replace(CheckContext.from_environment(load(tmp_path, text)), protect=False)
    common = {"name": "lab-disk", "location": "southcentralus", "tags": TAGS}
    disk = {**common, "storage_account_type": "PremiumV2_LRS", **different}
    found = check_stack({"resource": {"azurerm_managed_disk": {"data": disk}}}, context)
    assert [each.path for each in found] == ["azurerm_managed_disk.data"] * refused


GROUP = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub"
HUB = f"{GROUP}/providers/Microsoft.Network/bastionHosts/hub-bas"


@pytest.mark.parametrize(
    ("route", "named"), [("{jump: [me@gate]}", "jump host"), (f"{{bastion: {HUB}}}", "Bastion")]
)
def test_rules_ask_to_admit_the_way_by_which_people_come(
    repository: Path, tmp_path: Path, route: str, named: str
) -> None:
    text = (repository / "stacks/environments/demo.yaml").read_text()
    found = checked(tmp_path, text.replace("access:\n", f"access:\n  ssh_route: {route}\n"))
    (hint,) = [each.hint for each in found if each.id == "no-way-in"]
    assert named in hint


def test_rules_treat_null_written_by_cdk_as_absent() -> None:
    rule = _rule(source_address_prefix="${null}", source_address_prefixes=["10.0.0.0/8"])
    group = {"security_rule": [rule], "tags": TAGS}
    stack = {"resource": {"azurerm_network_security_group": {"g": group}}}
    assert check_stack(json.loads(json.dumps(stack)), CheckContext()) == []


CONNECTION = {"private_connection_resource_id": "${azurerm_batch_account.b.id}"}
ENDPOINT = {"e": {"private_service_connection": CONNECTION, "tags": TAGS}}


@pytest.mark.parametrize(
    ("account", "endpoint", "private", "says"),
    [
        ({"public_network_access_enabled": False}, True, True, None),
        ({"public_network_access_enabled": False}, False, True, "nobody"),
        ({"network_profile": {"account_access": DENY}}, True, True, None),
        ({"network_profile": {"account_access": DENY}}, False, True, "nobody"),
        ({"network_profile": [{"account_access": {}}]}, True, True, "every"),
        ({}, True, True, "every"),
        ({}, False, False, None),
    ],
)
def test_rules_report_batch_account_open_to_all_or_unreachable(
    account: dict[str, Any], endpoint: bool, private: bool, says: str | None
) -> None:
    resources: dict[str, Any] = {"azurerm_batch_account": {"b": {**account, "tags": TAGS}}}
    if endpoint:
        resources["azurerm_private_endpoint"] = ENDPOINT
    findings = check_stack(
        {"resource": resources}, CheckContext(protect=False, private_endpoints=private)
    )
    assert [finding.message.split()[0] for finding in findings] == ([says] if says else [])


def test_rules_starved_gpus_considers_fastest_mount(repository: Path, tmp_path: Path) -> None:
    text = (repository / "stacks/environments/demo.yaml").read_text()
    slow = "  home: {kind: nfs_server, disks: {count: 1}, path: /scratch}\nclusters:\n"
    text = text.replace("clusters:\n", slow)
    ignored = ["no-budget", "no-way-in", "placeholder"]
    for mounts, ids in (("[home, data]", []), ("[data, home]", []), ("[home]", ["starved-gpus"])):
        found = checked(tmp_path, text.replace("[data]", mounts), ignore=ignored)
        assert [each.id for each in found] == ids


@pytest.mark.parametrize(
    ("command", "template", "named"),
    [
        ("mpirun -np 4 ./a", "openmpi", "mpirun"),
        ("cd x && OMP_NUM_THREADS=2 torchrun train.py", "torchrun", "torchrun"),
        ("python -m torch.distributed.run a.py", "torchrun", "python -m torch.distributed.run"),
        ("OMP_NUM_THREADS=$(nproc) X=1 mpirun -np 4 ./a", "openmpi", "mpirun"),
        ("(time exec  A=1 mpirun -np 4 ./a)", "openmpi", "mpirun"),
        ("./mpirun-like", "openmpi", None),
        ("python train.py --launcher mpirun", "openmpi", None),
        ("mpirun -np 4 ./a", "plain", None),
    ],
)
def test_rules_find_launcher_nested_in_a_launcher_template(
    command: str, template: str, named: str | None
) -> None:
    job = {"command": command, "template": template}
    violations = list(nested_launcher({**job, "nodes": 2}))
    assert [named in violation.message for violation in violations if named] == [True] * bool(named)
    assert not list(nested_launcher(job))

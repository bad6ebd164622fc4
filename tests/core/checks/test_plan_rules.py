"""Rules on plans that need more than one example; those on lost data are in `test_losses`."""

from typing import Any

import pytest

from fairway_core.checks import check_plan
from fairway_core.findings import Finding

Found = dict[str, str]
LOCK = "azurerm_management_lock"
SET = "azurerm_linux_virtual_machine_scale_set"
VM, POOL = "azurerm_linux_virtual_machine", "azurerm_batch_pool"
KUBERNETES = "azurerm_kubernetes_cluster"
NODE_POOL = "azurerm_kubernetes_cluster_node_pool"
DISK, ACCOUNT = "azurerm_managed_disk", "azurerm_storage_account"
GROUP, RULES = "azurerm_network_security_group", "azurerm_network_security_rule"
SIZE = "Standard_ND96isr_H100_v5"


def _resource(
    type_: str, before: Any, after: Any, actions: str = "update", **more: Any
) -> dict[str, Any]:
    change = {"actions": actions.split(), "before": before, "after": after, **more}
    return {"address": f"{type_}.x", "type": type_, "change": change}


def _check(*resources: dict[str, Any], **given: Any) -> list[Finding]:
    return check_plan({"resource_changes": resources}, **given)


def _found(type_: str, before: Any, after: Any, actions: str = "", **more: Any) -> Found:
    """Returns messages by id."""
    usual = "create" if before is None else "delete" if after is None else "update"
    change = _resource(type_, before, after, actions or usual, **more)
    return {one.id: one.message for one in _check(change)}


def _said(found: Found, expected: Found) -> bool:
    """Returns True if exactly these ids were found and each message contains the expected text."""
    return found.keys() == expected.keys() and all(expected[id_] in found[id_] for id_ in found)


def _of_pool(dedicated: int, low: int = 0, **more: Any) -> dict[str, Any]:
    scale = {"target_dedicated_nodes": dedicated, "target_low_priority_nodes": low}
    return {"fixed_scale": [scale], **more}


ON = {"sku": SIZE}
RESERVED = {"capacity_reservation_group_id": "/x"}
TALKING = {"vm_size": SIZE.upper(), "inter_node_communication": "Enabled"}


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (SET, ON, {"sku": "Standard_ND96is_H100_v5"}, "Standard_ND96is_H100_v5 has none"),
        (SET, ON, {"sku": "Standard_New_v9"}, "not known to have it"),
        (SET, ON, {"sku": "Standard_ND96isr_H200_v5"}, None),
        (SET, ON, {"sku": SIZE.upper()}, None),
        (SET, {**ON, "zones": ["1"]}, {**ON, "zones": ["1", "2"]}, "another zone"),
        (SET, ON, {**ON, **RESERVED}, "reservation"),
        (SET, {"sku": "Standard_D4s_v6"}, {"sku": "Standard_D8s_v6"}, None),
        (POOL, TALKING, {**TALKING, "inter_node_communication": "Disabled"}, ""),
        (POOL, TALKING, TALKING, None),
    ],
)
def test_plan_rules_report_lost_infiniband(
    type_: str, before: Any, after: Any, said: str | None
) -> None:
    found = _found(type_, before, after).get("lost-infiniband")
    assert (found is None) is (said is None)
    assert (said or "") in (found or "")


MADE = {"instances": 2, "extension": [{"name": "a"}], "custom_data": "a"}
OTHER = {**MADE, "custom_data": "b"}
SMALL, LARGE = ({"os_disk": [{"disk_size_gb": gib}]} for gib in (64, 128))
LOCAL = {"os_disk": [{"diff_disk_settings": [{"option": "Local"}]}]}
KEYS = [{"admin_ssh_key": [{"k": key}]} for key in "ab"]
VERSIONS = [{"orchestrator_version": version} for version in ("1.33", "1.34")]
FIXED = {"node_count": 3, "auto_scaling_enabled": False}
CLOSED = {"local_account_disabled": True, "private_cluster_enabled": True}
# The provider reads JSON back without spaces.
COMPACT, SPACED = ([{"settings": text}] for text in ('{"a":1}', '{"a": 1}'))


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (SET, {"custom_data": "a"}, {"custom_data": "b"}, {"mixed-nodes": "custom_data"}),
        (SET, SMALL, LARGE, {"mixed-nodes": "os_disk"}),
        (SET, *KEYS, {"mixed-nodes": "admin_ssh_key"}),
        (SET, {"instances": 2}, {"instances": 3}, {}),
        (SET, {"tags": {}}, {"tags": {"a": "b"}}, {}),
        (SET, {"os_disk": [{"edge": ""}]}, {"os_disk": [{"edge": None}]}, {}),
        (SET, {"extension": None}, {"extension": []}, {}),
        (SET, {"instances": 2, "extension": COMPACT}, {"instances": 2, "extension": SPACED}, {}),
        # Reimaging a node for another user's account would needlessly lose its disk.
        (SET, MADE, {**MADE, "extension": []}, {"mixed-nodes": "until each is brought up to date"}),
        (SET, MADE, {**OTHER, "extension": []}, {"mixed-nodes": "until each is reimaged"}),
        (SET, {**MADE, "instances": 0}, {**OTHER, "instances": 0}, {}),
        (
            *(SET, {"instances": 4, "sku": "a"}, {"instances": 3, "sku": "b"}),
            {"mixed-nodes": "the 3 nodes of", "lost-nodes": "the 1 node of"},
        ),
        (
            *(SET, {**MADE, "upgrade_mode": "Automatic"}, OTHER),
            {"mixed-nodes": "Azure would reimage the 2 nodes of"},
        ),
        (POOL, _of_pool(3, 2), None, {"lost-nodes": "the 5 nodes of"}),
        (POOL, {"fixed_scale": []}, None, {"lost-nodes": "the nodes of"}),
        (POOL, _of_pool(2), None, {"lost-nodes": "its jobs stay in the account without nodes"}),
        # A dedicated node cannot become a Spot node.
        (POOL, _of_pool(3, 0), _of_pool(1, 3), {"lost-nodes": "the 2 nodes of"}),
        (POOL, _of_pool(3, 0), {"auto_scale": [{}]}, {}),
        (
            *(NODE_POOL, {"node_count": 0, "auto_scaling_enabled": True}, None),
            {"lost-nodes": "the nodes of"},
        ),
        (NODE_POOL, FIXED, {**FIXED, "node_count": 1}, {"lost-nodes": "the 2 nodes of"}),
        (NODE_POOL, FIXED, {**FIXED, "node_count": 4}, {}),
        (KUBERNETES, CLOSED, None, {"lost-cluster": "every job in the cluster ends"}),
        (NODE_POOL, *VERSIONS, {"upgraded-nodes": "for Kubernetes 1.34 in place of 1.33"}),
        (VM, LOCAL, None, {"lost-nodes": ""}),
    ],
)
@pytest.mark.parametrize("secret", [False, True])
def test_plan_rules_report_mixed_lost_and_upgraded_nodes(
    type_: str, before: Any, after: Any, said: Found, secret: bool
) -> None:
    marks = dict.fromkeys(before, secret)
    more = {"before_sensitive": marks, "after_sensitive": marks if after else {}}
    assert _said(_found(type_, before, after, **more if secret else {}), said)


SERVER = {"fairway-role": "nfs-server", "fairway-name": "home"}
REQUEST, TAINTED = "as it was requested (-replace)", "as it is tainted"


@pytest.mark.parametrize(
    ("type_", "nodes", "change", "entry", "said"),
    [
        (POOL, _of_pool(3), {"replace_paths": [["max_tasks_per_node"]]}, {}, "as max_tasks_per_n"),
        (NODE_POOL, FIXED, {"replace_paths": [["vm_size"]]}, {}, "as vm_size cannot be"),
        (POOL, _of_pool(3), {}, {"action_reason": "replace_by_request"}, REQUEST),
        (POOL, _of_pool(3), {}, {"action_reason": "replace_because_tainted"}, TAINTED),
        (POOL, _of_pool(3), {}, {"action_reason": "replace_by_triggers"}, "replace_triggered_by"),
        (POOL, _of_pool(3), {}, {"action_reason": ["?"]}, "destroyed and recreated: what"),
        (POOL, _of_pool(3), {}, {}, "destroyed and recreated: what"),
    ],
)
def test_plan_rules_report_replaced_nodes_with_the_reason(
    type_: str, nodes: Any, change: Any, entry: Any, said: str
) -> None:
    (found,) = _check(_resource(type_, nodes, nodes, "delete create", **change) | entry)
    assert found.id == "lost-nodes"
    assert f"the 3 nodes of `{type_}.x` would be destroyed and recreated" in found.message
    assert said in found.message
    assert ("cannot be changed in place" in found.message) is bool(change)


def test_plan_rules_hint_at_file_sections_that_replace_a_single_vm() -> None:
    def hint(type_: str, path: str) -> str:
        made = {"instances": 2, **LOCAL}
        change = _resource(type_, made, made, "delete create", replace_paths=[[path]])
        return next(each.hint for each in _check(change) if each.id == "lost-nodes")

    assert hint(VM, "custom_data").startswith("keep its `mounts:`, `idle:` and `monitoring:`")
    assert hint(VM, "size") == hint(SET, "custom_data") != hint(VM, "custom_data")


def test_plan_rules_report_a_deposed_resource_as_left_over() -> None:
    (found,) = _check(_resource(SET, {"instances": 2}, None, "delete") | {"deposed": "00000001"})
    assert "as it was left over when another replaced it" in found.message


@pytest.mark.parametrize(
    ("old", "new", "unreadable"),
    [
        ("23.11", "25.05.4", False),
        ("23.11", "25.11.5", True),
        ("25.11.5", "25.05.4", True),
        ("25.05.4", "25.11.5", False),
        ("", "25.11.5", False),
    ],
)
def test_plan_rules_report_slurm_version_unable_to_read_saved_state(
    old: str, new: str, unreadable: bool
) -> None:
    before, after = (
        {
            "tags": {"fairway-role": "slurm-scheduler"} | ({"fairway-slurm": each} if each else {}),
            "custom_data": each,
        }
        for each in (old, new)
    )
    why = {"replace_paths": [["custom_data"]]}
    found = {one.id: one for one in _check(_resource(VM, before, after, "delete create", **why))}
    replaced = found.pop("replaced-server")
    assert ("no node is up" in replaced.hint) is bool(old)
    assert [(id_, f"Slurm {new} does not start" in one.message) for id_, one in found.items()] == [
        ("unreadable-state", True)
    ] * unreadable


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"size": "a"}, {"size": "b"}, "would restart, as size changes"),
        ({"encryption_at_host_enabled": False}, {"encryption_at_host_enabled": True}, "restart"),
        (SMALL, LARGE, "os_disk.disk"),
        ({"dedicated_host_id": ""}, {"dedicated_host_id": None}, ""),
        ({"size": "a"}, {}, ""),
        ({"tags": {}}, {"tags": {"a": "b"}}, ""),
    ],
)
def test_plan_rules_report_vm_restarted_by_a_change(before: Any, after: Any, said: str) -> None:
    for tags, id_ in (({}, "lost-nodes"), (SERVER, "replaced-server")):
        assert _said(_found(VM, {**before, "tags": tags}, after), {id_: said} if said else {})


PEERING = "azurerm_virtual_network_peering"
USED, UNUSED = ({"use_remote_gateways": each} for each in (True, False))
NAT = _resource(
    "azurerm_nat_gateway_public_ip_association", {"public_ip_address_id": "/A"}, None, "delete"
)
ADDRESS = {"id": "/a", "ip_address": "203.0.113.7"}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([_resource(PEERING, USED, None, "delete")], {"lost-gateway": "no VPN or ExpressRoute"}),
        ([_resource(PEERING, UNUSED, None, "delete")], {}),
        ([_resource(PEERING, USED, USED, "delete create")], {}),
        (
            [NAT, _resource("azurerm_public_ip", ADDRESS, None, "delete")],
            {"new-address": "would be destroyed: the internet knows nodes by 203.0.113.7 no"},
        ),
        # A bastion's address, which no firewall has to admit.
        ([NAT, _resource("azurerm_public_ip", {**ADDRESS, "id": "/b"}, None, "delete")], {}),
        ([_resource("azurerm_consumption_budget_resource_group", {}, {}, "delete create")], {}),
    ],
)
def test_plan_rules_report_lost_gateway_or_address_unless_network_is_deleted(
    found: list[Any], said: dict[str, str]
) -> None:
    stays = _resource("azurerm_virtual_network", {"id": "/n"}, {"id": "/n"}, "no-op")
    assert _said({one.id: one.message for one in _check(*found, stays)}, said)
    gone = [each for each in found if each["change"]["actions"] == ["delete"]]
    assert not _check(*gone), "all of it goes"


def test_plan_rules_recognize_file_server_at_any_terraform_address() -> None:
    address = f'module.lab["a"].{VM}.second_nfs-home_7F1E314D[0]'
    server = _resource(VM, {"size": "a", "tags": SERVER}, None, "delete")
    (found,) = _check(server | {"address": address})
    assert found.message.startswith("the file server `home` would be destroyed")


RULE: dict[str, Any] = {
    "name": "ssh",
    "direction": "Inbound",
    "access": "Allow",
    "protocol": "Tcp",
    "source_address_prefix": "10.0.0.0/8",
    "destination_port_range": "22",
}


@pytest.mark.parametrize(
    ("change", "opened"),
    [
        ({"source_address_prefix": "*"}, True),
        ({"source_address_prefix": "Internet"}, True),
        ({"source_address_prefix": "0.0.0.0/0"}, True),
        ({"source_address_prefix": "203.0.113.0/24"}, False),  # reserved for documentation
        ({"source_address_prefix": "52.0.0.0/8"}, True),
        ({"source_address_prefix": None, "source_address_prefixes": ["10.1.0.0/16", "*"]}, True),
        ({"source_address_prefix": "AzureCloud"}, True),
        ({"source_address_prefix": "VirtualNetwork"}, False),
        ({"source_address_prefix": "172.20.0.0/16"}, False),
        ({"source_address_prefix": "*", "access": "Deny"}, False),
        ({"source_address_prefix": "*", "direction": "Outbound"}, False),
    ],
)
def test_plan_rules_report_network_rule_opened_to_public_sources(change: Any, opened: bool) -> None:
    new = {**RULE, **change}
    one = _found(RULES, RULE, new)
    block = _found(GROUP, {"security_rule": [RULE]}, {"security_rule": [new]})
    made = _found(GROUP, None, {"security_rule": [new]})
    assert [("network-opened" in each) for each in (one, block, made)] == [opened] * 3


OPEN = {**RULE, "source_address_prefix": "*"}
DENY = {**OPEN, "name": "deny", "access": "Deny"}
GATEWAY = {**RULE, "source_address_prefix": "GatewayManager", "destination_port_range": "443"}
PEOPLE = {**GATEWAY, "name": "people", "source_address_prefix": "Internet"}
BASTION = [{**GATEWAY, "name": "gateway"}, PEOPLE]
SSH = {"destination_port_range": "22"}
TO_GROUP = "azurerm_subnet_network_security_group_association"
OPENS, HIDDEN = "`azurerm_storage_account.x` would open: ", "as a secret, so nobody can see whom it"
PUBLIC, HERE = {"public_network_access_enabled": True}, {"public_network_access_enabled": False}
ACLS = "network_acls"


def _rules(action: str, *ranges: str, name: str = "network_rules") -> dict[str, Any]:
    return {name: [{"default_action": action, "ip_rules": list(ranges)}]}


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (RULES, OPEN, {**OPEN, "destination_port_range": "*"}, ""),
        (RULES, OPEN, {**OPEN, "description": "x"}, None),
        (RULES, {**OPEN, "destination_address_prefix": "10.0.0.5/32"}, OPEN, ""),
        (RULES, {**OPEN, "priority": 4000}, {**OPEN, "priority": 100}, ""),
        (RULES, None, {**OPEN, "source_address_prefix": None}, "known only after apply"),
        (RULES, {**DENY, "priority": 100}, {**DENY, "priority": 4000}, "would be another"),
        (RULES, DENY, {**DENY, "source_address_prefix": "10.0.0.0/8"}, "would be another"),
        (
            *(GROUP, {"security_rule": [RULE, DENY]}, {"security_rule": [RULE]}),
            f"rule `deny` of `{GROUP}.x`, which denies access, would be removed",
        ),
        (TO_GROUP, {"id": "x"}, None, "would be destroyed: its rules would no longer apply"),
        (TO_GROUP, None, {"id": "x"}, None),
        # Fairway's own rules.
        (GROUP, None, {"security_rule": BASTION}, None),
        (GROUP, None, {"security_rule": [*BASTION, {**PEOPLE, **SSH}]}, ""),
        (GROUP, None, {"security_rule": [{**RULE, "source_address_prefix": "AzureMonitor"}]}, None),
        (ACCOUNT, HERE, PUBLIC, f"{OPENS}public_network_access_enabled = true"),
        (ACCOUNT, PUBLIC, HERE, None),
        (ACCOUNT, PUBLIC, PUBLIC, None),
        (ACCOUNT, _rules("Deny"), _rules("Allow"), f"{OPENS}network_rules admits every network"),
        (ACCOUNT, _rules("Deny", name=ACLS), _rules("Deny", "52.1.2.3", name=ACLS), "52.1.2.3"),
        (ACCOUNT, _rules("Deny", "52.1.2.3"), _rules("Deny"), None),
    ],
)
def test_plan_rules_report_rules_and_services_opened_to_the_internet(
    type_: str, before: Any, after: Any, said: str | None
) -> None:
    expected = {} if said is None else {"network-opened": said}
    assert _said(_found(type_, before, after), expected)


@pytest.mark.parametrize(
    ("type_", "after", "marks", "said"),
    [
        (GROUP, {"security_rule": [RULE]}, {"security_rule": True}, HIDDEN),
        (RULES, OPEN, {"source_address_prefix": True}, HIDDEN),
        (ACCOUNT, PUBLIC, PUBLIC, ""),
        (ACCOUNT, PUBLIC, True, ""),
        (ACCOUNT, _rules("Allow"), {"network_rules": True}, HIDDEN),
    ],
)
def test_plan_rules_report_network_openings_hidden_by_sensitive_marks(
    type_: str, after: dict[str, Any], marks: Any, said: str
) -> None:
    """`sensitive(…)` around a rule does not hide it from the review."""
    made = _resource(type_, None, after, "create", after_sensitive=marks)
    found = [one.message for one in _check(made) if one.id == "network-opened"]
    assert found
    assert any(said in each for each in found)


def _service(public: bool, *ranges: str, default: str = "Deny") -> dict[str, Any]:
    return {"public_network_access_enabled": public, **_rules(default, *ranges)}


BATCH = "azurerm_batch_account"


def _of_batch(public: bool, *ranges: str, default: str = "Deny") -> dict[str, Any]:
    rules = {"default_action": default, "ip_rule": [{"ip_range": each} for each in ranges]}
    profile = {"account_access": [rules], "node_management_access": [{"default_action": "Deny"}]}
    return {"public_network_access_enabled": public, "network_profile": [profile]}


@pytest.mark.parametrize("service", [_service, _of_batch])
def test_plan_rules_report_service_opened_to_ranges_once_with_ranges(service: Any) -> None:
    def found(before: Any, after: Any) -> list[str]:
        account = _resource(BATCH, before, after, "update" if before else "create")
        return [one.message for one in _check(account)]

    admits = [f"`{BATCH}.x` would admit 203.0.113.0/24"]
    opens = f"`{BATCH}.x` would open: public_network_access_enabled = true"
    assert found(None, service(True, "203.0.113.0/24")) == admits
    assert found(service(False, "203.0.113.0/24"), service(True, "203.0.113.0/24")) == admits
    assert found(service(True, "203.0.113.0/24"), service(True, "203.0.113.0/24")) == []
    assert found(None, service(True)) == [opens]
    assert opens in found(None, service(True, "203.0.113.0/24", default="Allow"))


SUBNETS = {"virtual_network_subnet_ids": True}
DENIES, ADMITS = _rules("Deny")["network_rules"], "`azurerm_x.x` would admit "
LATER, DENY_ALL = "known only after apply", {"default_action": "Deny"}


@pytest.mark.parametrize(
    ("public", "before", "after", "unknown", "said"),
    [
        # A range of a NAT gateway that is replaced, alone and beside another.
        (True, DENIES, [DENY_ALL], [{"ip_rules": True}], f"{ADMITS}ranges that are"),
        (
            *(True, DENIES, [{**DENY_ALL, "ip_rules": ["52.1.2.3", None]}]),
            *([{"ip_rules": [False, True]}], f"{ADMITS}52.1.2.3, ranges that are {LATER}"),
        ),
        (True, None, [{**DENY_ALL, "ip_rules": [None]}], [{"ip_rules": [True]}], f"{ADMITS}ranges"),
        # The provider's own, as none are given.
        (
            *(True, None, [{**DENY_ALL, "virtual_network_subnet_ids": ["/x"]}]),
            *([{"ip_rules": True}], "would open: public_network_access_enabled = true"),
        ),
        (True, DENIES, [{}], [{"default_action": True}], "whom network_rules admits"),
        (True, DENIES, None, True, "whom network_rules admits"),
        # Nobody gets in, or only a subnet.
        (False, None, [DENY_ALL], [{"ip_rules": True}], None),
        (False, None, None, True, None),
        (True, DENIES, DENIES, [SUBNETS], None),
    ],
)
def test_plan_rules_report_service_that_admits_what_is_known_only_after_apply(
    public: bool, before: Any, after: Any, unknown: Any, said: str | None
) -> None:
    switch = {"public_network_access_enabled": public}
    old = before and {**switch, "network_rules": before}
    new = {**switch, **({"network_rules": after} if after else {})}
    later = {"network_rules": unknown}
    expected = {} if said is None else {"network-opened": said}
    assert _said(_found("azurerm_x", old, new, after_unknown=later), expected)


def test_plan_rules_report_batch_account_that_admits_an_address_known_only_after_apply() -> None:
    new, later = _of_batch(True), {"ip_rule": [{"ip_range": True}]}
    new["network_profile"][0]["node_management_access"][0]["ip_rule"] = [{"action": "Allow"}]
    later = {"network_profile": [{"node_management_access": [later]}]}
    made = _found(BATCH, _of_batch(True), new, after_unknown=later)
    assert _said(made, {"network-opened": f"`{BATCH}.x` would admit ranges that are {LATER}"})


def test_plan_rules_report_no_network_profile_that_is_no_firewall() -> None:
    later = {"network_profile": [{"outbound_type": True}]}
    for more in ({"after_unknown": later}, {"after_unknown": {"network_profile": True}}):
        assert "network-opened" not in _found("azurerm_kubernetes_cluster", None, {}, **more)
    hidden = {"after_sensitive": {"network_profile": True}}
    profile = {"network_profile": [{"outbound_type": "loadBalancer"}]}
    assert "network-opened" not in _found("azurerm_kubernetes_cluster", None, profile, **hidden)


LAB = "/subscriptions/0/resourceGroups/lab"
GRANT = {"role_definition_name": "Reader", "role_definition_id": None}
GRANT |= {"scope": LAB, "principal_id": "a"}
ASSIGNED, ROLE = "azurerm_role_assignment", "azurerm_role_definition"
TRUST = "azurerm_federated_identity_credential"
OURS = {"issuer": "https://a.example", "subject": "repo:lab/env:main", "audience": ["a"]}
EVIL = {**OURS, "subject": "repo:evil/fork:main"}
TRUSTS = "would let repo:evil/fork:main of https://a.example act as its identity"
READ, WRITE = ({"permissions": [{"actions": list(each)}]} for each in (("a/read",), ("a/write",)))
WRITE["permissions"][0] |= {"actions": ["a/read", "a/write"], "data_actions": ["b"]}
NARROW = {"permissions": [{"actions": ["Microsoft.Compute/virtualMachineScaleSets/read"]}]}


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (ASSIGNED, GRANT, {"scope": "/subscriptions/0"}, ""),
        (ASSIGNED, GRANT, {"scope": f"{LAB}oratory"}, ""),
        (ASSIGNED, GRANT, {"scope": f"{LAB}/providers/x"}, None),
        (ASSIGNED, GRANT, {"role_definition_name": "Owner"}, "broad"),
        (ASSIGNED, GRANT, {"principal_id": "b"}, ""),
        (ASSIGNED, GRANT, {"role_definition_id": "/x", "description": "y"}, None),
        (ASSIGNED, None, {**GRANT, "role_definition_name": "Owner"}, "broad"),
        (ASSIGNED, GRANT, None, None),
        (TRUST, None, EVIL, TRUSTS),
        (TRUST, OURS, EVIL, TRUSTS),
        # Known after apply.
        (TRUST, OURS, {"issuer": None}, "act as its identity"),
        (TRUST, OURS, {"subject": None}, "act as its identity"),
        (TRUST, OURS, OURS, None),
        (TRUST, OURS, None, None),
        (ROLE, READ, WRITE, f"role `{ROLE}.x` would allow a/write, b"),
        (ROLE, WRITE, READ, None),
        (ROLE, None, NARROW, None),
        (ROLE, None, {"permissions": [{"actions": ["*"]}]}, ""),
    ],
)
def test_plan_rules_report_wider_roles_and_trust(
    type_: str, before: Any, after: Any, said: str | None
) -> None:
    if before and after:
        after = {name: value for name, value in {**before, **after}.items() if value is not None}
    actions = "delete create" if type_ == ASSIGNED and before and after else ""
    expected = {} if said is None else {"wider-grant": said}
    assert _said(_found(type_, before, after, actions), expected)


def test_plan_rules_report_new_narrow_grant_as_wider_but_not_broad() -> None:
    assert "broad" not in _found(ASSIGNED, None, GRANT)["wider-grant"]


def test_plan_rules_ignore_narrow_grant_to_own_identity() -> None:
    scope = f"{LAB}/providers/Microsoft.Storage/storageAccounts/a"
    grant = {**GRANT, "role_definition_name": "Storage Blob Data Contributor", "scope": scope}

    def found(after: Any, own: tuple[str, ...] = ("a",), **unknown: bool) -> list[str]:
        made = _resource(ASSIGNED, None, after, "create", after_unknown=unknown)
        return [one.id for one in _check(made, own=own)]

    assert found(grant) == []
    assert found(grant, own=()) == ["wider-grant"]
    assert found({**grant, "scope": "/subscriptions/0"}) == ["wider-grant"]
    assert found({**grant, "role_definition_name": "Owner"}) == ["wider-grant"]
    new = {**grant, "principal_id": None, "scope": None}
    assert found(new, own=(), principal_id=True, scope=True) == []


@pytest.mark.parametrize(("role", "wider"), [("Reader", False), ("Contributor", True)])
def test_plan_rules_ignore_same_role_on_a_recreated_resource(role: str, wider: bool) -> None:
    """A replaced VM is granted its role for stopping itself again."""
    before = {**GRANT, "role_definition_name": "Reader"}
    before["scope"] = f"{LAB}/providers/Microsoft.Compute/virtualMachines/a"
    after = {**before, "role_definition_name": role, "scope": None}
    again = _resource(ASSIGNED, before, after, "delete create", after_unknown={"scope": True})
    assert [one.id for one in _check(again, own=("a",))] == ["wider-grant"] * wider


@pytest.mark.parametrize("kept", [False, True])
def test_plan_rules_ignore_rules_deleted_with_their_subnet(kept: bool) -> None:
    """Switching off a Bastion deletes its subnet and its rules with it."""
    held = {"subnet_id": f"/n/subnets/{'b' if kept else 'a'}", "network_security_group_id": "/g"}
    gone = [
        _resource("azurerm_subnet", {"id": "/N/subnets/A"}, None, "delete"),
        _resource(GROUP, {"id": "/g", "security_rule": [DENY]}, None, "delete"),
        _resource(TO_GROUP, held, None, "delete"),
    ]
    assert [one.id for one in _check(*gone)] == ["network-opened"] * 2 * kept


def test_plan_rules_report_replaced_group_while_another_subnet_is_deleted() -> None:
    held, holds = ({"subnet_id": "/n/subnets/b", "network_security_group_id": g} for g in "gh")
    changes = [
        _resource("azurerm_subnet", {"id": "/n/subnets/a"}, None, "delete"),
        _resource(GROUP, {"id": "g", "security_rule": [DENY]}, None, "delete"),
        _resource(TO_GROUP, held, holds, "delete create"),
    ]
    assert [one.id for one in _check(*changes)] == ["network-opened"]


def test_plan_rules_never_repeat_a_secret_in_a_message() -> None:
    for type_, key, value, id_ in (
        (RULES, "source_address_prefix", "52.1.2.3", "network-opened"),
        (ASSIGNED, "principal_id", "hunter2", "wider-grant"),
    ):
        new = {**(RULE if type_ == RULES else GRANT), key: value}
        assert value not in _found(type_, None, new, after_sensitive={key: True})[id_]


def _kind(sku: str) -> dict[str, str]:
    return {"storage_account_type": sku}


def _of(version: str | None) -> dict[str, str | None]:
    return {"kubernetes_version": version}


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        (DISK, {"disk_size_gb": 1024}, {"disk_size_gb": 512}, "would shrink from 1024 to 512 GiB"),
        (DISK, {"disk_size_gb": 512}, {"disk_size_gb": 1024}, None),
        (DISK, _kind("PremiumV2_LRS"), _kind("Premium_LRS"), "from PremiumV2_LRS to Premium_LRS"),
        (DISK, _kind("StandardSSD_LRS"), _kind("Premium_LRS"), None),
        (VM, LARGE, SMALL, "the system disk of"),
        (VM, SMALL, LARGE, None),
        (KUBERNETES, _of("1.36.2"), _of("1.35"), "would go back from Kubernetes 1.36 to 1.35"),
        (KUBERNETES, _of("1.36.2"), _of("1.36"), None),
        (KUBERNETES, _of("1.36"), _of(None), None),
    ],
)
def test_plan_rules_report_changes_that_azure_refuses(
    type_: str, before: Any, after: Any, said: str | None
) -> None:
    found = _found(type_, before, after).get("refused-by-azure")
    assert (found is None) is (said is None)
    assert (said or "") in (found or "")


@pytest.mark.parametrize(
    ("before", "after", "more", "said"),
    [
        ((0, 8), (0, 7), {"engine": "slurm"}, "what runs on nd-7 ends"),
        ((0, 8), (0, 4), {"engine": "kubernetes"}, "at most 4 nodes, 8 before"),
        ((0, 8), (0, 1), {"engine": "batch", "batch": {"pool": "p"}}, "at most 1 node, 8 before"),
        # Each job takes one node.
        ((0, 8), (0, 4), {"engine": "batch", "batch": {"pool": "p", "mpi": False}}, None),
        ((0, 8), (0, 9), {"engine": "slurm"}, None),
        # Terraform holds no instances of a Slurm scale set and no size of an autoscaled pool.
        ((8, 8), (4, 4), {"engine": "slurm"}, "what runs on nd-4 to nd-7 ends"),
        ((8, 8), (0, 4), {"engine": "kubernetes"}, "at most 4 nodes, 8 before"),
        # The nodes themselves are removed, which `lost-nodes` reports.
        ((8, 8), (4, 4), {"engine": "kubernetes"}, None),
        ((0, 8), None, {"engine": "slurm"}, None),
    ],
)
def test_plan_rules_report_lower_maximum_nodes_of_a_cluster(
    before: tuple[int, int], after: tuple[int, int] | None, more: Any, said: str | None
) -> None:
    sides = [
        [{"name": "nd", **more, "nodes": dict(zip(("min", "max"), each, strict=True))}]
        for each in (before, after)
        if each
    ]
    change = dict(zip(("before", "after"), [*sides, []], strict=False))
    plan = {"resource_changes": [], "output_changes": {"targets": change}}
    found = {one.id: one.message for one in check_plan(plan)}
    assert _said(found, {} if said is None else {"lower-maximum": said})


@pytest.mark.parametrize(("version", "first"), [("1.35", None), ("1.36", "1.35"), ("1.33", None)])
def test_plan_rules_hint_at_skipped_kubernetes_version(version: str, first: str | None) -> None:
    sides = ({"orchestrator_version": each} for each in ("1.34", version))
    found = [one for one in _check(_resource(NODE_POOL, *sides)) if one.id == "upgraded-nodes"]
    assert len(found) == (version != "1.33")
    assert all((f"first deploy {first}" in one.hint) is bool(first) for one in found)


USES = {"ip_configuration": [{"subnet_id": "/s"}]}
ELSEWHERE = {"ip_configuration": [{"subnet_id": "/other"}]}


@pytest.mark.parametrize(
    ("prefixes", "user", "actions", "after", "said"),
    [
        (["10.50.0.0/17"], USES, "no-op", USES, ""),
        (["10.40.0.0/16"], USES, "no-op", USES, None),
        (["10.50.0.0/17"], ELSEWHERE, "no-op", ELSEWHERE, None),
        (None, USES, "no-op", USES, "would be deleted while azurerm_network_interface.x uses it"),
        (None, USES, "delete", None, None),
        (None, USES, "update", ELSEWHERE, None),
    ],
)
def test_plan_rules_report_subnet_in_use_that_is_deleted_or_moved(
    prefixes: list[str] | None, user: Any, actions: str, after: Any, said: str | None
) -> None:
    before = {"id": "/s", "address_prefixes": ["10.40.0.0/17"]}
    now = {**before, "address_prefixes": prefixes} if prefixes else None
    subnet = _resource("azurerm_subnet", before, now, "update" if now else "delete")
    others = [_resource("azurerm_network_interface", user, after, actions)]
    found = {one.id: one.message for one in _check(subnet, others=others)}
    assert _said(found, {} if said is None else {"refused-by-azure": said})


ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a"


@pytest.mark.parametrize(
    ("kind", "id_", "held"),
    [
        (ASSIGNED, f"{ID}/blobServices/default/containers/c/x/roles/r", True),
        (ASSIGNED, f"{ID.upper()}/x/roles/r", True),
        ("azurerm_storage_container", f"{ID}/blobServices/default/containers/c", True),
        ("azurerm_monitor_diagnostic_setting", f"{ID}|recorded", True),
        (ASSIGNED, f"{ID}er/x/roles/r", False),
        ("azurerm_storage_blob", "https://a.blob.core.windows.net/c/x", False),
        ("azurerm_storage_account_customer_managed_key", ID, False),
    ],
)
@pytest.mark.parametrize("actions", ["delete", "delete create"])
def test_plan_rules_refuse_deletion_below_a_lock(
    kind: str, id_: str, held: bool, actions: str
) -> None:
    scope = {"scope": ID, "lock_level": "CanNotDelete"}

    def found(lock: str, before: Any = None, after: Any = None) -> list[tuple[str, str]]:
        gone = _resource(kind, {"id": id_}, None, actions)
        found = _check(gone, _resource(LOCK, before, after, lock))
        return [(one.id, one.path) for one in found if one.id in ("held-by-lock", "unlocked")]

    refused = [("held-by-lock", f"{kind}.x")] * held
    assert found("no-op", before=scope, after=scope) == refused
    assert [each for each in found("create", after=scope) if each[0] != "unlocked"] == refused
    assert found("delete create", before=scope, after=scope) == refused
    assert found("delete", before=scope) == []


@pytest.mark.parametrize("there", [True, False])
def test_plan_rules_report_new_lock_on_existing_resource_as_unlocked(there: bool) -> None:
    account = _resource(ACCOUNT, {"id": ID} if there else None, {}, "no-op")
    lock = _resource(LOCK, None, {"scope": ID.lower()}, "create")
    assert [one.id for one in _check(account, lock)] == ["unlocked"] * there


def _open_to(*ranges: str) -> dict[str, Any]:
    profile = [{"authorized_ip_ranges": list(ranges)}] if ranges else []
    return {"local_account_disabled": True, "api_server_access_profile": profile}


ONE, TWO = _open_to("203.0.113.0/24"), _open_to("203.0.113.0/24", "8.8.8.0/24")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (CLOSED, ONE, "would admit 203.0.113.0/24"),
        (None, _open_to("203.0.113.0/24", "10.0.0.0/8"), "would admit 203.0.113.0/24"),
        (ONE, TWO, "admit 8.8.8.0/24"),
        (ONE, _open_to(), "would be open to every address"),
        (None, _open_to(), "would be open to every address"),
        (None, _open_to("8.8.8.8/24"), "would admit 8.8.8.8/24"),
        (None, _open_to("10.0.0.5/8"), None),
        (None, CLOSED, None),
        (_open_to(), ONE, None),
        (ONE, ONE, None),
        (ONE, CLOSED, None),
        (CLOSED, {**CLOSED, "local_account_disabled": False}, "would have local accounts"),
    ],
)
def test_plan_rules_report_api_server_opened_to_public_addresses(
    before: Any, after: Any, said: str | None
) -> None:
    expected = {} if said is None else {"api-server-opened": said}
    assert _said(_found(KUBERNETES, before, after), expected)
    assert not _found(KUBERNETES, before, after, "read")


@pytest.mark.parametrize(
    ("ranges", "unknown", "said"),
    [
        (["203.0.113.0/24", None], [False, True], "would admit 203.0.113.0/24"),
        ([None], [True], ""),
        (None, True, ""),
        ([], [], "would be open to every address"),
    ],
)
def test_plan_rules_ignore_unknown_authorized_ranges_of_api_server(
    ranges: object, unknown: object, said: str
) -> None:
    profile = {} if ranges is None else {"authorized_ip_ranges": ranges}
    after = {"local_account_disabled": True, "api_server_access_profile": [profile]}
    masked = {"api_server_access_profile": [{"authorized_ip_ranges": unknown}]}
    found = _check(_resource(KUBERNETES, None, after, "create", after_unknown=masked))
    assert [each.message for each in found if each.id == "api-server-opened"] == (
        [f"the API server of `{KUBERNETES}.x` {said}"] if said else []
    )

"""Rules on plans, where one example is not enough."""

from typing import Any

import pytest

from fairway_core.checks import check_plan
from fairway_core.findings import Finding

LOCK = "azurerm_management_lock"
SET = "azurerm_linux_virtual_machine_scale_set"
SIZE = "Standard_ND96isr_H100_v5"


def _resource(
    type_: str, before: Any, after: Any, actions: str = "update", **more: Any
) -> dict[str, Any]:
    change = {"actions": actions.split(), "before": before, "after": after, **more}
    return {"address": f"{type_}.x", "type": type_, "change": change}


def _check(*resources: dict[str, Any], **given: Any) -> list[Finding]:
    return check_plan({"resource_changes": resources}, **given)


def _found(
    type_: str, before: Any, after: Any, actions: str = "update", **more: Any
) -> dict[str, str]:
    """Messages by id."""
    return {one.id: one.message for one in _check(_resource(type_, before, after, actions, **more))}


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"sku": SIZE}, {"sku": "Standard_ND96is_H100_v5"}, "Standard_ND96is_H100_v5 has none"),
        ({"sku": SIZE}, {"sku": "Standard_New_v9"}, "not known to have it"),
        ({"sku": SIZE}, {"sku": "Standard_ND96isr_H200_v5"}, None),
        ({"sku": SIZE}, {"sku": SIZE.upper()}, None),
        ({"sku": SIZE, "zones": ["1"]}, {"sku": SIZE, "zones": ["1", "2"]}, "another zone"),
        ({"sku": SIZE}, {"sku": SIZE, "capacity_reservation_group_id": "/x"}, "reservation"),
        ({"sku": "Standard_D4s_v6"}, {"sku": "Standard_D8s_v6"}, None),
    ],
)
def test_infiniband_is_lost(before: Any, after: Any, lost: str | None) -> None:
    found = _found(SET, before, after)
    assert ("lost-infiniband" in found) is (lost is not None)
    assert (lost or "") in found.get("lost-infiniband", "")


def test_a_pool_loses_it_too() -> None:
    before = {"vm_size": SIZE.upper(), "inter_node_communication": "Enabled"}
    after = {**before, "inter_node_communication": "Disabled"}
    assert "lost-infiniband" in _found(POOL, before, after, "delete create")
    assert _found(POOL, before, before) == {}


@pytest.mark.parametrize(
    ("attribute", "old", "new", "mixed"),
    [
        ("custom_data", "a", "b", True),
        ("os_disk", [{"disk_size_gb": 64}], [{"disk_size_gb": 128}], True),
        ("admin_ssh_key", [{"public_key": "a"}], [{"public_key": "b"}], True),
        ("instances", 2, 3, False),
        ("tags", {}, {"a": "b"}, False),
        ("os_disk", [{"edge": ""}], [{"edge": None}], False),
        ("extension", None, [], False),
    ],
)
def test_nodes_keep_what_they_were_made_with(
    attribute: str, old: Any, new: Any, mixed: bool
) -> None:
    secret = {"before_sensitive": {attribute: True}, "after_sensitive": {attribute: True}}
    found = _found(SET, {attribute: old, "x": 1}, {attribute: new, "x": 1}, **secret)
    assert ("mixed-nodes" in found) is mixed
    if mixed:
        assert attribute in found["mixed-nodes"]


POOL = "azurerm_batch_pool"
KUBERNETES = "azurerm_kubernetes_cluster"
NODE_POOL = "azurerm_kubernetes_cluster_node_pool"
CLOSED = {"local_account_disabled": True, "private_cluster_enabled": True}
MADE = {"instances": 2, "extension": [{"name": "a"}], "custom_data": "a"}
FIXED = {"node_count": 3, "auto_scaling_enabled": False}


def _of_pool(dedicated: int, low: int = 0, **more: Any) -> dict[str, Any]:
    scale = {"target_dedicated_nodes": dedicated, "target_low_priority_nodes": low}
    return {"fixed_scale": [scale], **more}


@pytest.mark.parametrize(
    ("type_", "before", "after", "said"),
    [
        # Reimaging a node for another person's account would lose its disk for nothing.
        (
            SET,
            MADE,
            {**MADE, "extension": []},
            {"mixed-nodes": "the old extension until each is brought up to date"},
        ),
        (
            SET,
            MADE,
            {**MADE, "extension": [], "custom_data": "b"},
            {"mixed-nodes": "until each is reimaged"},
        ),
        (SET, {**MADE, "instances": 0}, {**MADE, "instances": 0, "custom_data": "b"}, {}),
        (
            SET,
            {"instances": 4, "sku": "a"},
            {"instances": 3, "sku": "b"},
            {"mixed-nodes": "the 3 nodes of", "lost-nodes": "the 1 node of"},
        ),
        (
            SET,
            {**MADE, "upgrade_mode": "Automatic"},
            {**MADE, "custom_data": "b"},
            {"mixed-nodes": "Azure would reimage the 2 nodes of"},
        ),
        (POOL, _of_pool(3, 2), None, {"lost-nodes": "the 5 nodes of"}),
        (POOL, {"fixed_scale": []}, None, {"lost-nodes": "the nodes of"}),
        (POOL, _of_pool(2), None, {"lost-nodes": "its jobs stay in the account without nodes"}),
        # A node does not change its kind.
        (POOL, _of_pool(3, 0), _of_pool(1, 3), {"lost-nodes": "the 2 nodes of"}),
        (POOL, _of_pool(3, 0), {"auto_scale": [{}]}, {}),
        (
            NODE_POOL,
            {"node_count": 0, "auto_scaling_enabled": True},
            None,
            {"lost-nodes": "the nodes of"},
        ),
        (NODE_POOL, FIXED, {**FIXED, "node_count": 1}, {"lost-nodes": "the 2 nodes of"}),
        (NODE_POOL, FIXED, {**FIXED, "node_count": 4}, {}),
        (KUBERNETES, CLOSED, None, {"lost-cluster": "every job in the cluster ends"}),
        (
            NODE_POOL,
            {"orchestrator_version": "1.33"},
            {"orchestrator_version": "1.34"},
            {"upgraded-nodes": "for Kubernetes 1.34 in place of 1.33"},
        ),
    ],
)
def test_plan_rules_report_what_becomes_of_nodes(
    type_: str, before: Any, after: Any, said: dict[str, str]
) -> None:
    found = _found(type_, before, after, "update" if after else "delete")
    assert {id_: said[id_] in found[id_] for id_ in found} == dict.fromkeys(said, True)


@pytest.mark.parametrize(
    ("type_", "nodes", "path"),
    [(POOL, _of_pool(3), "max_tasks_per_node"), (NODE_POOL, FIXED, "vm_size")],
)
def test_plan_rules_report_nodes_that_are_replaced(type_: str, nodes: Any, path: str) -> None:
    found = _found(type_, nodes, nodes, "delete create", replace_paths=[[path]])
    said = f"the 3 nodes of `{type_}.x` would be destroyed and recreated, as {path} cannot be"
    assert said in found["lost-nodes"]


def test_settings_in_another_form_are_the_same() -> None:
    """The provider reads JSON back without spaces."""
    old, new = ({"extension": [{"settings": text}]} for text in ('{"a":1}', '{"a": 1}'))
    assert _found(SET, {"instances": 2, **old}, {"instances": 2, **new}) == {}


SERVER = {"fairway-role": "nfs-server", "fairway-name": "home"}


def test_a_single_machine_is_a_node_and_a_server_is_none() -> None:
    machine = {"os_disk": [{"diff_disk_settings": [{"option": "Local"}]}]}
    assert set(_found("azurerm_linux_virtual_machine", machine, None, "delete")) == {"lost-nodes"}
    before, after = ({"size": size, "tags": SERVER} for size in ("a", "b"))
    (found,) = _check(_resource("azurerm_linux_virtual_machine", before, after))
    assert found.id == "replaced-server"
    assert "would restart, as size changes" in found.message


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [
        ("23.11", "25.05.4", {"replaced-server"}),
        ("23.11", "25.11.5", {"replaced-server", "unreadable-state"}),
        ("25.11.5", "25.05.4", {"replaced-server", "unreadable-state"}),
        ("25.05.4", "25.11.5", {"replaced-server"}),
        ("", "25.11.5", {"replaced-server"}),
    ],
)
def test_slurm_is_told_what_it_can_read(old: str, new: str, ids: set[str]) -> None:
    def tags(version: str) -> dict[str, str]:
        return {
            "fairway-role": "slurm-scheduler",
            **({"fairway-slurm": version} if version else {}),
        }

    before = {"tags": tags(old), "custom_data": "a"}
    after = {"tags": tags(new), "custom_data": "b"}
    why = {"replace_paths": [["custom_data"]]}
    machine = _resource("azurerm_linux_virtual_machine", before, after, "delete create", **why)
    found = {each.id: each for each in _check(machine)}
    assert set(found) == ids
    replaced = found["replaced-server"]
    assert ("no node is up" in replaced.hint) is bool(old)
    if "unreadable-state" in ids:
        assert f"Slurm {new} does not start" in found["unreadable-state"].message


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
        ({"source_address_prefix": "203.0.113.0/24"}, False),  # kept for documentation
        ({"source_address_prefix": "52.0.0.0/8"}, True),
        ({"source_address_prefix": None, "source_address_prefixes": ["10.1.0.0/16", "*"]}, True),
        ({"source_address_prefix": "AzureCloud"}, True),
        ({"source_address_prefix": "VirtualNetwork"}, False),
        ({"source_address_prefix": "172.20.0.0/16"}, False),
        ({"source_address_prefix": "*", "access": "Deny"}, False),
        ({"source_address_prefix": "*", "direction": "Outbound"}, False),
    ],
)
def test_a_rule_opens(change: Any, opened: bool) -> None:
    new = {**RULE, **change}
    group = "azurerm_network_security_group"
    one = _found("azurerm_network_security_rule", RULE, new)
    block = _found(group, {"security_rule": [RULE]}, {"security_rule": [new]})
    made = _found(group, None, {"security_rule": [new]}, "create")
    assert [("network-opened" in each) for each in (one, block, made)] == [opened] * 3


def test_more_ports_of_the_internet_open() -> None:
    before = {**RULE, "source_address_prefix": "*"}
    after = {**before, "destination_port_range": "*"}
    kind = "azurerm_network_security_rule"
    assert "network-opened" in _found(kind, before, after)
    assert _found(kind, before, {**before, "description": "x"}) == {}


def test_a_denial_that_goes_opens() -> None:
    deny = {**RULE, "name": "deny", "access": "Deny", "source_address_prefix": "*"}
    group = "azurerm_network_security_group"
    found = _found(group, {"security_rule": [RULE, deny]}, {"security_rule": [RULE]})
    assert "rule `deny`" in found["network-opened"]
    assert "which denies access, would be removed" in found["network-opened"]
    association = "azurerm_subnet_network_security_group_association"
    found = _found(association, {"id": "x"}, None, "delete")
    assert "would be destroyed: its rules would no longer apply" in found["network-opened"]
    assert _found(association, None, {"id": "x"}, "create") == {}


@pytest.mark.parametrize(
    ("before", "after", "opened"),
    [
        ({"public_network_access_enabled": False}, {"public_network_access_enabled": True}, True),
        ({"public_network_access_enabled": True}, {"public_network_access_enabled": False}, False),
        ({"public_network_access_enabled": True}, {"public_network_access_enabled": True}, False),
        (
            {"network_rules": [{"default_action": "Deny"}]},
            {"network_rules": [{"default_action": "Allow"}]},
            True,
        ),
        (
            {"network_acls": [{"default_action": "Deny", "ip_rules": []}]},
            {"network_acls": [{"default_action": "Deny", "ip_rules": ["52.1.2.3"]}]},
            True,
        ),
        (
            {"network_rules": [{"default_action": "Deny", "ip_rules": ["52.1.2.3"]}]},
            {"network_rules": [{"default_action": "Deny", "ip_rules": []}]},
            False,
        ),
    ],
)
def test_a_service_opens(before: Any, after: Any, opened: bool) -> None:
    found = _found("azurerm_storage_account", before, after)
    assert ("network-opened" in found) is opened
    if after.get("public_network_access_enabled") and opened:
        said = "`azurerm_storage_account.x` would open: public_network_access_enabled = true"
        assert found["network-opened"] == said
    if after.get("network_rules") == [{"default_action": "Allow"}]:
        said = "`azurerm_storage_account.x` would open: network_rules admits every network"
        assert found["network-opened"] == said


def _service(public: bool, *ranges: str, default: str = "Deny") -> dict[str, Any]:
    rules = {"default_action": default, "ip_rules": list(ranges)}
    return {"public_network_access_enabled": public, "network_rules": [rules]}


def _of_batch(public: bool, *ranges: str, default: str = "Deny") -> dict[str, Any]:
    rules = {"default_action": default, "ip_rule": [{"ip_range": each} for each in ranges]}
    profile = {"account_access": [rules], "node_management_access": [{"default_action": "Deny"}]}
    return {"public_network_access_enabled": public, "network_profile": [profile]}


@pytest.mark.parametrize("service", [_service, _of_batch])
def test_service_that_opens_to_ranges_is_found_once_with_the_ranges(service: Any) -> None:
    def found(before: Any, after: Any) -> list[str]:
        account = _resource("azurerm_x", before, after, "update" if before else "create")
        return [one.message for one in _check(account)]

    admits = ["`azurerm_x.x` would admit 203.0.113.0/24"]
    opens = "`azurerm_x.x` would open: public_network_access_enabled = true"
    assert found(None, service(True, "203.0.113.0/24")) == admits
    assert found(service(False, "203.0.113.0/24"), service(True, "203.0.113.0/24")) == admits
    assert found(service(True, "203.0.113.0/24"), service(True, "203.0.113.0/24")) == []
    assert found(None, service(True)) == [opens]
    assert opens in found(None, service(True, "203.0.113.0/24", default="Allow"))


GRANT = {
    "role_definition_name": "Reader",
    "role_definition_id": None,
    "scope": "/subscriptions/0/resourceGroups/lab",
    "principal_id": "a",
}


@pytest.mark.parametrize(
    ("change", "wider"),
    [
        ({"scope": "/subscriptions/0"}, True),
        ({"scope": "/subscriptions/0/resourceGroups/laboratory"}, True),
        ({"scope": "/subscriptions/0/resourceGroups/lab/providers/x"}, False),
        ({"role_definition_name": "Owner"}, True),
        ({"principal_id": "b"}, True),
        ({"role_definition_id": "/x", "description": "y"}, False),
    ],
)
def test_a_grant_widens(change: Any, wider: bool) -> None:
    found = _found("azurerm_role_assignment", GRANT, {**GRANT, **change}, "delete create")
    assert ("wider-grant" in found) is wider


def test_a_new_grant_is_told_and_a_broad_one_is_called_so() -> None:
    kind = "azurerm_role_assignment"
    assert "broad" not in _found(kind, None, GRANT, "create")["wider-grant"]
    owner = {**GRANT, "role_definition_name": "Owner"}
    assert "broad" in _found(kind, None, owner, "create")["wider-grant"]
    assert _found(kind, GRANT, None, "delete") == {}


def test_plan_rules_report_newly_trusted_tokens_as_wider_grant() -> None:
    kind = "azurerm_federated_identity_credential"
    ours = {
        "issuer": "https://token.example.com",
        "subject": "repo:lab/env:main",
        "audience": ["a"],
    }
    other = {**ours, "subject": "repo:evil/fork:main"}
    said = "would let repo:evil/fork:main of https://token.example.com act as its identity"
    assert said in _found(kind, None, other, "create")["wider-grant"]
    assert said in _found(kind, ours, other)["wider-grant"]
    for key in ("issuer", "subject"):  # known after apply
        unknown = {name: value for name, value in ours.items() if name != key}
        assert "act as its identity" in _found(kind, ours, unknown)["wider-grant"]
    assert _found(kind, ours, ours) == {}
    assert _found(kind, ours, None, "delete") == {}


def test_a_role_that_allows_more() -> None:
    kind = "azurerm_role_definition"
    before = {"permissions": [{"actions": ["a/read"]}]}
    after = {"permissions": [{"actions": ["a/read", "a/write"], "data_actions": ["b"]}]}
    said = f"role `{kind}.x` would allow a/write, b"
    assert _found(kind, before, after)["wider-grant"] == said
    assert _found(kind, after, before) == {}


def test_no_message_repeats_a_secret() -> None:
    new = {**RULE, "source_address_prefix": "52.1.2.3"}
    mask = {"after_sensitive": {"source_address_prefix": True}}
    found = _found("azurerm_network_security_rule", None, new, "create", **mask)
    assert "52.1.2.3" not in found["network-opened"]
    secret = {"after_sensitive": {"principal_id": True}}
    owner = {**GRANT, "principal_id": "hunter2"}
    found = _found("azurerm_role_assignment", None, owner, "create", **secret)
    assert "hunter2" not in found["wider-grant"]


def _loss(type_: str, before: Any, after: Any, actions: str = "update", **more: Any) -> str:
    return _found(type_, before, after, actions, **more).get("data-loss", "")


def test_plan_rules_treat_values_known_after_apply_as_no_loss() -> None:
    before = {"retention_in_days": 90}
    unknown = {"after_unknown": {"retention_in_days": True}}
    assert _loss("azurerm_log_analytics_workspace", before, {}, **unknown) == ""


@pytest.mark.parametrize(
    "type_", ["resource_group", "backup_protected_vm", "netapp_pool", "log_analytics_workspace"]
)
def test_plan_rules_report_contents_lost_with_their_resource(type_: str) -> None:
    assert "with it what it holds" in _loss(f"azurerm_{type_}", {"id": "x"}, None, "delete")


def test_a_machine_goes_with_its_own_disk() -> None:
    kind = "azurerm_linux_virtual_machine"
    assert "its own disk" in _loss(kind, {"os_disk": [{"disk_size_gb": 64}]}, None, "delete")
    local = {"os_disk": [{"diff_disk_settings": [{"option": "Local"}]}]}
    assert _loss(kind, local, None, "delete") == ""


def test_a_lock_is_told_unless_what_it_locks_goes_too() -> None:
    lock = "azurerm_management_lock"
    before = {"scope": "/x/disks/d"}
    assert "nothing keeps anybody from deleting `d`" in _loss(lock, before, None, "delete")
    disk = _resource("azurerm_managed_disk", {"id": "/x/disks/d"}, None, "delete")
    found = _check(_resource(lock, before, None, "delete"), disk)
    assert [one.path for one in found] == ["azurerm_managed_disk.x"]


def _life(*rules: tuple[str, int], account: str = "/a") -> dict[str, Any]:
    return {
        "storage_account_id": account,
        "rule": [
            {
                "name": f"rule-{number}",
                "enabled": True,
                "filters": [{"prefix_match": [prefix] if prefix else []}],
                "actions": [
                    {"base_blob": [{"delete_after_days_since_modification_greater_than": days}]}
                ],
            }
            for number, (prefix, days) in enumerate(rules)
        ],
    }


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            _life(("outputs/", 3650)),
            _life(("outputs/", 1)),
            "after 1 days, before: after 3650 days",
        ),
        (_life(), _life(("datasets/", 30)), "blobs of `datasets/` after 30 days, before: never"),
        (_life(("outputs/", 90)), _life(("", 90)), "blobs of `*` after 90 days, before: never"),
        (_life(("", 30)), _life(("outputs/", 60)), ""),
        (_life(("outputs/", 30)), _life(("outputs/", 90)), ""),
        (_life(("outputs/", 30)), _life(("outputs/", -1)), ""),
        (_life(("outputs/", 30)), _life(), ""),
    ],
)
def test_a_life_cycle_that_deletes_sooner(before: Any, after: Any, said: str) -> None:
    found = _loss("azurerm_storage_management_policy", before, after)
    assert said in found
    assert bool(found) == bool(said)


def test_a_new_container_and_a_new_account_hold_nothing_to_lose() -> None:
    policy, container = "azurerm_storage_management_policy", "azurerm_storage_container"

    def found(account: str) -> list[Any]:
        made = {"storage_account_id": account, "name": "new"}
        update = _resource(policy, _life(), _life(("new/", 30)))
        return _check(update, _resource(container, None, made, "create"))

    assert found("/a") == []
    assert [one.id for one in found("/another")] == ["data-loss"]
    created = _life(("outputs/", 1))
    del created["storage_account_id"]
    unknown = {"after_unknown": {"storage_account_id": True}}
    assert _loss(policy, None, created, "create", **unknown) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            {"disk_size_gb": 1024},
            {"disk_size_gb": 512},
            "would shrink from 1024 to 512 GiB, and Azure shrinks no disk",
        ),
        ({"disk_size_gb": 512}, {"disk_size_gb": 1024}, ""),
        (
            {"storage_account_type": "PremiumV2_LRS"},
            {"storage_account_type": "Premium_LRS"},
            "would change from PremiumV2_LRS to Premium_LRS, which Azure does for no existing disk",
        ),
        ({"storage_account_type": "StandardSSD_LRS"}, {"storage_account_type": "Premium_LRS"}, ""),
    ],
)
def test_plan_rules_report_disk_changes_that_azure_refuses(
    before: Any, after: Any, said: str
) -> None:
    found = _found("azurerm_managed_disk", before, after).get("refused-by-azure", "")
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("prefixes", "user", "refused"),
    [
        (["10.50.0.0/17"], "/s", True),
        (["10.40.0.0/16"], "/s", False),
        (["10.50.0.0/17"], "/other", False),
    ],
)
def test_a_range_in_use_stays(prefixes: list[str], user: str, refused: bool) -> None:
    subnet, nic = "azurerm_subnet", "azurerm_network_interface"
    before = {"id": "/s", "address_prefixes": ["10.40.0.0/17"]}
    after = {**before, "address_prefixes": prefixes}
    other = _resource(nic, {"ip_configuration": [{"subnet_id": user}]}, None, "no-op")
    found = _check(_resource(subnet, before, after), others=[other])
    assert [one.id for one in found] == ["refused-by-azure"] * refused


ACCOUNT = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a"


@pytest.mark.parametrize(
    ("kind", "id_", "held"),
    [
        ("azurerm_role_assignment", f"{ACCOUNT}/blobServices/default/containers/c/x/roles/r", True),
        ("azurerm_role_assignment", f"{ACCOUNT.upper()}/x/roles/r", True),
        ("azurerm_storage_container", f"{ACCOUNT}/blobServices/default/containers/c", True),
        ("azurerm_monitor_diagnostic_setting", f"{ACCOUNT}|recorded", True),
        ("azurerm_role_assignment", f"{ACCOUNT}er/x/roles/r", False),
        ("azurerm_storage_blob", "https://a.blob.core.windows.net/c/x", False),
        ("azurerm_storage_account_customer_managed_key", ACCOUNT, False),
    ],
)
@pytest.mark.parametrize("actions", ["delete", "delete create"])
def test_deletion_below_a_lock_is_refused(kind: str, id_: str, held: bool, actions: str) -> None:
    scope = {"scope": ACCOUNT, "lock_level": "CanNotDelete"}

    def found(*lock: str, before: Any = None, after: Any = None) -> list[tuple[str, str]]:
        gone = _resource(kind, {"id": id_}, None, actions)
        found = _check(gone, _resource(LOCK, before, after, " ".join(lock)))
        return [(one.id, one.path) for one in found if one.id in ("held-by-lock", "unlocked")]

    refused = [("held-by-lock", f"{kind}.x")] * held
    assert found("no-op", before=scope, after=scope) == refused
    assert [each for each in found("create", after=scope) if each[0] != "unlocked"] == refused
    assert found("delete", "create", before=scope, after=scope) == refused
    assert found("delete", before=scope) == []


@pytest.mark.parametrize("there", [True, False])
def test_new_lock_on_what_is_there_says_that_it_had_none(there: bool) -> None:
    before = {"id": ACCOUNT} if there else None
    account = _resource("azurerm_storage_account", before, {}, "no-op")
    lock = _resource(LOCK, None, {"scope": ACCOUNT.lower()}, "create")
    found = [one.id for one in _check(account, lock)]
    assert found == ["unlocked"] * there


def test_a_subnet_in_which_something_stays_cannot_go() -> None:
    subnet, nic = "azurerm_subnet", "azurerm_network_interface"
    gone = _resource(subnet, {"id": "/s"}, None, "delete")
    stands = {"ip_configuration": [{"subnet_id": "/s"}]}

    def found(actions: str, after: Any) -> list[str]:
        others = [_resource(nic, stands, after, actions)]
        return [one.message for one in _check(gone, others=others)]

    (said,) = found("no-op", after=stands)
    assert f"would be deleted while {nic}.x uses it: Azure refuses that" in said
    assert found("delete", after=None) == []
    assert found("update", after={"ip_configuration": [{"subnet_id": "/other"}]}) == []


def test_the_system_disk_of_a_machine_does_not_shrink() -> None:
    before, after = ({"os_disk": [{"disk_size_gb": gib}]} for gib in (128, 64))
    found = _found("azurerm_linux_virtual_machine", before, after)
    assert "the system disk of" in found["refused-by-azure"]
    assert "refused-by-azure" not in _found("azurerm_linux_virtual_machine", after, before)


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({"action_reason": "replace_by_request"}, "as it was requested (-replace)"),
        ({"action_reason": "replace_because_tainted"}, "as it is tainted"),
        ({"action_reason": "replace_by_triggers"}, "replace_triggered_by"),
        ({"action_reason": ["?"]}, "destroyed and recreated: what"),
        ({}, "destroyed and recreated: what"),
    ],
)
def test_plan_rules_report_why_a_resource_is_replaced(why: Any, said: str) -> None:
    (found,) = _check(_resource(SET, {"instances": 2}, {}, "create delete") | why)
    assert said in found.message
    assert "cannot be changed in place" not in found.message


def test_plan_rules_report_a_deposed_resource_as_left_over() -> None:
    old = _resource(SET, {"instances": 2}, None, "delete")
    (found,) = _check(old | {"deposed": "00000001"})
    assert "as it was left over when another replaced it" in found.message


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"size": "a"}, {"size": "b"}, "would restart, as size changes"),
        ({"encryption_at_host_enabled": False}, {"encryption_at_host_enabled": True}, "restart"),
        ({"os_disk": [{"disk_size_gb": 64}]}, {"os_disk": [{"disk_size_gb": 128}]}, "os_disk.disk"),
        ({"dedicated_host_id": ""}, {"dedicated_host_id": None}, ""),
        ({"size": "a"}, {}, ""),
        ({"tags": {}}, {"tags": {"a": "b"}}, ""),
    ],
)
def test_a_machine_that_is_stopped_for_a_change(before: Any, after: Any, said: str) -> None:
    for tags, id_ in (({}, "lost-nodes"), (SERVER, "replaced-server")):
        machine = {**before, "tags": tags}
        found = _check(_resource("azurerm_linux_virtual_machine", machine, after))
        assert [one.id for one in found] == [id_] * bool(said)
        assert all(said in one.message for one in found)


def test_a_server_is_one_at_any_address() -> None:
    kind = "azurerm_linux_virtual_machine"
    address = f'module.lab["a"].{kind}.second_nfs-home_7F1E314D[0]'
    server = _resource(kind, {"size": "a", "tags": SERVER}, None, "delete")
    (found,) = _check(server | {"address": address})
    assert found.message.startswith("the file server `home` would be destroyed")


def test_plan_rules_do_not_warn_of_network_rules_made_by_fairway() -> None:
    group = "azurerm_network_security_group"
    gateway = {**RULE, "source_address_prefix": "GatewayManager", "destination_port_range": "443"}
    people = {**gateway, "name": "people", "source_address_prefix": "Internet"}
    bastion = {"security_rule": [{**gateway, "name": "gateway"}, people]}
    assert _found(group, None, bastion, "create") == {}
    ssh = {"security_rule": [*bastion["security_rule"], {**people, "destination_port_range": "22"}]}
    assert "network-opened" in _found(group, None, ssh, "create")
    lustre = {"security_rule": [{**RULE, "source_address_prefix": "AzureMonitor"}]}
    assert _found(group, None, lustre, "create") == {}


def test_a_narrow_grant_to_an_own_identity_is_not_warned_of() -> None:
    kind = "azurerm_role_assignment"
    scope = "/subscriptions/0/resourceGroups/lab/providers/Microsoft.Storage/storageAccounts/a"
    grant = {**GRANT, "role_definition_name": "Storage Blob Data Contributor", "scope": scope}

    def found(after: Any, own: tuple[str, ...] = ("a",), **unknown: bool) -> list[str]:
        made = _resource(kind, None, after, "create", after_unknown=unknown)
        return [one.id for one in _check(made, own=own)]

    assert found(grant) == []
    assert found(grant, own=()) == ["wider-grant"]
    assert found({**grant, "scope": "/subscriptions/0"}) == ["wider-grant"]
    assert found({**grant, "role_definition_name": "Owner"}) == ["wider-grant"]
    new = {**grant, "principal_id": None, "scope": None}
    assert found(new, own=(), principal_id=True, scope=True) == []
    role = "azurerm_role_definition"
    narrow = {"permissions": [{"actions": ["Microsoft.Compute/virtualMachineScaleSets/read"]}]}
    assert _found(role, None, narrow, "create") == {}
    assert "wider-grant" in _found(role, None, {"permissions": [{"actions": ["*"]}]}, "create")


@pytest.mark.parametrize(
    ("type_", "after", "marks"),
    [
        (
            "azurerm_network_security_group",
            {"security_rule": [{"name": "a", "direction": "Inbound", "access": "Allow"}]},
            {"security_rule": True},
        ),
        (
            "azurerm_network_security_rule",
            {"name": "a", "access": "Allow", "source_address_prefix": "0.0.0.0/0"},
            {"source_address_prefix": True},
        ),
        (
            "azurerm_storage_account",
            {"public_network_access_enabled": True},
            {"public_network_access_enabled": True},
        ),
        ("azurerm_storage_account", {"public_network_access_enabled": True}, True),
        (
            "azurerm_storage_account",
            {"network_rules": [{"default_action": "Allow"}]},
            {"network_rules": True},
        ),
    ],
)
def test_plan_rules_report_network_openings_hidden_by_sensitive_marks(
    type_: str, after: dict[str, Any], marks: Any
) -> None:
    """`sensitive(…)` around a rule does not hide it from the review."""
    made = _resource(type_, None, after, "create", after_sensitive=marks)
    found = [one for one in _check(made) if one.id == "network-opened"]
    assert found
    if marks is not True and "public_network_access_enabled" not in after:
        said = "is marked as a secret, so nobody can see whom it admits"
        assert any(said in finding.message for finding in found)


def test_a_life_cycle_of_an_account_that_is_there_is_looked_at_whatever_names_it() -> None:
    def rules(days: int) -> dict[str, Any]:
        action = {"base_blob": [{"delete_after_days_since_modification_greater_than": days}]}
        return {"rule": [{"name": "a", "actions": [action]}]}

    type_ = "azurerm_storage_management_policy"
    (found,) = _check(_resource(type_, rules(3650), rules(1)))
    assert found.id == "data-loss"
    assert "after 1 days, before: after 3650 days" in found.message


def _open_to(*ranges: str) -> dict[str, Any]:
    profile = [{"authorized_ip_ranges": list(ranges)}] if ranges else []
    return {"local_account_disabled": True, "api_server_access_profile": profile}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (CLOSED, _open_to("203.0.113.0/24"), "would admit 203.0.113.0/24"),
        (None, _open_to("203.0.113.0/24", "10.0.0.0/8"), "would admit 203.0.113.0/24"),
        (_open_to("203.0.113.0/24"), _open_to("203.0.113.0/24", "8.8.8.0/24"), "admit 8.8.8.0/24"),
        (_open_to("203.0.113.0/24"), _open_to(), "would be open to every address"),
        (None, _open_to(), "would be open to every address"),
        (None, _open_to("8.8.8.8/24"), "would admit 8.8.8.8/24"),
        (None, _open_to("10.0.0.5/8"), ""),
        (None, CLOSED, ""),
        (_open_to(), _open_to("203.0.113.0/24"), ""),
        (_open_to("203.0.113.0/24"), _open_to("203.0.113.0/24"), ""),
        (_open_to("203.0.113.0/24"), CLOSED, ""),
        (CLOSED, {**CLOSED, "local_account_disabled": False}, "would have local accounts"),
    ],
)
def test_an_api_server_that_opens(before: Any, after: Any, said: str) -> None:
    actions = "update" if before else "create"
    found = _found(KUBERNETES, before, after, actions)
    assert said in found.get("api-server-opened", "")
    assert bool(said) is ("api-server-opened" in found)


def test_an_api_server_that_is_only_read_is_not_opened() -> None:
    after = {"local_account_disabled": False, "private_cluster_enabled": False}
    assert "api-server-opened" in _found("azurerm_kubernetes_cluster", {}, after, "create")
    assert not _found("azurerm_kubernetes_cluster", {}, after, "read")


@pytest.mark.parametrize(
    ("ranges", "unknown", "said"),
    [
        (["203.0.113.0/24", None], [False, True], "would admit 203.0.113.0/24"),
        ([None], [True], ""),
        (None, True, ""),
        ([], [], "would be open to every address"),
    ],
)
def test_the_address_of_a_gateway_that_is_made_with_the_api_server_is_not_known_yet(
    ranges: object, unknown: object, said: str
) -> None:
    profile = {} if ranges is None else {"authorized_ip_ranges": ranges}
    after = {"local_account_disabled": True, "api_server_access_profile": [profile]}
    masked = {"api_server_access_profile": [{"authorized_ip_ranges": unknown}]}
    found = _check(_resource(KUBERNETES, None, after, "create", after_unknown=masked))
    assert [each.message for each in found if each.id == "api-server-opened"] == (
        [f"the API server of `{KUBERNETES}.x` {said}"] if said else []
    )

"""Plans of further changes of the environment in `over_time/`, and what is said of them.

`edits/deployed.json.xz` holds every resource of `over_time/base` with all its attributes, as
azurerm 5.2.0 read them. Each edit here says what the provider plans for it; which attributes force
a replacement is told by its documentation. The comments stand beside it. After a change that is
meant, write them anew:

    FAIRWAY_GOLDEN=write bin/test tests/core/review/test_edits.py
"""

import json
import lzma
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fairway_core.review.markdown import markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import Review, review

EDITS = Path(__file__).with_name("edits")
NETWORK, DATA, COMPUTE = STACKS = ("mix-network", "mix-data", "mix-compute")
SET = "azurerm_linux_virtual_machine_scale_set"
SERVER = "azurerm_linux_virtual_machine.nfs-data-server"
SCHEDULER = "azurerm_linux_virtual_machine.slurm-scheduler"
POOL = "azurerm_batch_pool.cluster-spot"
WATCHED = "azurerm_monitor_data_collection_rule_association"
# What Azure decides, as far as the resources here have it.
_COMPUTED = (
    "id",
    "os_managed_disk_id",
    "private_ip_address",
    "private_ip_addresses",
    "unique_id",
    "virtual_machine_id",
)


@cache
def _deployed() -> str:
    return lzma.decompress((EDITS / "deployed.json.xz").read_bytes()).decode()


class Edit:
    """The plans of the three stacks while nothing is changed, and how to change them."""

    def __init__(self) -> None:
        deployed = json.loads(_deployed())
        self.plans: dict[str, dict[str, Any]] = {
            stack: {
                "format_version": "1.2",
                "terraform_version": "1.11.4",
                "planned_values": {},
                "resource_changes": [
                    _resource(address, ["no-op"], values, values)
                    for address, values in deployed[stack]["resources"].items()
                ],
                "output_changes": {
                    name: {"actions": ["no-op"], "before": value, "after": value}
                    for name, value in deployed[stack]["outputs"].items()
                },
                "complete": True,
                "errored": False,
            }
            for stack in STACKS
        }

    def found(self, address: str) -> dict[str, Any]:
        """The entry of a resource."""
        for stack in STACKS:
            for each in self.plans[stack]["resource_changes"]:
                if each["address"] == address:
                    return dict(each)
        raise KeyError(address)

    def _put(self, address: str, **change: Any) -> None:
        for stack in STACKS:
            for each in self.plans[stack]["resource_changes"]:
                if each["address"] == address:
                    each["change"].update(change)

    def update(self, address: str, **values: Any) -> None:
        """In place."""
        before = self.found(address)["change"]["before"]
        self._put(address, actions=["update"], after={**before, **values})

    def replace(self, address: str, *because: str, **values: Any) -> None:
        """Destroyed, and made anew."""
        before = self.found(address)["change"]["before"]
        unknown = {key: True for key in _COMPUTED if key in before}
        unknown.update({key: True for key in because if key not in values})
        after = {key: value for key, value in before.items() if key not in unknown}
        self._put(
            address,
            actions=["delete", "create"],
            after={**after, **values},
            after_unknown=unknown,
            replace_paths=[[key] for key in because],
        )

    def delete(self, *addresses: str) -> None:
        """Destroyed: no configuration asks for it any more."""
        for address in addresses:
            self.found(address)
            self._put(address, actions=["delete"], after=None)

    def create(self, stack: str, address: str, like: str, **values: Any) -> None:
        """A new one, with the attributes of another."""
        before = self.found(like)["change"]["before"]
        unknown = {key: True for key in _COMPUTED if key in before}
        after = {key: value for key, value in before.items() if key not in unknown}
        made = _resource(address, ["create"], None, {**after, **values})
        made["change"]["after_unknown"] = unknown
        self.plans[stack]["resource_changes"].append(made)

    def targets(self, name: str, **values: Any) -> None:
        """Changes the published values of a cluster."""
        output = self.plans[COMPUTE]["output_changes"]["targets"]
        after = [
            {**target, **values} if target["name"] == name else target
            for target in output["before"]
        ]
        output.update(actions=["update"], after=after)

    def gone(self, *outputs: str) -> None:
        """Outputs that nobody reads any more."""
        for stack in STACKS:
            for name, output in self.plans[stack]["output_changes"].items():
                if any(part in name for part in outputs):
                    output.update(actions=["delete"], after=None)

    def refused(self, stack: str) -> None:
        """`prevent_destroy` refuses what is protected."""
        self.plans[stack].update(errored=True, complete=False)


def _resource(address: str, actions: list[str], before: Any, after: Any) -> dict[str, Any]:
    return {
        "address": address,
        "mode": "managed",
        "type": address.partition(".")[0],
        "name": address.partition(".")[2],
        "provider_name": "hashicorp/azurerm",
        "change": {"actions": actions, "before": before, "after": after, "after_unknown": {}},
    }


def disk_kind(edit: Edit) -> None:
    """Disks premium_v2 → premium."""
    for number in (0, 1):
        address = f"azurerm_managed_disk.nfs-data-disk-{number}"
        edit.update(address, storage_account_type="Premium_LRS")


def size(edit: Edit) -> None:
    """Pair: H100 → H200."""
    edit.update(f"{SET}.cluster-pair", sku="Standard_ND96isr_H200_v5")
    edit.targets("pair", vm_size="Standard_ND96isr_H200_v5")


def remove_cluster(edit: Edit) -> None:
    """The cluster `extra` is removed."""
    edit.delete(f"{SET}.cluster-extra", f"{WATCHED}.extra-is-watched")


def rename_cluster(edit: Edit) -> None:
    """Pair → duo."""
    edit.delete(f"{SET}.cluster-pair", f"{WATCHED}.pair-is-watched")
    edit.create(COMPUTE, f"{SET}.cluster-duo", f"{SET}.cluster-pair", name="mix-vmss-duo")
    edit.create(COMPUTE, f"{WATCHED}.duo-is-watched", f"{WATCHED}.pair-is-watched", name="duo")


def remove_batch(edit: Edit) -> None:
    """The only Batch cluster is removed, and with it the account."""
    edit.delete(POOL, "terraform_data.fixed-spot", "azurerm_batch_account.batch")
    edit.delete(*(f"azurerm_private_endpoint.{name}-endpoint" for name in ("batch", "batch-nodes")))
    edit.delete("azurerm_monitor_diagnostic_setting.batch-is-recorded")
    for what in ("idle-nodes", "preempted-nodes", "start-task-failed", "unusable-nodes"):
        edit.delete(f"azurerm_monitor_metric_alert.batch-{what}-alert")
    zone = "privatelink-batch-azure-com"
    edit.delete(f"azurerm_private_dns_zone.{zone}")
    edit.delete(f"azurerm_private_dns_zone_virtual_network_link.{zone}-link")
    edit.gone("batch")


def _server_made_anew(edit: Edit, *because: str, **values: Any) -> None:
    edit.replace(SERVER, *because, **values)
    edit.replace(f"{WATCHED}.data-is-watched", "target_resource_id")
    edit.replace("azurerm_virtual_machine_extension.data-agent", "virtual_machine_id")
    for number in (0, 1):
        attachment = f"azurerm_virtual_machine_data_disk_attachment.nfs-data-attachment-{number}"
        edit.replace(attachment, "virtual_machine_id")


def _scheduler_made_anew(edit: Edit, *because: str, **values: Any) -> None:
    edit.replace(SCHEDULER, *because, **values)
    edit.replace(f"{WATCHED}.slurm-scheduler-is-watched", "target_resource_id")
    edit.replace("azurerm_virtual_machine_extension.slurm-scheduler-agent", "virtual_machine_id")
    attachment = "azurerm_virtual_machine_data_disk_attachment.slurm-attachment"
    edit.replace(attachment, "virtual_machine_id")


def rename_fs(edit: Edit) -> None:
    """The file system data → store, on new disks and a new server."""
    for each in list(edit.plans[DATA]["resource_changes"]):
        kind, _, name = each["address"].partition(".")
        if name.startswith(("nfs-data-", "data-")):
            edit.delete(each["address"])
            new = name.replace("data-", "store-", 1)
            named = (
                str(each["change"]["before"]["name"]) if "name" in each["change"]["before"] else ""
            )
            values = {"name": named.replace("data", "store")} if named else {}
            edit.create(DATA, f"{kind}.{new}", each["address"], **values)
    edit.gone("nfs-data-nic")
    edit.refused(DATA)


def zone(edit: Edit) -> None:
    """The zone 1 → 2."""
    edit.replace("azurerm_nat_gateway.nat", "zones", zones=["2"])
    edit.replace("azurerm_public_ip.nat-address", "zones", zones=["2"])
    for name in ("nfs-data-disk-0", "nfs-data-disk-1", "slurm-disk"):
        edit.replace(f"azurerm_managed_disk.{name}", "zone", zone="2")
    _server_made_anew(edit, "zone", zone="2")
    _scheduler_made_anew(edit, "zone", zone="2")
    for name in ("pair", "extra", "nd"):
        edit.replace(f"{SET}.cluster-{name}", "zones", zones=["2"])
    edit.refused(DATA)


def location(edit: Edit) -> None:
    """The region southcentralus → westeurope: everything that has one."""
    for stack in STACKS:
        for each in edit.plans[stack]["resource_changes"]:
            if each["change"]["before"].get("location") == "southcentralus":
                edit.replace(each["address"], "location", location="westeurope")
    edit.refused(DATA)


def unprotect(edit: Edit) -> None:
    """protect true → false"""
    for each in edit.plans[DATA]["resource_changes"]:
        if each["type"] == "azurerm_management_lock":
            edit.delete(each["address"])


def harmless(edit: Edit) -> None:
    """Larger disks, ZRS → GZRS, and a pool Spot → dedicated, of 16 nodes at most, not 8."""
    for number in (0, 1):
        edit.update(f"azurerm_managed_disk.nfs-data-disk-{number}", disk_size_gb=2048)
    edit.update("azurerm_storage_account.storage", account_replication_type="GZRS")
    scale = dict(edit.found(POOL)["change"]["before"]["auto_scale"][0])
    for old, new in (
        ("maxNodes = 8;", "maxNodes = 16;"),
        ("before = $TargetLowPriorityNodes;", "before = $TargetDedicatedNodes;"),
        (
            "$TargetDedicatedNodes = 0;\n$TargetLowPriorityNodes = total;",
            "$TargetLowPriorityNodes = 0;\n$TargetDedicatedNodes = total;",
        ),
    ):
        assert old in scale["formula"]
        scale["formula"] = scale["formula"].replace(old, new)
    edit.update(POOL, auto_scale=[scale])
    edit.targets("spot", nodes={"min": 0, "max": 16}, spot=False)


def batch_size(edit: Edit) -> None:
    """The pool's size: it is made anew."""
    edit.replace(POOL, "vm_size", vm_size="STANDARD_ND96AMSR_A100_V4")
    edit.targets("spot", vm_size="Standard_ND96amsr_A100_v4")


def slurm_grow(edit: Edit) -> None:
    """A partition {0,8} → {2,16}."""
    _scheduler_made_anew(edit, "custom_data", custom_data="I2Nsb3VkLWNvbmZpZwojIG5ldw==")
    edit.targets("nd", nodes={"min": 2, "max": 16})


def less_replication(edit: Edit) -> None:
    """ZRS → LRS"""
    edit.update("azurerm_storage_account.storage", account_replication_type="LRS")


def server_size(edit: Edit) -> None:
    """The file server D32 → D64: what it is started with depends on its size."""
    new = {"size": "Standard_D64s_v6", "custom_data": "I2Nsb3VkLWNvbmZpZwojIG5ldw=="}
    _server_made_anew(edit, "custom_data", **new)


def open_(edit: Edit) -> None:
    """access.allowed gets an address."""
    for name in ("compute", "management", "storage"):
        address = f"azurerm_network_security_group.{name}-rules"
        rules = edit.found(address)["change"]["before"]["security_rule"]
        allowed = {
            **rules[0],
            "name": "AllowSshFromAllowed",
            "priority": 200,
            "source_address_prefix": "",
            "source_address_prefixes": ["52.1.2.0/24"],
            "destination_port_range": "22",
            "destination_port_ranges": [],
        }
        edit.update(address, security_rule=[*rules, allowed])


def made(change: Callable[[Edit], None]) -> dict[str, dict[str, Any]]:
    """The plans of the three stacks after an edit."""
    edit = Edit()
    change(edit)
    return edit.plans


Change = Callable[[Edit], None]

MOVED = {"replaced-server": 2, "lost-nodes": 2, "failed-plan": 1, "new-address": 1}

# What an engineer would say of each, as ids of findings and their number, and the exit code.
SAID: dict[Change, tuple[dict[str, int], int]] = {
    harmless: ({}, 0),
    disk_kind: ({"refused-by-azure": 2}, 2),
    size: ({"mixed-nodes": 1}, 0),
    remove_cluster: ({"lost-nodes": 1}, 0),
    rename_cluster: ({"lost-nodes": 1}, 0),
    remove_batch: ({"data-loss": 1, "lost-nodes": 1}, 3),
    rename_fs: ({"data-loss": 2, "replaced-server": 1, "failed-plan": 1}, 3),
    zone: ({"data-loss": 3, **MOVED}, 3),
    location: ({"data-loss": 10, **MOVED}, 3),
    unprotect: ({"data-loss": 5}, 3),
    batch_size: ({"lost-nodes": 1}, 0),
    slurm_grow: ({"replaced-server": 1}, 0),
    less_replication: ({"data-loss": 1}, 3),
    server_size: ({"replaced-server": 1}, 0),
    open_: ({"network-opened": 3}, 0),
}


def _reviewed(change: Change, folder: Path) -> Review:
    plans = []
    for stack, plan in made(change).items():
        file = folder / f"{stack}.json"
        file.write_text(json.dumps(plan))
        plans.append(read_plan(str(file)))
    return review(plans)


@pytest.mark.parametrize("change", SAID, ids=lambda change: change.__name__)
def test_review_of_each_edit_matches_findings_and_golden_comment(
    change: Change, tmp_path: Path
) -> None:
    found = _reviewed(change, tmp_path)
    ids = [finding.id for stack in found.stacks for finding in stack.findings]
    code = 3 if found.lost else 2 if found.refused else 0
    assert ({id_: ids.count(id_) for id_ in ids}, code) == SAID[change]
    name = change.__name__.strip("_").replace("_", "-")
    comment, golden = markdown(found), EDITS / f"{name}.md"
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.write_text(comment, encoding="utf-8")
    assert comment == golden.read_text(encoding="utf-8")


EMPTY = "the new one begins empty, as data disks go with it"


def test_an_edit_of_nothing_changes_nothing(tmp_path: Path) -> None:
    found = _reviewed(lambda _: None, tmp_path)
    assert not any(found.totals().values())
    assert not any(stack.findings for stack in found.stacks)

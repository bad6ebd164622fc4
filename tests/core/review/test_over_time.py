"""Changes of a deployed environment and their reviews.

Each file in `over_time/` holds the plans of one edit of the same environment by azurerm 5.2.0,
reduced to the parts that a review reads: `base` is the unchanged environment. `edits/` has all of
its resources with the attributes that azurerm read; an edit here reproduces the provider's plan for
it, whose documentation lists which attributes force a replacement. The comments are stored beside
them. After an intended change, rewrite them:

    FAIRWAY_GOLDEN=write bin/test tests/core/review/test_over_time.py
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
from fairway_core.review.plan import Plan, read_plan
from fairway_core.review.review import Review, review


def _check(found: Review, said: dict[str, int], golden: Path) -> None:
    """Asserts that a review has these findings, and that its comment is the stored one."""
    ids = [finding.id for stack in found.stacks for finding in stack.findings]
    assert {id_: ids.count(id_) for id_ in ids} == said
    comment = markdown(found)
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.write_text(comment, encoding="utf-8")
    assert comment == golden.read_text(encoding="utf-8")


CHANGES = Path(__file__).with_name("over_time")


def _plans(name: str, folder: Path) -> list[Plan]:
    found: dict[str, Any] = json.loads(lzma.decompress((CHANGES / f"{name}.json.xz").read_bytes()))
    plans = []
    for role in ("network", "data", "compute"):
        for stack, content in found.items():
            if stack.endswith(role):
                file = folder / f"{stack}.json"
                lines = content if isinstance(content, list) else [content]
                file.write_text("\n".join(map(json.dumps, lines)))
                plans.append(read_plan(str(file)))
    return plans


def _reviewed(name: str, folder: Path) -> Review:
    base = []
    if name == "rename":
        (folder / "base").mkdir()
        base = _plans("base", folder / "base")
    return review(_plans(name, folder), base=base)


# Findings that an engineer would expect for each change: ids and their count.
SAID: dict[str, dict[str, int]] = {
    "add-fs": {},
    "add-fs-mounted": {},
    "address": {"refused-by-azure": 4, "mixed-nodes": 3, "lost-nodes": 1, "replaced-server": 2},
    "base": {},
    "container-rename": {"data-loss": 1, "held-by-lock": 3},
    "disk-count-down": {"data-loss": 1, "replaced-server": 1},
    "disk-count-up": {"replaced-server": 1},
    "disk-shrink": {"refused-by-azure": 2},
    "grow": {},
    "image": {"mixed-nodes": 1},
    "one-node": {"lost-nodes": 1},
    "path": {"mixed-nodes": 3, "replaced-server": 1, "failed-plan": 1},
    "remove-fs": {"data-loss": 2, "replaced-server": 1},
    "remove-slurm": {"data-loss": 2, "held-by-lock": 3, "replaced-server": 1, "lost-nodes": 1},
    "rename": {},
    "spot-on": {"lost-nodes": 1},
    "ssh-key": {"mixed-nodes": 2, "lost-nodes": 1, "replaced-server": 2, "failed-plan": 1},
}


@pytest.mark.parametrize("name", sorted(SAID))
def test_review_of_each_change_over_time_matches_findings_and_golden_comment(
    name: str, tmp_path: Path
) -> None:
    _check(_reviewed(name, tmp_path), SAID[name], CHANGES / f"{name}.md")


EDITS = Path(__file__).with_name("edits")
STACKS = ("mix-network", "mix-data", "mix-compute")
DATA, COMPUTE = STACKS[1:]
SET = "azurerm_linux_virtual_machine_scale_set"
SERVER = "azurerm_linux_virtual_machine.nfs-data-server"
SCHEDULER = "azurerm_linux_virtual_machine.slurm-scheduler"
POOL = "azurerm_batch_pool.cluster-spot"
WATCHED = "azurerm_monitor_data_collection_rule_association"
# Attributes of these resources that Azure computes.
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
    """The plans of the three stacks without changes, and methods to change them."""

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
        """Returns the entry of a resource."""
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
        """Updates a resource in place."""
        before = self.found(address)["change"]["before"]
        self._put(address, actions=["update"], after={**before, **values})

    def replace(self, address: str, *because: str, **values: Any) -> None:
        """Destroys and recreates a resource."""
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
        """Destroys resources that the configuration no longer contains."""
        for address in addresses:
            self.found(address)
            self._put(address, actions=["delete"], after=None)

    def create(self, stack: str, address: str, like: str, **values: Any) -> None:
        """Creates a resource with the attributes of another."""
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
        """Deletes outputs that nothing reads any more."""
        for stack in STACKS:
            for name, output in self.plans[stack]["output_changes"].items():
                if any(part in name for part in outputs):
                    output.update(actions=["delete"], after=None)

    def refused(self, stack: str) -> None:
        """Marks the plan as failed, as `prevent_destroy` of protected resources does."""
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


def remove_batch(edit: Edit) -> None:
    """Removes the only Batch cluster and with it the account."""
    edit.delete(POOL, "terraform_data.fixed-spot", "azurerm_batch_account.batch")
    edit.delete(*(f"azurerm_private_endpoint.{name}-endpoint" for name in ("batch", "batch-nodes")))
    edit.delete("azurerm_monitor_diagnostic_setting.batch-is-recorded")
    for what in ("idle-nodes", "preempted-nodes", "start-task-failed", "unusable-nodes"):
        edit.delete(f"azurerm_monitor_metric_alert.batch-{what}-alert")
    zone = "privatelink-batch-azure-com"
    edit.delete(f"azurerm_private_dns_zone.{zone}")
    edit.delete(f"azurerm_private_dns_zone_virtual_network_link.{zone}-link")
    edit.gone("batch")


def rename_fs(edit: Edit) -> None:
    """Renames the file system data → store, on new disks and a new server."""
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
    """Changes the zone 1 → 2."""
    edit.replace("azurerm_nat_gateway.nat", "zones", zones=["2"])
    edit.replace("azurerm_public_ip.nat-address", "zones", zones=["2"])
    for name in ("nfs-data-disk-0", "nfs-data-disk-1", "slurm-disk"):
        edit.replace(f"azurerm_managed_disk.{name}", "zone", zone="2")
    for server, name, disks in (
        (SERVER, "data", ("nfs-data-attachment-0", "nfs-data-attachment-1")),
        (SCHEDULER, "slurm-scheduler", ("slurm-attachment",)),
    ):
        edit.replace(server, "zone", zone="2")
        edit.replace(f"{WATCHED}.{name}-is-watched", "target_resource_id")
        edit.replace(f"azurerm_virtual_machine_extension.{name}-agent", "virtual_machine_id")
        for disk in disks:
            attachment = f"azurerm_virtual_machine_data_disk_attachment.{disk}"
            edit.replace(attachment, "virtual_machine_id")
    for name in ("pair", "extra", "nd"):
        edit.replace(f"{SET}.cluster-{name}", "zones", zones=["2"])
    edit.refused(DATA)


def harmless(edit: Edit) -> None:
    """Makes disks larger, ZRS → GZRS, and a pool Spot → dedicated with a maximum of 8 → 16
    nodes."""
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


# Findings that an engineer would expect for each edit: ids and their count.
OF_EDITS: dict[Callable[[Edit], None], dict[str, int]] = {
    harmless: {},
    remove_batch: {"data-loss": 1, "lost-nodes": 1},
    rename_fs: {"data-loss": 2, "replaced-server": 1, "failed-plan": 1},
    zone: {
        "data-loss": 3,
        "replaced-server": 2,
        "lost-nodes": 2,
        "failed-plan": 1,
        "new-address": 1,
    },
}


@pytest.mark.parametrize("change", OF_EDITS, ids=lambda change: change.__name__)
def test_review_of_each_edit_matches_findings_and_golden_comment(
    change: Callable[[Edit], None], tmp_path: Path
) -> None:
    change(edit := Edit())
    plans = []
    for stack, plan in edit.plans.items():
        (file := tmp_path / f"{stack}.json").write_text(json.dumps(plan))
        plans.append(read_plan(str(file)))
    _check(review(plans), OF_EDITS[change], EDITS / f"{change.__name__.replace('_', '-')}.md")

"""VMs that are stopped and whose extensions a plan changes, which Azure refuses.

Source: Azure documentation, "Virtual machine extensions and features for Linux": the VM must run.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, UserError
from fairway_runner.live.cloud import chosen_cloud, credential_for
from fairway_runner.live.management import Management, NotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_runner.live.management import Reader

_COMPUTE = "2024-07-01"
_EXTENSION = "azurerm_virtual_machine_extension"
_VM = "azurerm_linux_virtual_machine"
_CLUSTER = re.compile(rf"{_VM}\.cluster-([a-z0-9-]+)")
_RUNS = ("PowerState/running", "PowerState/starting")


@dataclass(frozen=True)
class StoppedMachine:
    """A VM by its resource id; `target` is the cluster that it is, "" for any other."""

    id: str
    target: str

    @property
    def name(self) -> str:
        """As its user knows it."""
        return self.target or self.id.rpartition("/")[2]

    @property
    def finding(self) -> Finding:
        """What is wrong, and what starts it."""
        message = (
            f"`{self.name}` is stopped, and Azure cannot change the extensions of a stopped VM"
        )
        start = f"fairway nodes start {self.target}"
        return Finding(
            "stopped-machine", message, start if self.target else f"az vm start --ids {self.id}"
        )


def stopped_machines(plan: Mapping[str, Any]) -> list[StoppedMachine]:
    """Those that a plan, as `terraform show -json` prints it, cannot change as they are.

    Empty where Azure cannot be asked: Terraform says then what is wrong.
    """
    machines = dict(_with_changed_extensions(plan))
    found = []
    for id_, target in machines.items():
        with suppress(UserError, NotAllowed):
            cloud = chosen_cloud()
            azure = Management(cloud, credential_for(cloud), id_.split("/")[2])
            try:
                if is_stopped(azure, id_):
                    found.append(StoppedMachine(id_, target))
            finally:
                azure.close()
    return found


def is_stopped(azure: Reader, machine: str) -> bool:
    """Whether a VM is there and does not run; NotAllowed where the caller may not see it."""
    view = azure.get(f"{machine}/instanceView", _COMPUTE) or {}
    states = [str(each.get("code", "")) for each in view.get("statuses") or ()]
    power = [state for state in states if state.startswith("PowerState/")]
    return bool(power) and not any(state in _RUNS for state in power)


def _with_changed_extensions(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The VMs that stay as they are, by id, whose extensions change; each with its cluster."""
    changes = [each for each in plan.get("resource_changes") or () if isinstance(each, dict)]
    # One that is made anew runs when its extensions are made, and goes with them.
    known = {
        str(each["change"]["before"].get("id", "")).lower(): str(each.get("address", ""))
        for each in changes
        if each.get("type") == _VM
        and not {"create", "delete"} & set(each["change"]["actions"])
        and each["change"].get("before")
    }
    for each in changes:
        change = each.get("change") or {}
        if each.get("type") != _EXTENSION or set(change.get("actions") or ()) <= {"no-op", "read"}:
            continue
        for side in ("after", "before"):
            machine = str((change.get(side) or {}).get("virtual_machine_id") or "")
            address = known.get(machine.lower())
            if address is not None and machine.startswith("/subscriptions/"):
                match = _CLUSTER.fullmatch(address)
                yield machine, match[1] if match else ""
                break

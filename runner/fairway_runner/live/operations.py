"""Actions on deployed machines: starting and stopping them, and reporting a bad host to Azure."""

from __future__ import annotations

import re
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairway_core.catalog.faults import impact_category, terminal_states
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import capabilities, runs_here
from fairway_runner.engines.engine import engine_for
from fairway_runner.live.management import AzureRefused, Management, NotAllowed, signed_in_to

if TYPE_CHECKING:
    from fairway_core.machine import Machine
    from fairway_core.target import Target

_COMPUTE = "2024-07-01"
_ID = re.compile(r"/subscriptions/([^/]+)/(resourceGroups/[^/]+/providers/.+)", re.IGNORECASE)
_LOST = 3


def stop(target: Target, *, force: bool = False) -> None:
    """Deallocates the VM or the scale set of a target, and waits for the end. Raises UserError if
    runs are on it, or that is unknown, unless with `force`."""
    machines = _machines(target)
    if not force:
        hint = f"stop it anyway: fairway nodes stop {target.name} --force"
        try:
            runs = sorted({node.run for node in engine_for(target, 30.0).nodes() if node.run})
        except UserError as error:
            message = f"it is not known what runs on `{target.name}`: {error.findings[0].message}"
            raise UserError.of("unknown-runs", message, hint, exit_code=5) from None
        if runs:
            message = f"what runs on `{target.name}` would be lost: {', '.join(runs)}"
            hint = f"end it first: fairway cancel {runs[0]}\n{hint}"
            raise UserError.of("runs-there", message, hint, exit_code=_LOST)
    act(target.name, machines, "deallocate")


def start(target: Target) -> None:
    """Starts them, and waits for the end."""
    act(target.name, _machines(target), "start")


def _machines(target: Target) -> str:
    if target.machines:
        return target.machines
    message = f"`{target.name}` cannot be stopped and started"
    if runs_here(target.engine):
        hint = "it is this machine"
    elif capabilities(target.engine).resizes:
        hint = f"scale it to zero instead: fairway pool resize {target.name} 0"
    elif capabilities(target.engine).node_actions:
        hint = "its scheduler starts nodes for jobs, and deletes those that are idle"
    else:
        hint = (
            "either its system disks are on the nodes (`os_disk: managed` changes that),\n"
            "or its targets are out of date: fairway targets sync"
        )
    raise UserError.of("not-supported", message, hint)


def act(name: str, machines: str, action: str) -> None:
    """Carries out an action on a VM or a scale set, by its id, and waits for the end."""
    match = _ID.fullmatch(machines)
    if match is None:
        message = f"`machines` of `{name}` is not the id of a VM or a scale set: {machines}"
        raise UserError.of("bad-target", message, "read it again with: fairway targets sync")
    try:
        with signed_in_to(match[1]) as azure:
            found = azure.do(f"{match[2]}/{action}", _COMPUTE)
    except NotAllowed as error:
        message = f"you may not {action} `{name}`: Azure refuses {error.action}"
        hint = "you need the role Virtual Machine Contributor on it"
        raise UserError.of("not-allowed", message, hint) from None
    except AzureRefused as error:
        message = f"Azure does not {action} `{name}`: {error}"
        hint = f"look at its machines: fairway nodes list {name}"
        raise UserError.of("service-failed", message, hint, exit_code=5) from None
    if not found:
        message = f"the machines of `{name}` no longer exist"
        raise UserError.of("no-machines", message, "read the targets again: fairway targets sync")


_REPORTS = "2023-02-01-preview"
_INSIGHTS = "2025-01-01-preview"
_PAUSE = 15.0  # seconds between two polls for the answer
_UNREGISTERED = ("MissingSubscriptionRegistration", "SubscriptionNotRegistered")


@dataclass(frozen=True)
class HealthReport:
    """Report of a problem with a machine's host; `category` is a short name of the catalogue."""

    machine: Machine
    category: str
    description: str

    def body(self) -> dict[str, Any]:
        """Returns the request body for Azure. Raises UserError for an unknown category."""
        facts = {"PhysicalHostName": self.machine.host, "VmUniqueId": self.machine.vm}
        return {
            "properties": {
                "startDateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "impactCategory": impact_category(self.category),
                "impactDescription": self.description,
                "impactedResourceId": self.machine.resource,
                "additionalProperties": {key: value for key, value in facts.items() if value},
            }
        }


def report_of(
    target: Target, node: str, category: str, description: str | None = None
) -> HealthReport:
    """Returns the report about that node; without a description, it says why the node is out of
    use. Raises UserError if there is nothing to report."""
    impact_category(category)
    engine = engine_for(target)
    if not capabilities(target.engine).machines:
        hint = f"its nodes: fairway nodes list {target.name}"
        raise engine.unsupported("find out which VM a node is", hint)
    nodes = {each.name: each for each in engine.nodes()}
    if node not in nodes:
        hint = did_you_mean(node, nodes) or f"fairway nodes list {target.name}"
        raise UserError.of("unknown-node", f"`{target.name}` has no node `{node}`", hint)
    if (machine := nodes[node].machine) is None:
        message = (
            f"the VM of {node} is not known: it has none now, or nothing there has noted it yet"
        )
        raise UserError.of("unknown-vm", message, f"fairway nodes list {target.name}")
    said = description or nodes[node].reason
    if not said:
        message = f"{node} is not drained, and no description of its fault is given"
        hint = 'describe it, for example: --description "GPU 3 is lost"'
        raise UserError.of("no-description", message, hint)
    return HealthReport(machine, category, said)


def file_report(azure: Management, report: HealthReport) -> str:
    """Files the report and returns its id. Raises UserError with what the subscription lacks."""
    name = str(uuid.uuid4())
    try:
        azure.put(_path(name), _REPORTS, report.body())
    except NotAllowed:
        message = "you may not file a Guest Health Report in this subscription"
        hint = "ask for the role Azure Impact Reporter on it"
        raise UserError.of("not-allowed", message, hint) from None
    except AzureRefused as refused:
        message = (
            f"Azure accepts no Guest Health Report from subscription {azure.subscription}: "
            f"{refused}"
        )
        hint = (
            "subscription and tenant must be onboarded to Guest Health Reporting (preview): "
            "ask your contact at Microsoft"
        )
        if refused.code in _UNREGISTERED:
            hint = "az provider register --namespace Microsoft.Impact --wait"
        raise UserError.of("not-onboarded", message, hint) from None
    return name


def follow_report(azure: Management, name: str, seconds: float) -> str | None:
    """Returns Azure's final answer, or the latest one after these seconds; None for none."""
    deadline = time.monotonic() + seconds
    while True:
        insights = azure.list(f"{_path(name)}/insights", _INSIGHTS)
        found = [(each.get("properties") or {}).get("additionalDetails") or {} for each in insights]
        said = [str(each["statusCode"]) for each in found if each.get("statusCode")]
        if last := next((each for each in said if each in terminal_states()), None):
            return last
        left = deadline - time.monotonic()
        if left <= 0:
            return said[-1] if said else None
        time.sleep(min(_PAUSE, left))


def _path(name: str) -> str:
    return f"providers/Microsoft.Impact/workloadImpacts/{name}"

"""Health of a node, as a condition that says what is broken; a broken node takes no more pods.

Runs on every node with GPUs or InfiniBand, and starts the program that Slurm uses as its health
check. The condition is named after the problem and is True if there is one, as those of the Node
Problem Detector are: https://github.com/kubernetes/node-problem-detector (Problem API).
"""

from __future__ import annotations

import calendar
import logging
import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_agent.kubernetes.api import (
    BOOT,
    CONDITION,
    CORDONED,
    HELD,
    KEPT,
    MACHINE,
    TAKEN,
    Api,
    RequestRefused,
)
from fairway_boot.files import AgentError
from fairway_boot.http import Failure
from fairway_boot.imds import Metadata, physical_host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_log = logging.getLogger(__name__)
_TRUE, _FALSE, _UNKNOWN = "True", "False", "Unknown"
_REASONS = {_TRUE: "FaultFound", _FALSE: "NoFaultFound", _UNKNOWN: "NotChecked"}
_LONGEST = 300.0  # seconds for the check, which gives each of its commands 20
# Seconds for a new node to load its drivers, or to turn out to have none: it costs money.
_BUILDS = 3600.0
# Seconds between two polls of a node without drivers: pods start as soon as it has them.
_SOON = 20.0
_TRIES = 5  # for a change that conflicts with someone else's
_KEY_VALUES = Path("/var/lib/hyperv/.kvp_pool_3")


@dataclass(frozen=True)
class Verdict:
    """A status of the condition, and its message."""

    status: str
    message: str
    is_building: bool = False
    """True while the drivers do not show all of the node's devices."""


@dataclass(frozen=True)
class NodeHealth:
    """The node `name`, and the `check` that prints its faults; this means nothing until the drivers
    `offer` these resources. A fault counts if it is still there after a `pause`."""

    api: Api
    name: str
    check: Sequence[str]
    offers: Sequence[str]
    pause: float = 0.0
    clock: Callable[[], float] = time.time

    def look(self, machine: str = "") -> Verdict:
        """Checks the node once, writes the result to it, and returns it. Raises AgentError if that
        fails."""
        node = self._node()
        has = node["status"].get("capacity") or {}
        if lacks := [name for name in self.offers if has.get(name, "0") == "0"]:
            said = f"the node does not offer {' and '.join(lacks)} yet"
            found = Verdict(_UNKNOWN, said, is_building=True)
        else:
            found = run(self.check)
            if found.status == _TRUE and _old(node).get("status") != _TRUE:
                time.sleep(self.pause)
                found = run(self.check)
        for left in reversed(range(_TRIES)):
            node = self._node()
            text = node["metadata"]["creationTimestamp"]
            made = calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
            change = change_of(node, found, machine, is_new=self.clock() < made + _BUILDS)
            try:
                if change:
                    # Only this version of the node: a person may cordon it meanwhile.
                    change["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
                    self._send("", change)
                break
            except RequestRefused as refused:
                if refused.status != TAKEN or not left:
                    raise
        if found.status != _UNKNOWN or _old(node).get("status") != _TRUE:
            status = {"conditions": [condition_of(node, found, self.clock())]}
            self._send("/status", {"status": status})
        return found

    def _node(self) -> dict[str, Any]:
        found = self.api.get("nodes", self.name)
        if found is None:
            raise AgentError("unknown-node", f"there is no node {self.name}", "kubectl get nodes")
        return found

    def _send(self, part: str, change: Mapping[str, Any]) -> None:
        self.api.call("PATCH", f"/api/v1/nodes/{quote(self.name)}{part}", change)


def run(check: Sequence[str]) -> Verdict:
    """Runs the check and returns its verdict: unknown if the check crashes, a fault if it does not
    end."""
    try:
        done = subprocess.run(
            check, capture_output=True, text=True, check=False, timeout=_LONGEST, errors="replace"
        )
    except subprocess.TimeoutExpired:
        # Each of its commands has a timeout: one that exceeds it hangs in the kernel.
        return Verdict(_TRUE, f"the health check does not end in {_LONGEST:.0f} seconds")
    except OSError as error:
        return Verdict(_UNKNOWN, f"the health check did not run: {error}")
    said = " ".join(done.stdout.split()).removeprefix("hardware:").strip("; ")
    if done.returncode == 1 and said:
        return Verdict(_TRUE, said)
    if done.returncode:
        why = " ".join(done.stderr.split())[:200]
        return Verdict(_UNKNOWN, f"the health check ended with {done.returncode}: {why}")
    return Verdict(_FALSE, "GPUs and InfiniBand adapters are as the VM size has them")


def change_of(
    node: Mapping[str, Any], found: Verdict, machine: str, *, is_new: bool
) -> dict[str, Any]:
    """Returns the change that cordons a broken node, or uncordons a healthy one that this program
    had cordoned, and records its VM. Empty if nothing is to change. Stops the autoscaler from
    removing a new node before it has its drivers: no pod that needs them can use it before.

    If somebody uncordons a broken node, that decision stands until the node has been healthy. AKS
    uncordons each node that it has updated, too; as the node has booted since, it counts as
    another.
    """
    notes: dict[str, str] = node["metadata"].get("annotations") or {}
    is_closed, is_ours = bool(node["spec"].get("unschedulable")), CORDONED in notes
    boot = (node["status"].get("nodeInfo") or {}).get("bootID", "")
    is_let_back = is_ours and notes.get(BOOT, "") == boot
    new: dict[str, str | None] = {}
    change: dict[str, Any] = {}
    if found.status == _TRUE and not is_closed and not is_let_back:
        new[CORDONED] = found.message
        if boot:
            new[BOOT] = boot
        change["spec"] = {"unschedulable": True}
    elif found.status == _FALSE and is_ours:
        new |= {CORDONED: None, BOOT: None}
        if is_closed:
            change["spec"] = {"unschedulable": False}
    if machine and notes.get(MACHINE) != machine:
        new[MACHINE] = machine
    is_kept = found.is_building and is_new
    if is_kept and KEPT not in notes:  # otherwise another program keeps it
        new |= {HELD: "true", KEPT: "true"}
    elif not is_kept and HELD in notes:
        new |= {HELD: None, KEPT: None}
    return {**change, "metadata": {"annotations": new}} if new else {}


def condition_of(node: Mapping[str, Any], found: Verdict, now: float) -> dict[str, str]:
    """Returns the condition, which keeps its time as long as its status stays."""
    old, stamp = _old(node), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    is_same = old.get("status") == found.status
    return {
        "type": CONDITION,
        "status": found.status,
        "reason": _REASONS[found.status],
        "message": found.message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": old.get("lastTransitionTime", stamp) if is_same else stamp,
    }


def _old(node: Mapping[str, Any]) -> Mapping[str, str]:
    listed = node["status"].get("conditions") or ()
    return next((each for each in listed if each["type"] == CONDITION), {})


def machine_of(metadata: Metadata, key_values: Path = _KEY_VALUES) -> str:
    """Returns this node's VM and its host; "" if Azure's metadata service does not say."""
    try:
        found = metadata.machine()
    except Failure as failure:
        _log.warning("it is not known which VM this is: %s", failure)
        return ""
    return f"host={physical_host(key_values)},vm={found.vm},resource={found.id}"


def main(words: Sequence[str] | None = None) -> int:
    """Checks this node once, or every `--every` seconds; the results are in the pod's log. Returns
    1 if the only check failed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    parser = ArgumentParser(prog="node_health")
    parser.add_argument("--offers", action="append", default=[], metavar="RESOURCE")
    parser.add_argument("--every", type=float, default=0.0, metavar="SECONDS", help="0: once")
    parser.add_argument("--pause", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("check", nargs="+")
    given = parser.parse_args(words)
    health = NodeHealth(Api(), os.environ["FAIRWAY_NODE"], given.check, given.offers, given.pause)
    machine, before = machine_of(Metadata()), Verdict("", "")
    while True:
        try:
            found = health.look(machine)
        except AgentError as fault:
            _log.warning("%s", fault.said)
            if not given.every:
                return 1
        else:
            if found != before:
                _log.info("%s %s: %s", CONDITION, found.status, found.message)
            before = found
            if not given.every:
                return 0
        time.sleep(min(_SOON, given.every) if before.is_building else given.every)


if __name__ == "__main__":
    sys.exit(main())

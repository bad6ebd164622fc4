"""Fixtures of the Slurm tests: Azure on a loopback port, stand-ins for Slurm's commands, munge."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from programs import executable, finished
from waiting import until

from fairway_boot.slurm.node_registry import Claim, NodeRegistry, open_registry
from fairway_boot.slurm.settings import Settings, load
from fairway_core.slurm import install
from fairway_simulator.http import Answer, Request, Server
from fairway_simulator.slurm import missing

SCALE_SET = (
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/v"
)
NOT_FOUND = Answer({"error": {"code": "NotFound", "message": "it is not there"}}, 404)


@dataclass
class Azure:
    """One scale set, the metadata of one VM, one vault; `room` is how many instances it can make.

    `faults` are answered once each, in order, to requests that start with their first item:
    ("PATCH /subscriptions", 429, {"Retry-After": "0"}); `message` among the headers is the
    error's. Operations end with the error `ends_with`, if there is one, and continue while `hold`
    is set.
    """

    url: str = ""
    capacity: int = 0
    room: int = 100
    broken: int = 0
    instances: dict[str, str] = field(default_factory=dict)
    faults: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    readable: bool = True
    ends_with: str = ""
    hold: threading.Event = field(default_factory=threading.Event)
    secret: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    number: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def evict(self, instance: str) -> None:
        """Removes an instance; the requested capacity stays the same."""
        with self.lock:
            del self.instances[instance]

    def change(self, capacity: int) -> Answer:
        """Changes the capacity as a PATCH does."""
        with self.lock:
            wanted, self.capacity = capacity - len(self.instances), capacity
            possible = min(wanted, self.room - len(self.instances))
            for _ in range(max(0, possible)):
                self.instances[str(self.number)] = "Failed" if self.broken else "Succeeded"
                self.broken = max(0, self.broken - 1)
                self.number += 1
            error = None if len(self.instances) >= capacity else "AllocationFailed"
            error = self.ends_with or error
        return self._operation(error)

    def delete(self, ids: list[str]) -> Answer:
        """Deletes instances as the action does."""
        with self.lock:
            for instance in ids:
                del self.instances[instance]
                self.capacity -= 1
        return self._operation(None)

    def _operation(self, error: str | None) -> Answer:
        """Returns the answer that names a new operation, which ends so."""
        inner = {"code": error, "message": "no room\nfor it"}
        failed = {"status": "Failed", "error": {"code": "VMFailure", "details": [inner]}}
        self.operations.append(failed if error else {"status": "Succeeded"})
        where = f"{self.url}/operations/{len(self.operations) - 1}"
        return Answer({}, 202, {"Azure-AsyncOperation": where})

    def answer(self, request: Request) -> Answer:
        """Returns the answer, or the fault that is to come first."""
        line = f"{request.method} {request.target}"
        self.requests.append(line)
        for fault in self.faults:
            start, status, headers = fault
            if line.startswith(start):
                self.faults.remove(fault)
                error = {"code": "Fault", "message": headers.pop("message", "a fault")}
                return Answer({"error": error}, status, headers)
        if request.parts[0] == "metadata":
            is_told = request.headers.get("metadata") == "true"
            return self._of_machine(request) if is_told else Answer({"error": "Bad request"}, 400)
        if request.token != "token":
            return Answer({"error": {"code": "InvalidAuthenticationToken"}}, 401)
        return self._of_vault(request) if request.parts[0] == "secrets" else self._managed(request)

    def _managed(self, request: Request) -> Answer:
        """Returns the answer of Azure Resource Manager."""
        busy, body = self.hold.is_set(), json.loads(request.body or "{}")
        match request.method, request.path.removeprefix(SCALE_SET):
            case "GET", "":
                with self.lock:
                    sku = {"name": "Standard_HB176rs_v4", "capacity": self.capacity}
                state = {"provisioningState": "Updating" if busy else "Succeeded"}
                return Answer({"sku": sku, "properties": state})
            case "GET", "/virtualMachines":
                return Answer(self._page(int(request.option("after", "0"))))
            case "PATCH", "":
                return self.change(body["sku"]["capacity"])
            case "POST", "/delete" if set(body["instanceIds"]) <= set(self.instances):
                return self.delete(body["instanceIds"])
        if request.parts[0] != "operations":
            return NOT_FOUND
        if not self.readable:
            return Answer({"error": {"code": "AuthorizationFailed", "message": "no"}}, 403)
        ended = self.operations[int(request.parts[1])]
        return Answer({"status": "InProgress"} if busy else ended)

    def _of_machine(self, request: Request) -> Answer:
        """Returns the answer of the metadata service."""
        match request.method, request.path.removeprefix("/metadata"):
            case "GET", "/identity/oauth2/token":
                until = str(int(time.time()) + 3600)
                return Answer({"access_token": "token", "expires_on": until})
            case "GET", "/instance/compute":
                place = f"{SCALE_SET}/virtualMachines/7"
                return Answer({"name": "v_7", "vmId": "AAAA-7", "resourceId": place})
            case "GET", "/scheduledevents":
                return Answer({"DocumentIncarnation": 1, "Events": self.events})
        started = json.loads(request.body)["StartRequests"]
        self.acknowledged += [each["EventId"] for each in started]
        return Answer({})

    def _of_vault(self, request: Request) -> Answer:
        if request.method == "PUT":
            self.secret = json.loads(request.body)["value"]
        return NOT_FOUND if self.secret is None else Answer({"value": self.secret})

    def _page(self, start: int) -> dict[str, Any]:
        """Returns a page of two instances, as Azure gives long lists in pages."""
        with self.lock:
            rows = list(self.instances.items())
        value = [
            {"instanceId": id, "properties": {"vmId": f"VM-{id}", "provisioningState": state}}
            for id, state in rows[start : start + 2]  # noqa: A001
        ]
        more = f"{self.url}{SCALE_SET}/virtualMachines?after={start + 2}"
        return {"value": value, **({"nextLink": more} if start + 2 < len(rows) else {})}


@pytest.fixture
def azure() -> Iterator[Azure]:
    """Yields Azure as the programs see it."""
    azure = Azure()
    with Server(azure.answer) as server:
        azure.url = server.url
        yield azure


@dataclass
class Lab:
    """The programs as a VM has them, with their settings; `told` has the commands that Slurm
    got."""

    folder: Path
    azure: Azure
    programs: dict[str, Path]

    @property
    def told(self) -> list[str]:
        """The Slurm commands that were run, except queries."""
        log = self.folder / "told"
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if " show " not in line]

    def states(self, **states: str) -> None:
        """Sets the nodes' states in scontrol's answer; underscores in a name are hyphens."""
        (self.folder / "nodes").write_text(
            "".join(
                f"NodeName={name.replace('_', '-')} Arch=x86_64 State={state} Weight=1\n"
                for name, state in states.items()
            )
        )

    def partition(self, state: str) -> None:
        """Sets the partition's state in scontrol's answer."""
        (self.folder / "partition").write_text(f"PartitionName=nd AllowGroups=ALL State={state}\n")

    def run(self, program: str, *arguments: str) -> int:
        """Runs one of slurmctld's programs, or a module of the package, and returns its exit code.
        It runs in this process: a Python for each would take longer than its work."""
        called = program in self.programs
        module = import_module(f"fairway_boot.slurm.{'power' if called else program}")
        words = [program, *arguments] if called else [*arguments]
        root, log = logging.getLogger(), logging.FileHandler(self.folder / "log")
        with pytest.MonkeyPatch.context() as patch, contextlib.closing(log):
            patch.setenv("FAIRWAY_SLURM_SETTINGS", str(self.folder / "settings.json"))
            patch.setattr(sys, "excepthook", sys.excepthook)
            patch.setattr(root, "handlers", [*root.handlers, log])
            level = root.level
            root.setLevel(logging.INFO)  # not by `patch`: loggers cache their levels
            try:
                return int(module.main() if program == "node" else module.main(words))
            finally:
                root.setLevel(level)

    def process(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a program or a module as a process, as slurmctld and systemd do."""
        path = self.programs.get(program)
        module = f"fairway_boot.slurm.{program}"
        command = [str(path)] if path else [sys.executable, "-B", "-m", module]
        return finished([*command, *arguments], env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a module finds the package and its settings."""
        return {
            **os.environ,
            "FAIRWAY_SLURM_SETTINGS": str(self.folder / "settings.json"),
            "PYTHONPATH": str(self.folder / "lib"),
        }

    @property
    def settings(self) -> Settings:
        """The settings as a program reads them now."""
        return load(str(self.folder / "settings.json"))

    def set(self, **values: Any) -> None:
        """Changes settings."""
        file = self.folder / "settings.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    def open(self) -> AbstractContextManager[NodeRegistry]:
        """Opens the scheduler's registry of nodes for changes."""
        return open_registry(self.settings, "nd")

    def claim(self, *names: str) -> None:
        """Assigns these node names to the instances that have no name yet."""
        with self.open() as registry:
            taken = {claim.instance for claim in registry.claims.values()}
            free = [each for each in self.azure.instances if each not in taken]
            for name, instance in zip(names, free, strict=True):
                registry.wanted.pop(name, None)
                registry.claims[name] = Claim(instance, f"vm-{instance}")

    def registry(self) -> dict[str, Any]:
        """Returns the scheduler's registry of nodes as JSON."""
        found: dict[str, Any] = json.loads((self.folder / "state" / "nd.json").read_text())
        return found

    @property
    def log(self) -> str:
        """Text that the programs have logged."""
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""


_COMMAND = """#!/bin/sh
echo "$(basename "$0") $*" >>{folder}/told
case "$(basename "$0") $*" in
*"show node"*) cat {folder}/nodes ;;
*"show partition"*) cat {folder}/partition ;;
squeue*)
    cat {folder}/jobs 2>/dev/null
    [ ! -e {folder}/jobs.next ] || mv {folder}/jobs.next {folder}/jobs
    ;;
esac
if [ -e {folder}/refuse ] && grep -qxF "$(basename "$0") $1" {folder}/refuse; then exit 1; fi
"""


@pytest.fixture
def lab(tmp_path: Path, azure: Azure) -> Lab:
    """Returns the programs in a folder, with commands that record their calls."""
    settings = tmp_path / "settings.json"
    programs = install(tmp_path / "lib", settings=str(settings), python=sys.executable)
    commands = tmp_path / "bin"
    for name in ("scontrol", "squeue"):
        executable(commands / name, _COMMAND.format(folder=tmp_path))
    (tmp_path / "nodes").write_text("")
    settings.write_text(
        json.dumps(
            {
                "scale_sets": {"nd": {"id": SCALE_SET}},
                "state": str(tmp_path / "state"),
                "arm": azure.url,
                "metadata": azure.url,
                "vault": azure.url,
                "bin": str(commands),
                "log": str(tmp_path / "log"),
                "poll": 0.01,
                "patience": 10,
                "user": "root",
            }
        )
    )
    return Lab(tmp_path, azure, programs)


@pytest.fixture(scope="module")
def real_slurm() -> None:
    """Skips the test unless Slurm and munge are installed and it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("slurmctld and slurmd are started as root here")
    if lacking := missing():
        pytest.skip(lacking)


@pytest.fixture(scope="module")
def munge(real_slurm: None) -> Iterator[Path]:
    """Yields the socket of the tests' own munged, which every user of the machine can reach."""
    with TemporaryDirectory(prefix="fairway-munge-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "key").write_bytes(os.urandom(64))
        (folder / "key").chmod(0o400)
        socket, null = folder / "socket", subprocess.DEVNULL
        words = ["munged", "--foreground", "--force", f"--socket={socket}"]
        words += [f"--{each}-file={folder / each}" for each in ("key", "pid", "log", "seed")]
        process = subprocess.Popen(words, stdout=null, stderr=null)
        command = ["munge", f"--socket={socket}", "--no-input"]
        until(lambda: not subprocess.run(command, capture_output=True, check=False).returncode)
        yield socket
        process.terminate()
        process.wait(timeout=300)

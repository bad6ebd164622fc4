"""Stops the machines of a cluster that nobody has used for a while, with their own identity.

A timer starts it each minute as `idle_stop SETTINGS STATE`. A machine is in use while a run has or
waits for nodes of its cluster, somebody is logged in, or a GPU works; unknown counts as in use. If
there are several nodes, each tells the others for how long it has been idle, in a folder that all
of them see, and the first by its name stops them all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot import cluster, files, gpus, http
from fairway_boot.identity import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_boot.imds import Metadata

_API = "2024-07-01"
_WORKS = 0.05  # of a GPU's time; idle GPUs show a percent or two with some drivers
_PATIENCE = 30.0  # seconds for a program that prints once and exits
_OPEN = ("active", "online")  # sessions; a closing one only has leftover processes


@dataclass(frozen=True)
class Settings:
    """After how many seconds the machines stop; the folder that contains `clusters/<cluster>`, and
    the mount that it is on, "" for the machine's own disk; `others` says that there may be other
    nodes, and `arm` is the address of Azure Resource Manager."""

    after: float
    cluster: str
    folder: str
    mount: str = ""
    others: bool = False
    arm: str = "https://management.azure.com"


@dataclass
class Watch:
    """One look. `state` is this machine's own folder, which a boot empties; `clock` counts seconds
    since boot, including those asleep."""

    settings: Settings
    state: Path
    metadata: Metadata = field(default_factory=lambda: METADATA)
    clock: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)

    def look(self) -> str:
        """Looks, stops the machines if it is time to, and returns the result as text."""
        try:
            used = self.used_by()
        except (OSError, subprocess.SubprocessError):
            self._tell(self._idle_for("what nobody can tell"))
            raise
        idle = self._idle_for(used)
        self._tell(idle)
        if used:
            return f"in use: {used}"
        found = f"idle for {idle / 60:.0f} of {self.settings.after / 60:.0f} minutes"
        if idle < self.settings.after:
            return found
        if waits_for := self._others():
            return f"{found}; {waits_for}"
        self._stop()
        return f"{found}: it stops"

    def used_by(self) -> str:
        """Names a use of the machine; "" if there is none."""
        settings = self.settings
        if settings.mount and not os.path.ismount(settings.mount):
            return f"{settings.mount} is not mounted, so that nobody knows of runs"
        runs = cluster.runs(Path(settings.folder), settings.cluster)
        return f"the run {runs[0]}" if runs else _logged_in() or _working_gpu()

    def _idle_for(self, used: str) -> float:
        """Returns for how many seconds the machine has been idle; a boot counts as use."""
        file, now = self.state / "used", self.clock()
        try:
            last = now if used else float(json.loads(file.read_text(encoding="ascii")))
        except (FileNotFoundError, ValueError, TypeError, OverflowError, RecursionError):
            last = now  # missing or damaged
        if not last < now:
            files.write_json(file, now)
            return 0.0
        return now - last

    @property
    def _reports(self) -> Path:
        return Path(self.settings.folder) / "clusters" / self.settings.cluster / "idle"

    def _tell(self, idle: float) -> None:
        if self.settings.others and self._reports.parent.is_dir():
            self._reports.mkdir(exist_ok=True)
            files.write_json(self._reports / cluster.own_name(), round(idle))

    def _others(self) -> str:
        """Returns why this node does not stop them all: another is not idle, or has to do so; else
        ""."""
        if not self.settings.others:
            return ""
        known = cluster.known_hosts(Path(self.settings.folder), self.settings.cluster)
        there = sorted((each for each in known if each.is_fresh), key=cluster.by_name)
        # A node that has not announced itself is known only as "localhost".
        if not any(each.is_own and each.address != "localhost" for each in there):
            return "it does not announce itself, so that nobody knows of the other nodes"
        now = cluster.server_time(self._reports.parent)
        for host in there:
            file, is_idle = self._reports / host.name, False
            with suppress(OSError, ValueError, TypeError, RecursionError):
                idle = float(json.loads(file.read_text(encoding="ascii")))
                age = now - file.stat().st_mtime
                is_idle = idle >= self.settings.after and age < cluster.FRESH
            if not is_idle:
                return f"{host.name} has not been idle for so long"
        return "" if there[0].is_own else f"{there[0].name} stops all nodes"

    def _stop(self) -> None:
        """Stops all nodes of a scale set at once. Raises Failure if Azure refuses."""
        own = self.metadata.machine().id
        before, kind, after = own.partition("/virtualMachineScaleSets/")
        own = f"{before}{kind}{after.partition('/')[0]}"
        if not own.startswith("/subscriptions/"):  # the token must go only to Azure
            raise http.Failure(0, "BadAnswer", f"the metadata service names no machine: {own!r}")
        url = f"{self.settings.arm}{own}/deallocate?api-version={_API}"
        http.send("POST", url, headers=self.metadata.bearer(f"{self.settings.arm}/"))


def _logged_in() -> str:
    """Names a person who is logged in, with a terminal or without; "" if there is none."""
    if shutil.which("loginctl") is None:
        names = [line.split()[0] for line in _said("who", check=True).splitlines() if line.strip()]
        return f"{names[0]} is logged in" if names else ""
    listed = _said("loginctl", "list-sessions", "--no-legend", check=True)
    ids = [line.split()[0] for line in listed.splitlines() if line.strip()]
    for session in ids:
        shown = _said(
            "loginctl", "show-session", "-p", "Name", "-p", "Class", "-p", "State", session
        )
        facts = dict(line.partition("=")[::2] for line in shown.splitlines())
        if facts.get("Class", "").startswith("user") and facts.get("State") in _OPEN:
            return f"{facts.get('Name')} is logged in"
    return ""


def _working_gpu() -> str:
    found = gpus.current_load()
    if found is None:
        return "nobody knows what its GPUs do, as nvidia-smi fails"
    for index, use in found.items():
        if use is None:
            return f"GPU {index} does not tell how busy it is"
        if use >= _WORKS:
            return f"GPU {index} is {use:.0%} busy"
    return ""


def _said(*words: str, check: bool = False) -> str:
    """Returns a program's output, which may be empty for a session that has just ended."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE, check=check)
    return done.stdout


def main() -> None:
    """Runs the program; see the module's docstring for its arguments."""
    settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        found = Watch(Settings(**settings), Path(sys.argv[2])).look()
    except http.Failure as failure:
        sys.exit(f"fairway-idle: Azure does not stop this machine: {failure}")
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"fairway-idle: nobody knows whether it is in use: {error}")
    sys.stdout.write(f"fairway-idle: {found}\n")


if __name__ == "__main__":
    main()

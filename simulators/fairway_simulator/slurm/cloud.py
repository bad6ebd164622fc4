"""Cloud nodes: the project's own programs, over a stand-in for the scale set.

An instance runs the project's node program, which claims a name from the scheduler, and then a real
slurmd of that name; it is gone when the scale set deletes it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fairway_agent.fanout.launchers import free_port
from fairway_core import slurm
from fairway_core.slurm import install
from fairway_simulator.slurm.daemon import Daemon
from fairway_simulator.slurm.scale_set import ID, ScaleSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Seconds; short, so that nodes are soon started and soon deleted.
_IDLE, _RESUME, _SUSPEND = 5, 60, 2
_POLL = 0.1


class Cluster(Protocol):
    """Parts of a cluster that its nodes need: a `SlurmCluster`."""

    cloud: int
    folder: Path

    @property
    def conf(self) -> Path: ...
    def start_node(self, name: str, *options: str) -> None: ...
    def kill_node(self, name: str) -> None: ...


@dataclass
class CloudNodes:
    """Nodes of the partition `cloud`; each of the `instances` lives in a thread."""

    cluster: Cluster
    folder: Path
    scale_set: ScaleSet = field(init=False)
    instances: dict[str, tuple[threading.Thread, threading.Event]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing runs before `start`."""
        self._claim_port = free_port(1)

    def programs(self) -> slurm.Cloud:
        """Installs the programs for slurmctld; returns their paths for slurm.conf."""
        (azure := self.folder / "azure").mkdir(parents=True)
        self.scale_set = ScaleSet(azure, self.cluster.cloud, self._boot, self._delete)
        self.scale_set.serve()
        found = install(
            self.folder / "lib", settings=str(self.folder / "settings.json"), python=sys.executable
        )
        return slurm.Cloud(
            resume_program=str(found["resume"]),
            suspend_program=str(found["suspend"]),
            resume_fail_program=str(found["resume-fail"]),
            idle=_IDLE,
            resume=_RESUME,
            suspend=_SUSPEND,
        )

    def start(self, slurmctld_port: int) -> Daemon:
        """Starts the service that names instances; slurmctld is reached at that port."""
        self._write("settings.json", scheduler=f"127.0.0.1:{slurmctld_port}")
        words = [sys.executable, "-B", "-m", "fairway_boot.slurm.claim_service"]
        log = self.folder / "claims.out"
        return Daemon.start("claims", words, log, self._environment("settings.json"))

    def stop(self) -> None:
        self.scale_set.stop()
        for instance in list(self.instances):
            self._delete(instance)

    def _boot(self, instance: str) -> None:
        gone = threading.Event()
        # A daemon ends with the thread that started it: this one runs as long as the instance.
        thread = threading.Thread(target=self._live, args=(instance, gone), daemon=True)
        self.instances[instance] = thread, gone
        thread.start()

    def _delete(self, instance: str) -> None:
        thread, gone = self.instances.pop(instance)
        gone.set()
        thread.join()

    def _live(self, instance: str, gone: threading.Event) -> None:
        """Runs one instance, from its boot until it is deleted."""
        own = f"instance-{instance}.json"
        name_file = self.folder / f"instance-{instance}.name"
        self._write(
            own,
            metadata=self.scale_set.machine(instance).url,
            partition="cloud",
            name_file=str(name_file),
            first_file=str(self.folder / f"instance-{instance}.first"),
            munge_key=str(self.folder / f"instance-{instance}.key"),
            restart_munge=["true"],
            set_host_name=["true"],
            start=["true"],
        )
        words = [sys.executable, "-B", "-m", "fairway_boot.slurm.node"]
        log = self.folder / f"instance-{instance}.out"
        boot = Daemon.start(f"instance {instance}", words, log, self._environment(own))
        while boot.process.poll() is None and not gone.wait(_POLL):
            continue
        if gone.is_set():
            boot.kill()
            return
        name = name_file.read_text(encoding="utf-8").partition("-N ")[2].split()[0]
        self.cluster.start_node(name, "-b")
        gone.wait()
        self.cluster.kill_node(name)

    def _write(self, name: str, **more: Any) -> None:
        base = self.folder / "settings.json"
        known = json.loads(base.read_text()) if base.exists() else {}
        own = {
            "scale_sets": {"cloud": {"id": ID}},
            "state": str(self.folder / "state"),
            **self.scale_set.settings(),
            "munge_socket": str(self.cluster.folder / "munge" / "s"),
            "claim_address": "127.0.0.1",
            "claim_port": self._claim_port,
            "user": "root",
            "log": str(self.folder / "programs.log"),
            "poll": _POLL,
            "patience": _RESUME,
            # These nodes cost nothing, and nothing here ends a hold.
            "hold": 0,
        }
        (self.folder / name).write_text(json.dumps({**own, **known, **more}))

    def _environment(self, settings: str) -> Mapping[str, str]:
        return {
            **os.environ,
            "SLURM_CONF": str(self.cluster.conf),
            "FAIRWAY_SLURM_SETTINGS": str(self.folder / settings),
            "PYTHONPATH": str(self.folder / "lib"),
        }

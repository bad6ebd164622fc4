"""The entire cluster: its folder, its daemons in order, and failures of its nodes."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_simulator import machines
from fairway_simulator.slurm import configuration
from fairway_simulator.slurm.cloud import CloudNodes
from fairway_simulator.slurm.daemon import SEARCH_PATH, Daemon, find
from fairway_simulator.slurm.login import Login

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_core import slurm
    from fairway_simulator.machines import People

_COMMAND_TIMEOUT = 120.0  # seconds; clients hang if slurmctld is down

# A node has its own host name, processes, shared memory and local disk, and a hosts file with all
# nodes. Cgroups v2 are unmounted if this machine has both versions.
_NODE = """umount -q /sys/fs/cgroup/unified
hostname "$1" && mount --bind "$2" /etc/hosts && mount --bind "$3" /var/tmp &&
mount -t tmpfs none /dev/shm && shift 3 && exec "$@\""""


@dataclass
class SlurmCluster:
    """A cluster, started by `with`: permanent `nodes`, each with `gpus` GPUs, and `cloud` nodes.

    `shared` is the folder that all nodes see, by default one of the cluster's own; `alias` is the
    name for ssh to the login host, and the target's; `variables` are added to sessions there. All
    machines know the accounts of `people`.

    >>> with SlurmCluster(nodes=2) as cluster:  # doctest: +SKIP
    ...     cluster.run("srun", "-N2", "hostname")
    'sim-0\\nsim-1\\n'
    """

    nodes: int = 3
    cloud: int = 0
    gpus: int = 0
    shared: Path | None = None
    alias: str = "slurm-sim"
    variables: Mapping[str, str] = field(default_factory=dict)
    people: People | None = None
    tracking: str = "proctrack/linuxproc"
    nodes_of_cloud: CloudNodes | None = field(init=False, default=None)
    folder: Path = field(init=False)
    login: Login = field(init=False)
    description: slurm.SlurmCluster = field(init=False)
    _daemons: dict[str, Daemon] = field(init=False, default_factory=dict)

    def __enter__(self) -> SlurmCluster:
        """Starts the cluster, and returns when every node is idle."""
        # A short path: that of munge's socket has at most 108 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="fairway-slurm-"))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        return {"FAIRWAY_SSH_CONFIG": str(self.login.ssh_config)}

    @property
    def target(self) -> dict[str, Any]:
        return self.target_of("sim")

    def target_of(self, partition: str) -> dict[str, Any]:
        """Returns a target with the nodes of one partition: `sim`, or `cloud`."""
        kept, most = (self.nodes, self.nodes) if partition == "sim" else (0, self.cloud)
        access = {"host": self.alias, "user": self.login.user, "partition": partition}
        return {
            "name": self.alias if partition == "sim" else f"{self.alias}-{partition}",
            "engine": "slurm",
            "nodes": {"min": kept, "max": most},
            "slurm": {**access, "shared": str(self.shared)},
        }

    def run(self, *words: str, check: bool = True) -> str:
        """Runs a Slurm command as on the login host, and returns its output."""
        done = subprocess.run(
            words,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def node_names(self) -> list[str]:
        return [f"sim-{number}" for number in range(self.nodes)]

    def cloud_names(self) -> list[str]:
        return [f"cloud-{number}" for number in range(self.cloud)]

    def start_node(self, name: str, *options: str) -> None:
        """Starts the node's slurmd with these additional options; returns immediately."""
        hosts = self.folder / "etc" / "hosts"
        disk = str(self.folder / f"temporary.{name}")
        for name_ in configuration.folders_of([name]):  # a restarted node is a new one
            shutil.rmtree(self.folder / name_, ignore_errors=True)
            (self.folder / name_).mkdir()
        Path(disk).chmod(0o1777)  # as /tmp is
        spaces = ("--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
        daemon = (find("slurmd"), "-D", "-N", name, "-f", str(self.conf), *options)
        words = [find("unshare"), *spaces, "sh", "-c", _NODE, "sh", name, str(hosts), disk, *daemon]
        words = self.people.inside(words) if self.people else words
        log = self.folder / "log" / f"{name}.out"
        self._daemons[name] = Daemon.start(name, words, log, self._environment())

    def kill_node(self, name: str) -> None:
        """Kills the node, with everything that runs on it; Slurm finds out by itself."""
        self._daemons.pop(name).kill()

    def drain(self, name: str, reason: str) -> None:
        self.run("scontrol", "update", f"nodename={name}", "state=drain", f"reason={reason}")

    def stop_scheduler(self) -> None:
        """Stops slurmctld, which saves its state; jobs continue."""
        self._daemons.pop("slurmctld").stop()

    def start_scheduler(self) -> None:
        """Starts slurmctld, with its saved state; returns immediately."""
        words = [find("slurmctld"), "-D", "-f", str(self.conf)]
        words = self.people.inside(words) if self.people else words
        log = self.folder / "log" / "slurmctld.out"
        self._daemons["slurmctld"] = Daemon.start("slurmctld", words, log, self._environment())

    def __exit__(self, *_: object) -> None:
        """Ends jobs, nodes and daemons, and removes the cluster's own folder."""
        if "slurmctld" in self._daemons:
            # Only the daemons can end steps, which would outlive them.
            for user in (self.login.user, *(self.people.names if self.people else ())):
                words = ["scancel", "--full", f"--user={user}"]
                self.run(*(self.people.inside(words) if self.people else words), check=False)
            self._daemons["slurmctld"].stop()
        if self.nodes_of_cloud is not None:
            self.nodes_of_cloud.stop()
        for name in [each for each in self._daemons if each not in ("munged", "slurmctld")]:
            self._daemons.pop(name).kill()
        if hasattr(self, "login"):
            self.login.stop()
        if "munged" in self._daemons:
            self._daemons["munged"].stop()
        self._daemons.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        for name in ("etc", "home", "log", "run", "state", "munge"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)  # nodes' daemons read it
        if self.shared is None:
            self.shared = self.folder / "shared"
        self.shared.mkdir(parents=True, exist_ok=True)
        programs = None
        if self.cloud:
            self.nodes_of_cloud = CloudNodes(self, self.folder / "cloud")
            programs = self.nodes_of_cloud.programs()
        self.description = configuration.describe(
            self.folder,
            nodes=self.nodes,
            cloud=self.cloud,
            programs=programs,
            gpus=self.gpus,
        )
        names = [*self.node_names(), *self.cloud_names()]
        configuration.write(self.folder, self.description, names, self.tracking)
        self._start_munge()
        self.login = Login(self.folder / "login", self.alias, self._session(), self.people)
        self.start_scheduler()
        if self.nodes_of_cloud is not None:
            port = self.description.slurmctld_port
            self._daemons["claims"] = self.nodes_of_cloud.start(port)
        for name in self.node_names():
            self.start_node(name)
        self.login.start()
        idle = ["idle"] * self.nodes
        listed = ("sinfo", "-h", "-N", "-p", "sim", "-o", "%T")
        self._daemons["slurmctld"].await_ready(
            lambda: self.run(*listed, check=False).split() == idle
        )

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        words = [find("munged"), "--foreground", "--force", f"--key-file={key}"]
        words += [f"--socket={folder}/s", f"--pid-file={folder}/pid", f"--log-file={folder}/log"]
        words.append(f"--seed-file={folder}/seed")
        daemon = Daemon.start("munged", words, folder / "out", {"PATH": SEARCH_PATH})
        self._daemons["munged"] = daemon
        daemon.await_ready((folder / "s").exists)

    def _environment(self) -> dict[str, str]:
        return {"PATH": SEARCH_PATH, "SLURM_CONF": str(self.conf), "HOME": str(Path.home())}

    def _session(self) -> dict[str, str]:
        """Returns the variables of a session on the login host, and so of a job: our Python and MPI
        on PATH."""
        own = Path(sys.executable).parent
        variables = {
            # A separate home: the user's own shell start-up files must not affect the cluster.
            "HOME": str(self.folder / "home"),
            "PATH": f"{self.folder}/home/bin:{own}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": str(self.conf),
            **machines.SHARED_CORES,
            # The nodes use this machine's network, where other simulators' bridges come and go.
            "OMPI_MCA_btl_tcp_if_exclude": "127.0.0.0/8,10.244.0.0/16",
        }
        variables |= self.variables
        if os.geteuid() == 0:
            variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return variables

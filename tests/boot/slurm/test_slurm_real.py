"""Real slurmctld and slurmd with the project's own files: nodes that come, work and go."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from waiting import until

from fairway_agent.fanout.launchers import free_port
from fairway_boot.slurm.node_registry import opened
from fairway_boot.slurm.settings import load
from fairway_constructs.slurm.configuration import slurm_cluster
from fairway_core.environment import load_environment
from fairway_core.slurm import (
    Cloud,
    Gpus,
    NodeFacts,
    Partition,
    Paths,
    Programs,
    SlurmCluster,
    Timing,
    install,
    render,
)
from fairway_simulator.slurm.daemon import Daemon
from fairway_stacks.boot_data import partitions_of, slurm_partitions

Azure = Any
Lab = Any

pytestmark = pytest.mark.nightly


_MOST_NODES = 16


class Cluster:
    """slurmctld with one node that is always there, `n-0`, and three of the cloud, `nd-[0-2]`.

    An instance of the stand-in runs the project's own node program, which starts a slurmd.
    """

    def __init__(self, lab: Lab, munge: Path) -> None:
        self.folder, self.lab, self.azure = lab.folder, lab, lab.azure
        self._munge = munge
        self._daemons: list[Daemon] = []
        self._instances: dict[str, list[subprocess.Popen[bytes]]] = {}
        for name in ("ctld", "run", "slurm-log", "etc", "instances"):
            (self.folder / name).mkdir()
        for node in ("n-0", "nd-0", "nd-1", "nd-2"):
            (self.folder / f"spool.{node}").mkdir()
        self.port = free_port(2 + _MOST_NODES)
        self.claim_port = self.port + 1
        conf = self.folder / "etc" / "slurm.conf"
        lab.variables["SLURM_CONF"] = str(conf)
        self.environment = lab.environment
        programs = install(
            self.folder / "lib",
            settings=str(self.folder / "settings.json"),
            python=sys.executable,
            facts=NodeFacts(folders=(), mounts=("/proc",)),
            slurm_conf=str(conf),
        )
        self._hide_hosts(programs["prolog"], conf)
        for name, text in render(self._description(programs)).items():
            (self.folder / "etc" / name).write_text(text)
        lab.set(
            bin="",
            munge_socket=str(munge),
            claim_port=self.claim_port,
            scheduler=f"127.0.0.1:{self.port}",
        )
        self.azure.on_start, self.azure.on_delete = self._boot, self._shut_down

    def _hide_hosts(self, prolog: Path, conf: Path) -> None:
        """slurmd gives its Prolog no environment; and the hosts file is not this machine's."""
        prolog.rename(prolog.with_suffix(".own"))
        files = {"HOSTS": self.folder / "hosts", "FIRST": self.folder / "none"}
        known = " ".join(f"FAIRWAY_{name}_FILE={file}" for name, file in files.items())
        executable(prolog, f"export SLURM_CONF={conf} {known}\nexec {prolog}.own")
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n")

    def _description(self, programs: dict[str, Path]) -> SlurmCluster:
        first = self.port + 2
        return SlurmCluster(
            name="lab",
            host="localhost",
            address="127.0.0.1",
            slurmctld_port=self.port,
            user="root",
            paths=Paths(
                state=str(self.folder / "ctld"),
                spool=f"{self.folder}/spool.%n",
                run=str(self.folder / "run"),
                log=str(self.folder / "slurm-log"),
                munge_socket=str(self._munge),
            ),
            programs=Programs(
                prolog="",
                epilog=str(programs["epilog"]),
                health_check=str(programs["health-check"]),
                health_check_seconds=1,
                mail=str(programs["mail"]),
            ),
            timing=Timing(credential=5, slurmd=10, kill_wait=2, eager=True),
            containment="none",
            configless=False,
            cloud=Cloud(
                resume_program=str(programs["resume"]),
                suspend_program=str(programs["suspend"]),
                resume_fail_program=str(programs["resume-fail"]),
                idle=4,
                resume=30,
                suspend=2,
            ),
            partitions=(
                Partition(
                    name="n",
                    count=1,
                    cpus=4,
                    sockets=2,
                    cores_per_socket=2,
                    memory_mib=1000,
                    address="127.0.0.1",
                    port=first,
                    gpus=Gpus(type="h100", files=("/dev/tty0", "/dev/tty1"), numa=(1, 0)),
                    features=("ib", "dedicated"),
                    default=True,
                ),
                Partition(
                    name="nd",
                    count=3,
                    cpus=2,
                    memory_mib=1000,
                    address="127.0.0.1",
                    port=first + 1,
                    cloud=True,
                ),
            ),
        )

    def start(self) -> None:
        """Starts slurmctld, the service of claims and the node that is always there."""
        self.start_scheduler()
        self._start("slurmd", "-D", "-N", "n-0")
        self.until(lambda: self.state("n-0") == "idle")

    def start_scheduler(self) -> None:
        """Starts slurmctld and the service of claims."""
        self._start("slurmctld", "-D")
        self._start(sys.executable, "-B", "-m", "fairway_boot.slurm.claim_service")

    def _start(self, *command: str) -> None:
        log = self.folder / "daemons"
        self._daemons.append(Daemon.start(command[0], command, log, self.environment))

    def _boot(self, instance: str) -> None:
        folder = self.folder / "instances" / instance
        folder.mkdir()
        # The name is the word after -N; the process stays the one that is stopped later.
        started = executable(
            folder / "start",
            f"name=$(sed -E 's/.*-N ([^ ]+).*/\\1/' {folder}/name)\n"
            f"echo $name >{folder}/is\n"
            # A machine of its own, whose name, processes and /dev/shm end with it.
            "unshare --uts --mount --pid --fork --kill-child --mount-proc sh -c '\n"
            "hostname $0 && mount -t tmpfs none /dev/shm && exec slurmd -D -b -N $0\n"
            '\' "$name" >/dev/null 2>&1 &\n'
            f"echo $! >{folder}/pid",
        )
        own = {
            **json.loads((self.folder / "settings.json").read_text()),
            "partition": "nd",
            "name_file": str(folder / "name"),
            "first_file": str(folder / "first"),
            "munge_key": str(folder / "key"),
            "restart_munge": ["true"],
            "set_host_name": ["true"],
            "start": [str(started)],
        }
        own["metadata"] = f"{self.azure.url}/as/{instance}"
        (folder / "settings.json").write_text(json.dumps(own))
        environment = {**self.environment, "FAIRWAY_SLURM_SETTINGS": str(folder / "settings.json")}
        command = [sys.executable, "-B", "-m", "fairway_boot.slurm.node"]
        self._instances[instance] = [subprocess.Popen(command, env=environment)]

    def _shut_down(self, instance: str) -> None:
        """The VM is gone, and all that ran on it."""
        for process in self._instances.pop(instance, []):
            process.kill()
            process.wait()
        pid = self.folder / "instances" / instance / "pid"
        if pid.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), 9)

    def stop(self) -> None:
        """Ends jobs first, then all daemons."""
        with contextlib.suppress(subprocess.SubprocessError):
            self.ask("scancel", "--state=running", "--user=root")
        for instance in list(self._instances):
            self._shut_down(instance)
        for daemon in reversed(self._daemons):
            daemon.stop()

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs one of Slurm's commands."""
        return finished(command, env=self.environment, cwd=self.folder)

    def ask(self, *command: str) -> str:
        """The output of one of Slurm's commands."""
        done = self.run(*command)
        done.check_returncode()
        return done.stdout.strip()

    def state(self, node: str) -> str:
        """Of a node, as sinfo writes it: idle~ is one of the cloud that is not there."""
        return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%T").partition("\n")[0]

    def reconciled(self) -> bool:
        """Does what the scheduler does each minute; whether it could."""
        return self.lab.process("power", "reconcile").returncode == 0

    def out_of_use(self) -> set[str]:
        """The nodes that are down or drained."""
        listed = self.ask("sinfo", "-h", "-N", "-p", "nd", "-o", "%N %T").splitlines()
        return {line.split()[0] for line in listed if re.search("down|drain", line.split()[1])}

    def job(self, number: str) -> str:
        """The state of a job."""
        return self.ask("squeue", "-h", "-t", "all", "-j", number, "-o", "%T")

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for it; what Slurm has to say about its absence is the failure's text."""
        until(
            condition, lambda: self.ask("scontrol", "show", "node")[-2000:] + self.lab.log[-3000:]
        )


@pytest.fixture
def cluster(lab: Lab, munge: Path) -> Iterator[Cluster]:
    """The cluster, running."""
    cluster = Cluster(lab, munge)
    lab.azure.secret = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_job_that_lacks_nodes_keeps_none_awake_and_runs_once_there_is_capacity(
    cluster: Cluster,
) -> None:
    cluster.azure.room = 1
    cluster.ask("scontrol", "update", "nodename=nd-2", "state=drain", "reason=mine")
    job = cluster.ask(
        *("sbatch", "--parsable", "-p", "nd", "-N", "2", "--requeue", "-o", "out"),
        *("--wrap", "srun -l sh -c 'echo $SLURMD_NODENAME'; sleep 1"),
    )
    cluster.until(lambda: "no instance for nd-1" in cluster.lab.log)
    cluster.until(lambda: cluster.state("nd-1") == "down~")
    assert "AllocationFailed" in cluster.ask("scontrol", "show", "node", "nd-1")
    cluster.until(lambda: cluster.azure.instances == {})
    assert cluster.job(job) == "PENDING"
    cluster.azure.room = 5
    with opened(load(str(cluster.folder / "settings.json")), "nd") as registry:
        registry.hold.until = 0
    cluster.until(lambda: cluster.reconciled() and cluster.out_of_use() == {"nd-2"})
    cluster.until(lambda: cluster.job(job) == "COMPLETED")
    lines = (cluster.folder / "out").read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == ["0:", "1:"]
    assert len({line.split()[1] for line in lines}) == 2, "each on a node of its own"
    cluster.ask("scontrol", "update", "nodename=nd-0", "state=drain", "reason=mine")
    cluster.until(lambda: cluster.azure.instances == {})
    cluster.until(lambda: cluster.state("nd-1") == "idle~")
    assert cluster.azure.capacity == 0
    cluster.until(lambda: cluster.out_of_use() == {"nd-0", "nd-2"})


def test_a_node_that_is_taken_away_is_cloud_again_and_its_job_runs_elsewhere(
    cluster: Cluster,
) -> None:
    job = cluster.ask(
        *("sbatch", "--parsable", "-p", "nd", "--requeue", "--open-mode=append", "-o", "out"),
        *("--wrap", 'echo ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60'),
    )
    out = cluster.folder / "out"
    cluster.until(lambda: out.exists() and out.read_text() == "0\n")
    cluster._shut_down("0")
    cluster.azure.evict("0")
    assert cluster.lab.process("power", "reconcile").returncode == 0
    cluster.until(lambda: cluster.job(job) == "COMPLETED")
    assert (cluster.folder / "out").read_text().split() == ["0", "1"]
    assert sorted(cluster.azure.instances) == ["1"]


def test_a_job_outlives_the_change_of_the_munge_key(cluster: Cluster, munge: Path) -> None:
    """While machines have different keys none understands another: here, while munge is gone."""
    folder, out = munge.parent, cluster.folder / "out"
    words = ["munged", "--foreground", "--force", f"--socket={munge}"]
    words += [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
    go = cluster.folder / "go"
    os.mkfifo(go)
    text = f"echo before; read _ <{go}; srun --quiet echo after"
    job = cluster.ask("sbatch", "--parsable", "-p", "n", "-o", "out", "--wrap", text)
    cluster.until(lambda: out.exists() and out.read_text() == "before\n")
    os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
    cluster.until(lambda: not munge.exists())
    (folder / "key").unlink()
    (folder / "key").write_bytes(os.urandom(64))
    (folder / "key").chmod(0o400)
    log = cluster.folder / "slurm-log" / "slurmctld.log"
    cluster.until(lambda: "Munge encode failed" in log.read_text())
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as munged:
        try:
            cluster.until(munge.exists)
            assert cluster.job(job) == "RUNNING"
            go.write_text("\n")
            cluster.until(lambda: cluster.job(job) == "COMPLETED")
            assert out.read_text() == "before\nafter\n"
            assert "Restarts=0" in cluster.ask("scontrol", "show", "job", job)
            cluster.until(lambda: cluster.state("n-0") == "idle")
        finally:
            cluster.stop()
            munged.terminate()


def test_a_bad_node_takes_no_jobs_until_it_is_sound(cluster: Cluster, tmp_path: Path) -> None:
    check = tmp_path / "lib" / "slurm" / "health-check"
    sound = check.read_text()
    check.write_text(sound.replace("mounts=(/proc)", "mounts=(/proc /data)"))
    cluster.until(lambda: cluster.state("n-0") == "drained")
    assert "fairway: /data is not mounted" in cluster.ask("sinfo", "-h", "-n", "n-0", "-o", "%E")
    check.write_text(sound)
    cluster.until(lambda: cluster.state("n-0") == "idle")
    cluster.ask("scontrol", "update", "nodename=n-0", "state=drain", "reason=mine")
    looks = tmp_path / "looks"
    program, rest = sound.split("\n", 1)
    check.write_text(f"{program}\ntrap 'echo >>{looks}' EXIT\n{rest}")
    # The first may have begun before the node was drained.
    cluster.until(lambda: looks.exists() and looks.stat().st_size >= 2)
    assert cluster.state("n-0") == "drained", "what somebody drained stays drained"


def test_nodes_have_what_they_were_said_to_have(cluster: Cluster) -> None:
    shown = cluster.ask("scontrol", "-o", "show", "node", "n-0")
    assert "AvailableFeatures=ib,dedicated" in shown
    assert "Gres=gpu:h100:2(S:0-1)" in shown
    command = ("srun", "--gres=gpu:1", "--constraint=ib", "printenv", "SLURM_JOB_PARTITION")
    assert cluster.ask(*command) == "n"
    asked = ("sbatch", "--parsable", "--begin=now+1hour", "--wrap", "true")
    jobs = [cluster.ask(*asked, f"--nice={nice}") for nice in (0, 1000, 2000)]
    first, normal, last = (int(cluster.ask("squeue", "-h", "-j", j, "-o", "%Q")) for j in jobs)
    assert (first - normal, normal - last) == (1000, 1000), "priorities are kept apart"
    refused = cluster.run("srun", "--gres=gpu:3", "true")
    assert refused.returncode != 0, "a job that can never run is refused at once"


def test_no_job_spans_scale_sets(cluster: Cluster) -> None:
    """Also where a partition does that somebody has added."""
    shown = cluster.ask("scontrol", "show", "topology").splitlines()
    found = [re.sub(r"Level=0 LinkSpeed=\d+ ", "", line).strip() for line in shown]
    assert found == ["SwitchName=n Nodes=n-0", "SwitchName=nd Nodes=nd-[0-2]"]
    cluster.ask("scontrol", "create", "partitionname=all", "nodes=n-0,nd-[0-2]")
    refused = cluster.run("sbatch", "-p", "all", "-N", "4", "--wrap", "true")
    assert "Requested node configuration is not available" in refused.stderr
    job = cluster.ask("sbatch", "--parsable", "-p", "all", "-N", "3", "-o", "out", "--wrap", "true")
    cluster.until(lambda: cluster.job(job) == "COMPLETED")
    assert cluster.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%N") == "nd-[0-2]"


def test_mail_that_is_not_sent_is_said(cluster: Cluster) -> None:
    asked = ("--mail-type=BEGIN", "--mail-user=me@lab.example", "-o", "out", "-J", "train")
    cluster.ask("sbatch", "-p", "n", *asked, "--wrap", "true")
    log = cluster.folder / "lib" / "programs.log"
    cluster.until(lambda: log.exists() and log.read_text().endswith("\n"))
    said = log.read_text()
    assert "no mail to me@lab.example (" in said
    assert "Name=train" in said
    assert "notify: {mail: ...}" in said
    assert "MailProg" not in (cluster.folder / "slurm-log" / "slurmctld.log").read_text()


# What one machine without systemd, a database and Azure needs otherwise than the environment's
# own configuration has it: folders, ports, one address for all, and shorter times.
CHANGED = {
    *("AuthInfo", "SlurmUser", "SlurmctldPort", "StateSaveLocation", "SlurmdSpoolDir"),
    *("SlurmctldPidFile", "SlurmdPidFile", "SlurmctldLogFile", "SlurmdLogFile"),
    *("SlurmctldParameters", "SlurmdTimeout", "KillWait", "SchedulerParameters"),
    *("ProctrackType", "TaskPlugin", "JobAcctGatherType"),
    *("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort"),
    *("AccountingStoreFlags", "AccountingStorageTRES", "PriorityWeightFairshare"),
    *("PriorityWeightQOS", "Prolog", "Epilog", "HealthCheckProgram", "HealthCheckInterval"),
    "MailProg",
    *("ResumeProgram", "SuspendProgram", "ResumeFailProgram"),
    *("ResumeTimeout", "SuspendTimeout", "SuspendTime", "NodeName"),
}


class EnvironmentCluster(Cluster):
    """The configuration of stacks/environments/h100-slurm.yaml, under a real slurmctld."""

    def __init__(self, lab: Lab, munge: Path, environment: Path) -> None:
        loaded = load_environment(environment)
        assert loaded.scheduler is not None
        self.generated = slurm_cluster(
            loaded.name,
            loaded.scheduler,
            slurm_partitions(partitions_of(loaded)),
            host="localhost",
            address="127.0.0.1",
        )
        super().__init__(lab, munge)

    def _description(self, programs: dict[str, Path]) -> SlurmCluster:
        here = super()._description(programs)
        cloud, partitions, port = self.generated.cloud, [], self.port + 2
        assert cloud is not None
        assert here.cloud is not None
        for each in self.generated.partitions:
            gpus = each.gpus and replace(
                each.gpus, files=tuple(f"/dev/tty{n}" for n in range(len(each.gpus.files)))
            )
            partitions.append(replace(each, address="127.0.0.1", port=port, gpus=gpus))
            for number in range(each.count):
                (self.folder / f"spool.{each.name}-{number}").mkdir(exist_ok=True)
            port += each.count
        assert port <= self.port + 2 + _MOST_NODES
        return replace(
            self.generated,
            slurmctld_port=here.slurmctld_port,
            user=here.user,
            paths=here.paths,
            programs=replace(here.programs, prolog=str(programs["prolog"])),
            timing=here.timing,
            containment="none",
            configless=False,
            accounting=None,
            cloud=here.cloud,
            partitions=tuple(partitions),
        )

    def changed(self) -> set[str]:
        """The words of slurm.conf whose lines are others than those of the environment."""
        here = (self.folder / "etc/slurm.conf").read_text()
        texts = (here, render(self.generated)["slurm.conf"])
        lines = [
            {each for each in text.splitlines() if each[:1] not in ("", "#")} for text in texts
        ]
        return {line.partition("=")[0] for line in lines[0] ^ lines[1]}


def test_the_nodes_of_the_h100_environment_come_work_and_go(
    lab: Lab, munge: Path, repository: Path
) -> None:
    cluster = EnvironmentCluster(lab, munge, repository / "stacks/environments/h100-slurm.yaml")
    assert cluster.changed() <= CHANGED
    lab.azure.secret = "a" * 64
    try:
        cluster.start_scheduler()
        cluster.until(lambda: cluster.state("nd-0") == "idle~")
        lab.azure.faults.append(("PATCH /subscriptions", 409, {"Retry-After": "0"}))
        job = cluster.ask(
            *("sbatch", "--parsable", "-p", "nd", "-N", "2", "--exclusive", "--gres=gpu:8"),
            *("--constraint=ib", "-o", "out", "--wrap"),
            "srun -l sh -c 'echo $SLURMD_NODENAME'",
        )
        cluster.until(lambda: cluster.job(job) == "COMPLETED")
        lines = (cluster.folder / "out").read_text().split()
        assert sorted(lines) == ["0:", "1:", "nd-0", "nd-1"]
        # The Prolog has run: nodes are known by their names.
        hosts = (cluster.folder / "hosts").read_text()
        assert {"nd-0", "nd-1"} <= set(hosts.split())
        cluster.until(lambda: cluster.azure.instances == {})
        cluster.until(lambda: {cluster.state(f"nd-{n}") for n in range(2)} == {"idle~"})
        assert cluster.azure.capacity == 0
    finally:
        cluster.stop()

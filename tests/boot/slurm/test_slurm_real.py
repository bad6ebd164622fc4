"""Nodes that start, work and stop, with a real slurmctld and slurmd and the project's own files."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from waiting import until

from fairway_boot.slurm.node_registry import open_registry
from fairway_boot.slurm.settings import load
from fairway_constructs.clusters.slurm.configuration import slurm_cluster
from fairway_core import slurm
from fairway_core.environment import load_environment
from fairway_core.slurm import NodeFacts, Programs, install, render
from fairway_simulator.slurm import SlurmCluster, configuration
from fairway_simulator.slurm.scale_set import ID, ScaleSet
from fairway_stacks.boot_data import slurm_partitions

pytestmark = pytest.mark.nightly

Describe = Callable[[Path, slurm.SlurmCluster], slurm.SlurmCluster]


class Lab:
    """A cluster, the scale set of its nodes, and the output of jobs."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        nodes = cluster.nodes_of_cloud
        self.cluster, self.out = cluster, folder / "out"
        self.settings = nodes.folder / "settings.json"
        # Nodes without capacity are held until a test ends that.
        self.settings.write_text(json.dumps({**json.loads(self.settings.read_text()), "hold": 720}))
        self.scale_set: ScaleSet = nodes.scale_set
        self.environment = nodes._environment("settings.json")

    @property
    def log(self) -> str:
        """Text that the programs have logged."""
        file = self.settings.with_name("programs.log")
        return file.read_text() if file.exists() else ""

    def ask(self, *words: str) -> str:
        """Returns the output of one of Slurm's commands."""
        return self.cluster.run(*words).strip()

    def submit(self, script: str, *options: str) -> str:
        """Submits a job that prints into `out` and returns its id."""
        words = ("sbatch", "--parsable", f"--output={self.out}", "--open-mode=append", *options)
        return self.ask(*words, "--wrap", script)

    def state(self, node: str) -> str:
        """Returns a node's state as sinfo prints it: idle~ is a powered-down node of the cloud."""
        return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%T").partition("\n")[0]

    def reconcile(self) -> bool:
        """Reconciles as the scheduler does each minute. Returns True if that succeeded."""
        words = [sys.executable, "-B", "-m", "fairway_boot.slurm.power", "reconcile"]
        return finished(words, env=self.environment).returncode == 0

    def out_of_use(self) -> set[str]:
        """Returns the nodes that are down or drained."""
        listed = self.ask("sinfo", "-h", "-N", "-p", "cloud", "-o", "%N %T").splitlines()
        return {line.split()[0] for line in listed if re.search("down|drain", line.split()[1])}

    def job(self, number: str) -> str:
        """Returns the state of a job."""
        return self.ask("squeue", "-h", "-t", "all", "-j", number, "-o", "%T")

    def has_printed(self, text: str) -> bool:
        return self.out.exists() and self.out.read_text() == text

    def until(self, condition: Callable[[], object]) -> None:
        """Waits for the condition; a failure shows Slurm's nodes and the log."""
        until(condition, lambda: self.ask("scontrol", "show", "node")[-2000:] + self.log[-3000:])


@pytest.fixture
def start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_slurm: None
) -> Iterator[Callable[..., Lab]]:
    """Yields a function that starts a cluster after a function has changed its usual
    description."""
    usual = configuration.describe
    with ExitStack() as clusters:

        def begin(describe: Describe, **facts: Any) -> Lab:
            def described(folder: Path, **more: Any) -> slurm.SlurmCluster:
                return describe(folder, usual(folder, **more))

            monkeypatch.setattr(configuration, "describe", described)
            return Lab(clusters.enter_context(SlurmCluster(**facts)), tmp_path)

        yield begin


def programs_in(folder: Path) -> Programs:
    """Installs a node's programs, which check if /proc is mounted; without a Prolog."""
    facts = NodeFacts(folders=(), mounts=("/proc",))
    conf = str(folder / "etc" / "slurm.conf")
    own = folder / "programs"
    made = install(own, settings="", python=sys.executable, facts=facts, slurm_conf=conf)
    return Programs(
        prolog="",
        epilog=str(made["epilog"]),
        health_check=str(made["health-check"]),
        health_check_seconds=5,  # more often, slurmctld would hardly ping nodes that are gone
        mail=str(made["mail"]),
    )


@pytest.fixture
def lab(start: Callable[..., Lab]) -> Lab:
    """Returns a cluster with one permanent node with two GPUs, and three nodes of the cloud."""

    def describe(folder: Path, usual: slurm.SlurmCluster) -> slurm.SlurmCluster:
        kept, cloud = usual.partitions
        facts: dict[str, Any] = {"sockets": 2, "cores_per_socket": 2, "features": ("ib", "mine")}
        kept = replace(kept, gpus=replace(kept.gpus, numa=(1, 0)), **facts)
        return replace(usual, partitions=(kept, cloud), programs=programs_in(folder))

    return start(describe, nodes=1, cloud=3, gpus=2)


def test_slurm_real_job_without_capacity_keeps_no_node_up_and_runs_later(lab: Lab) -> None:
    lab.scale_set.plane.compute.room = 1
    lab.ask("scontrol", "update", "nodename=cloud-2", "state=drain", "reason=mine")
    job = lab.submit(
        "srun -l sh -c 'echo $SLURMD_NODENAME'; sleep 1", "-p", "cloud", "-N", "2", "--requeue"
    )
    lab.until(lambda: "no instance for cloud-1" in lab.log)
    lab.until(lambda: lab.state("cloud-1") == "down~")
    assert "AllocationFailed" in lab.ask("scontrol", "show", "node", "cloud-1")
    lab.until(lambda: not lab.scale_set.instances)
    assert lab.job(job) == "PENDING"
    lab.scale_set.plane.compute.room = 5
    with open_registry(load(str(lab.settings)), "cloud") as registry:
        registry.hold.until = 0
    lab.until(lambda: lab.reconcile() and lab.out_of_use() == {"cloud-2"})
    lab.until(lambda: lab.job(job) == "COMPLETED")
    lines = lab.out.read_text().splitlines()
    assert sorted(line.split()[0] for line in lines) == ["0:", "1:"]
    assert len({line.split()[1] for line in lines}) == 2, "each on a node of its own"
    lab.ask("scontrol", "update", "nodename=cloud-0", "state=drain", "reason=mine")
    lab.until(lambda: not lab.scale_set.instances)
    lab.until(lambda: lab.state("cloud-1") == "idle~")
    assert lab.scale_set.capacity == 0
    lab.until(lambda: lab.out_of_use() == {"cloud-0", "cloud-2"})


def test_slurm_real_job_of_an_evicted_node_runs_on_another(lab: Lab) -> None:
    script = 'echo ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60'
    job = lab.submit(script, "-p", "cloud", "--requeue")
    lab.until(lambda: lab.has_printed("0\n"))
    [first] = lab.scale_set.instances
    lab.scale_set.plane.compute.evict(ID, int(first))
    assert lab.reconcile()
    lab.until(lambda: lab.job(job) == "COMPLETED")
    assert lab.has_printed("0\n1\n")
    [second] = lab.scale_set.instances
    assert second != first


def test_slurm_real_job_survives_a_change_of_the_munge_key(lab: Lab, tmp_path: Path) -> None:
    """Machines with different keys do not understand each other: here, munge is down meanwhile."""
    go, cluster = tmp_path / "go", lab.cluster
    os.mkfifo(go)
    job = lab.submit(f"echo before; read _ <{go}; srun --quiet echo after", "-p", "sim")
    lab.until(lambda: lab.has_printed("before\n"))
    cluster._daemons.pop("munged").stop()
    log = cluster.folder / "log" / "slurmctld.log"
    lab.until(lambda: "Munge encode failed" in log.read_text())
    cluster._start_munge()  # with another key
    assert lab.job(job) == "RUNNING"
    go.write_text("\n")
    lab.until(lambda: lab.job(job) == "COMPLETED")
    assert lab.has_printed("before\nafter\n")
    assert "Restarts=0" in lab.ask("scontrol", "show", "job", job)
    lab.until(lambda: lab.state("sim-0") == "idle")


def test_slurm_real_unhealthy_node_is_drained_until_it_is_healthy(lab: Lab, tmp_path: Path) -> None:
    check = Path(lab.cluster.description.programs.health_check)
    sound = check.read_text()
    check.write_text(sound.replace("mounts=(/proc)", "mounts=(/proc /data)"))
    lab.until(lambda: lab.state("sim-0") == "drained")
    assert "fairway: /data is not mounted" in lab.ask("sinfo", "-h", "-n", "sim-0", "-o", "%E")
    check.write_text(sound)
    lab.until(lambda: lab.state("sim-0") == "idle")
    lab.ask("scontrol", "update", "nodename=sim-0", "state=drain", "reason=mine")
    looks = tmp_path / "looks"
    program, rest = sound.split("\n", 1)
    check.write_text(f"{program}\ntrap 'echo >>{looks}' EXIT\n{rest}")
    # The first check may have begun before the node was drained.
    lab.until(lambda: looks.exists() and looks.stat().st_size >= 2)
    assert lab.state("sim-0") == "drained", "what somebody drained stays drained"


NEVER = "Requested node configuration is not available"


def test_slurm_real_nodes_have_their_configured_features_gpus_and_priorities(lab: Lab) -> None:
    shown = lab.ask("scontrol", "-o", "show", "node", "sim-0")
    assert "AvailableFeatures=ib,mine" in shown
    assert "Gres=gpu:sim:2(S:0-1)" in shown
    command = ("srun", "--gres=gpu:1", "--constraint=ib", "printenv", "SLURM_JOB_PARTITION")
    assert lab.ask(*command) == "sim"
    jobs = [lab.submit("true", "--begin=now+1hour", f"--nice={nice}") for nice in (0, 1000, 2000)]
    first, normal, last = (int(lab.ask("squeue", "-h", "-j", j, "-o", "%Q")) for j in jobs)
    assert (first - normal, normal - last) == (1000, 1000), "priorities are kept apart"
    with pytest.raises(AssertionError, match=NEVER):  # a job that can never run is refused at once
        lab.ask("srun", "--gres=gpu:3", "true")


def test_slurm_real_job_never_spans_scale_sets(lab: Lab) -> None:
    """Not even in a partition across scale sets that a user has added."""
    shown = lab.ask("scontrol", "show", "topology").splitlines()
    found = {re.sub(r"Level=0 LinkSpeed=\d+ ", "", line).strip() for line in shown}
    assert found == {"SwitchName=sim Nodes=sim-0", "SwitchName=cloud Nodes=cloud-[0-2]"}
    lab.ask("scontrol", "create", "partitionname=all", "nodes=sim-0,cloud-[0-2]")
    with pytest.raises(AssertionError, match=NEVER):
        lab.submit("true", "-p", "all", "-N", "4")
    job = lab.submit("true", "-p", "all", "-N", "3")
    lab.until(lambda: lab.job(job) == "COMPLETED")
    assert lab.ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%N") == "cloud-[0-2]"


def test_slurm_real_mail_that_is_not_sent_is_logged(lab: Lab) -> None:
    lab.submit("true", "--mail-type=BEGIN", "--mail-user=me@lab.example", "-J", "train")
    log = lab.cluster.folder / "programs" / "programs.log"
    lab.until(lambda: log.exists() and log.read_text().endswith("\n"))
    said = log.read_text()
    assert "no mail to me@lab.example (" in said
    assert "Name=train" in said
    assert "notify: {mail: ...}" in said
    assert "MailProg" not in (lab.cluster.folder / "log" / "slurmctld.log").read_text()


# Settings in which one machine without systemd, a database and Azure differs from the environment's
# own configuration: folders, ports, one address for all, and shorter times.
CHANGED = {
    *("AuthInfo", "SlurmUser", "SlurmctldPort", "StateSaveLocation", "SlurmdSpoolDir"),
    *("SlurmctldPidFile", "SlurmdPidFile", "SlurmctldLogFile", "SlurmdLogFile"),
    *("SlurmctldParameters", "SlurmdTimeout", "KillWait", "SchedulerParameters"),
    *("ProctrackType", "TaskPlugin", "JobAcctGatherType"),
    *("AccountingStorageType", "AccountingStorageHost", "AccountingStoragePort"),
    *("AccountingStoreFlags", "AccountingStorageTRES", "PriorityWeightFairshare"),
    *("PriorityWeightQOS", "Prolog", "Epilog", "HealthCheckProgram", "HealthCheckInterval"),
    *("MailProg", "MessageTimeout", "MinJobAge", "TmpFS"),
    *("ResumeProgram", "SuspendProgram", "ResumeFailProgram"),
    *("ResumeTimeout", "SuspendTimeout", "SuspendTime", "NodeName"),
}


def test_slurm_real_nodes_of_the_h100_environment_start_work_and_stop(
    start: Callable[..., Lab], tmp_path: Path, repository: Path
) -> None:
    """The configuration of stacks/environments/h100-slurm.yaml, whose partition `nd` is `cloud`."""
    text = (repository / "stacks/environments/h100-slurm.yaml").read_text()
    (tmp_path / "h100.yaml").write_text(re.sub("^  nd:$", "  cloud:", text, flags=re.MULTILINE))
    loaded = load_environment(tmp_path / "h100.yaml")
    partitions = slurm_partitions(loaded.partitions)
    place = {"host": "localhost", "address": "127.0.0.1"}
    generated = slurm_cluster(loaded.name, loaded.scheduler, partitions, **place)
    hosts, first = tmp_path / "hosts", tmp_path / "none"
    hosts.write_text("127.0.0.1 localhost\n")

    def describe(folder: Path, usual: slurm.SlurmCluster) -> slurm.SlurmCluster:
        programs, partitions = programs_in(folder), []
        # slurmd gives its Prolog no environment; and the hosts file is not this machine's.
        prolog = Path(programs.epilog).with_name("prolog")
        own = prolog.rename(prolog.with_suffix(".own"))
        known = f"SLURM_CONF={folder}/etc/slurm.conf FAIRWAY_HOSTS_FILE={hosts}"
        executable(prolog, f"export {known} FAIRWAY_FIRST_FILE={first}\nexec {own}")
        for each in generated.partitions:
            files = each.gpus and tuple(f"/dev/tty{n}" for n in range(len(each.gpus.files)))
            gpus = each.gpus and replace(each.gpus, files=files)
            address, port = usual.partitions[-1].address, usual.partitions[-1].port
            if each.name != "cloud":  # these are never started
                address, port = "127.0.0.1", 1
            partitions.append(replace(each, address=address, port=port, gpus=gpus))
        return replace(
            usual,
            name=generated.name,
            programs=replace(programs, prolog=str(prolog)),
            packages=generated.packages,
            max_array_size=generated.max_array_size,
            partitions=tuple(partitions),
        )

    lab = start(describe, nodes=0, cloud=8)
    texts = (render(each)["slurm.conf"] for each in (lab.cluster.description, generated))
    here, there = ({each for each in text.splitlines() if each[:1] not in "#"} for text in texts)
    assert {line.partition("=")[0] for line in here ^ there} <= CHANGED
    lab.until(lambda: lab.state("cloud-0") == "idle~")
    options = ("-p", "cloud", "-N", "2", "--exclusive", "--gres=gpu:8", "--constraint=ib")
    job = lab.submit("srun -l sh -c 'echo $SLURMD_NODENAME'", *options)
    lab.until(lambda: lab.job(job) == "COMPLETED")
    assert sorted(lab.out.read_text().split()) == ["0:", "1:", "cloud-0", "cloud-1"]
    # The Prolog has run: nodes are known by their names.
    assert {"cloud-0", "cloud-1"} <= set(hosts.read_text().split())
    lab.until(lambda: not lab.scale_set.instances)
    lab.until(lambda: {lab.state(f"cloud-{n}") for n in range(2)} == {"idle~"})
    assert lab.scale_set.capacity == 0

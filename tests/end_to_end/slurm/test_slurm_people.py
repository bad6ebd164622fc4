"""Two people with accounts of their own on one cluster: what each sees, and what not."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway
from programs import finished
from registries import OPTIONS, Registry
from serving import in_thread
from team import NAMES, Team, accounts
from vaults import FakeVault
from waiting import until

from fairway_boot.identity import Secret
from fairway_boot.slurm.people import secret_server
from fairway_simulator.slurm import People, SlurmCluster


@pytest.fixture
def team(slurm_needed: None) -> Iterator[Team]:
    """A cluster of two nodes with the accounts."""
    with accounts() as folder:
        people = People(folder / "etc", NAMES)
        with SlurmCluster(nodes=2, people=people) as cluster:
            yield Team(folder, cluster, cluster.target, cluster.login.alias)


@pytest.fixture
def secrets_service() -> Iterator[None]:
    """The program that reads secrets in people's place, where a node has it."""
    folder = Path("/run/fairway-secrets")
    names = {30001 + number: name for number, name in enumerate(NAMES)}
    vault = FakeVault({"wandb": Secret("a-key-of-adas", {"fairway-users": "ada"})})
    folder.mkdir()
    try:
        with in_thread(secret_server(folder / "socket", vault, names.__getitem__)):
            yield
    finally:
        shutil.rmtree(folder)


def _wait_until_it_runs(fairway: Fairway, run: str, **environment: str) -> None:
    def left() -> str:
        state: str = json.loads(fairway("show", run, "--json", **environment).stdout)["state"]
        return state.replace("queued", "")

    if until(left) != "running":
        pytest.fail(fairway("logs", run, **environment).stdout)


def test_slurm_people_cannot_read_files_of_others_and_list_own_runs_only(
    team: Team, fairway: Fairway, tmp_path: Path
) -> None:
    runs, environments = {}, {}
    for name in NAMES:
        fairway.folder = team.project(name, tmp_path / name)
        environments[name] = {"FAIRWAY_SSH_CONFIG": str(team.config(name))}
        job = fairway.job(
            'echo "by $(id -un)"; echo mine >$FAIRWAY_SHARED_DIR/secret; '
            "until [ -e ~/go ]; do sleep 0.1; done",
            template="plain",
        )
        runs[name] = fairway.submit(job, "--target", "slurm-sim", **environments[name])
    for name in NAMES:
        fairway.folder = tmp_path / name
        _wait_until_it_runs(fairway, runs[name], **environments[name])

    # Slurm tells them apart, and lets each end nobody's jobs but their own.
    queue = team.ssh("bob", "squeue -h -o %u").stdout.split()
    assert sorted(queue) == ["ada", "bob"]
    jobs = team.ssh("bob", "squeue -h -u ada -o '%u %i'").stdout.split()
    assert jobs[0] == "ada"
    assert len(jobs) == 2
    assert "Access/permission denied" in team.ssh("bob", f"scancel {jobs[1]}").stderr

    # Fairway shows each their own, also where it knows of no run yet.
    for name in NAMES:
        fairway.folder = team.project(name, tmp_path / f"{name}-again")
        listed = fairway("list", "--target", "slurm-sim", "--json", **environments[name])
        assert [each["run_id"] for each in json.loads(listed.stdout)] == [runs[name]]

    # Neither the files of the other nor the key is in reach.
    key = team.cluster.folder / "munge" / "key"
    for what in (f"ls {team.homes}/ada", f"cat {team.homes}/ada/fairway/runs/*/*", f"cat {key}"):
        peeked = team.ssh("bob", what)
        assert peeked.returncode != 0
        assert "Permission denied" in peeked.stderr
        assert not peeked.stdout
    own = team.ssh("ada", f"cat {team.homes}/ada/fairway/runs/*/shared/secret")
    assert own.stdout == "mine\n"
    for name in NAMES:
        team.ssh(name, "touch ~/go")
    for name in NAMES:
        fairway.folder = tmp_path / name
        logs = fairway("logs", "--follow", runs[name], **environments[name])
        assert (logs.returncode, logs.stdout) == (0, f"by {name}\n"), logs.stderr


@pytest.mark.usefixtures("secrets_service")
def test_a_secret_reaches_the_job_of_whom_it_names_and_nobody_elses(
    team: Team, fairway: Fairway, tmp_path: Path
) -> None:
    said = {}
    for name in NAMES:
        vault = {"vault_url": "https://lab.vault.azure.net"}
        fairway.folder = team.project(name, tmp_path / name, **vault)
        job = fairway.job(
            'printf %s "$WANDB_API_KEY" | wc -c; echo "it is $WANDB_API_KEY"',
            template="plain",
            secrets={"WANDB_API_KEY": "keyvault:wandb"},
        )
        own = {"FAIRWAY_SSH_CONFIG": str(team.config(name))}
        done = fairway("submit", job, "--target", "slurm-sim", "--watch", **own)
        said[name] = (done.returncode, done.stdout + done.stderr)
    code, text = said["ada"]
    assert code == 0, text
    assert "13\nit is ***\n" in text
    code, text = said["bob"]
    assert code != 0
    assert "it is not for bob: its tag `fairway-users` names who may read it" in text
    found = finished(["grep", "-rl", "a-key-of-adas", str(team.folder), str(tmp_path)])
    assert found.stdout == "", "in no file"


def test_a_person_without_the_rights_of_docker_runs_containers_as_themselves(
    team: Team, fairway: Fairway, lab: Registry, tmp_path: Path
) -> None:
    lab.allow(team.folder / "etc")
    assert team.ssh("ada", f"srun sh -c {shlex.quote(lab.login)}").returncode == 0
    own = {"FAIRWAY_SSH_CONFIG": str(team.config("ada"))}
    fairway.folder = team.project("ada", tmp_path / "ada")
    job = fairway.job(
        "echo $(id -u) on $(hostname): $(cat /proc/self/uid_map); cat /etc/of-another; "
        "ls -n /etc/of-another; touch $FAIRWAY_SHARED_DIR/$FAIRWAY_NODE_RANK",
        template="every-node",
        nodes=2,
        container={"image": lab.image, "options": OPTIONS},
    )
    for _ in range(2):
        done = fairway.ok("submit", job, "--target", "slurm-sim", "--watch", **own)
        for node in team.cluster.node_names():
            assert f"0 on {node}: 0 30001 1 1 " in done
    assert lab.pulls == 2, "once a node"
    made = [path.stat().st_uid for path in team.homes.glob("ada/fairway/runs/*/shared/*")]
    assert made == [30001] * 4


def test_what_a_container_has_started_ends_with_its_task(
    team: Team, fairway: Fairway, lab: Registry, tmp_path: Path
) -> None:
    lab.allow(team.folder / "etc")
    assert team.ssh("ada", f"srun sh -c {shlex.quote(lab.login)}").returncode == 0
    own = {"FAIRWAY_SSH_CONFIG": str(team.config("ada"))}
    fairway.folder = team.project("ada", tmp_path / "ada")
    job = fairway.job(
        "setsid sleep 7654 & trap 'echo saved; exit 3' TERM; "
        "touch $FAIRWAY_SHARED_DIR/up; while true; do sleep 0.1; done",
        template="plain",
        container={"image": lab.image, "options": OPTIONS},
    )
    run = fairway.submit(job, "--target", "slurm-sim", **own)
    until((team.homes / f"ada/fairway/runs/{run}/shared/up").exists)
    assert _of_ada("sleep 7654")
    assert fairway("cancel", run, **own).returncode == 0
    assert fairway("wait", run, **own).returncode == 130
    assert "saved" in fairway("logs", run, **own).stdout
    until(lambda: not _of_ada("sleep 7654"))
    until(lambda: not _of_ada("conmon --api-version"))


def _of_ada(command: str) -> list[str]:
    """Her processes, on any node, whose command lines have this text."""
    words = ["ps", "-u", "30001", "-o", "args="]
    listed = finished(words)
    return [line for line in listed.stdout.splitlines() if command in line]

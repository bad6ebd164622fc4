"""Two users with their own accounts on one cluster: what each can see, and what not."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway
from programs import finished
from registries import Registry
from serving import in_thread
from team import NAMES, Team, accounts, check_containers
from vaults import FakeVault
from waiting import until

from fairway_boot.identity import Secret
from fairway_boot.slurm.people import secret_server
from fairway_simulator.slurm import People, SlurmCluster


@pytest.fixture
def team(slurm_needed: None) -> Iterator[Team]:
    """A cluster of two nodes with the users' accounts."""
    with accounts() as folder:
        people = People(folder / "etc", NAMES)
        with SlurmCluster(nodes=2, people=people) as cluster:
            yield Team(folder, cluster, cluster.target, cluster.login.alias)


@pytest.fixture
def secrets_service() -> Iterator[None]:
    """The service that reads secrets on behalf of users, at its path on a node."""
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
        return str(fairway.show(run, **environment)["state"]).replace("queued", "")

    if until(left) != "running":
        pytest.fail(fairway.within("logs", run, **environment).stdout)


def test_slurm_users_see_their_own_runs_only_and_no_files_of_others(
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

    # Slurm knows the jobs' owners, and each user can cancel only their own jobs.
    assert sorted(team.ssh("bob", "squeue -h -o %u").stdout.split()) == ["ada", "bob"]
    jobs = team.ssh("bob", "squeue -h -u ada -o '%u %i'").stdout.split()
    assert jobs[0] == "ada"
    assert len(jobs) == 2
    assert "Access/permission denied" in team.ssh("bob", f"scancel {jobs[1]}").stderr

    # Fairway shows each user their own runs, even from a folder that knows none yet.
    for name in NAMES:
        fairway.folder = team.project(name, tmp_path / f"{name}-again")
        listed = fairway.within("list", "--target", "slurm-sim", "--json", **environments[name])
        assert [each["run_id"] for each in json.loads(listed.stdout)] == [runs[name]]

    # Neither the other user's files nor the key can be read.
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
        logs = fairway.within("logs", "--follow", runs[name], **environments[name])
        assert (logs.returncode, logs.stdout) == (0, f"by {name}\n"), logs.stderr


@pytest.mark.usefixtures("secrets_service")
def test_slurm_users_get_a_secret_only_if_its_tag_names_them(
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
        done = fairway.within("submit", job, "--target", "slurm-sim", "--watch", **own)
        said[name] = (done.returncode, done.stdout + done.stderr)
    code, text = said["ada"]
    assert code == 0, text
    assert "13\nit is ***\n" in text
    code, text = said["bob"]
    assert code != 0
    assert "it is not for bob: its tag `fairway-users` names who may read it" in text
    found = finished(["grep", "-rl", "a-key-of-adas", str(team.folder), str(tmp_path)])
    assert found.stdout == "", "in no file"


def test_slurm_users_run_their_own_podman_containers_that_end_with_the_task(
    team: Team, fairway: Fairway, lab: Registry, tmp_path: Path
) -> None:
    check_containers(team, fairway, lab, tmp_path / "ada", f"srun sh -c {shlex.quote(lab.login)}")

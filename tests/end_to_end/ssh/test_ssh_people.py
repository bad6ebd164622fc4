"""Two users with their own accounts on a cluster of two nodes without a scheduler."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway
from registries import Registry
from team import NAMES, Team, accounts, check_containers
from waiting import until

from fairway_simulator.machines import People
from fairway_simulator.ssh.cluster import SshCluster, missing


@pytest.fixture
def team() -> Iterator[Team]:
    """Two nodes with the users' accounts."""
    if lacking := missing():
        pytest.skip(lacking)
    with accounts(queue="pair") as folder:
        people, queue = People(folder / "etc", NAMES), folder / "data" / "fairway-queue"
        with SshCluster(folder / "cluster", ["n1", "n2"], people=people, queue=queue) as cluster:
            yield Team(folder, cluster, cluster.target(), "n1")


def test_ssh_users_share_one_queue_and_cannot_read_files_of_others(
    team: Team, fairway: Fairway, tmp_path: Path
) -> None:
    own = {name: {"FAIRWAY_SSH_CONFIG": str(team.config(name))} for name in NAMES}
    runs = {}
    held = 'echo "by $(id -un)"; echo mine >$FAIRWAY_SHARED_DIR/secret; '
    held += "until [ -e ~/go ]; do sleep 0.1; done"
    for name, nodes, command in (("ada", 2, held), ("bob", 1, 'echo "by $(id -un)"')):
        fairway.folder = team.project(name, tmp_path / name)
        job = fairway.job(command, template="every-node", nodes=nodes)
        runs[name] = fairway.submit(job, "--target", "pair", **own[name])
        if name == "ada":
            until(lambda: fairway.show(runs["ada"], **own["ada"])["state"] != "queued")
    # Ada's run has both nodes, and bob's run reports that.
    why = f"waits for 1 node: 0 free of 2 that are up; {runs['ada']} uses 2"
    until(lambda: fairway.show(runs["bob"], **own["bob"])["reason"] == why)
    listed = fairway.within("nodes", "list", "pair", "--json", **own["bob"])
    found = [(each["state"], each["run"]) for each in json.loads(listed.stdout)]
    assert found == [("busy", runs["ada"])] * 2

    for what in (f"ls {team.homes}/ada", f"cat {team.homes}/ada/fairway/runs/*/shared/secret"):
        peeked = team.ssh("bob", what)
        assert "Permission denied" in peeked.stderr
        assert not peeked.stdout
    # Nor can bob kill her processes, become another user, or announce hosts for her jobs.
    assert "not permitted" in team.ssh("bob", "pkill -u ada").stderr
    assert team.ssh("bob", "id -u").stdout == team.ssh("bob", "id -u", "n2").stdout == "30002\n"
    evil = f"echo 10.0.0.66 >{team.cluster.announcements}/evil"
    assert "Permission denied" in team.ssh("bob", evil).stderr

    team.ssh("ada", "touch ~/go")
    for name, count in (("ada", 2), ("bob", 1)):
        fairway.folder = tmp_path / name
        logs = fairway.within("logs", "--follow", runs[name], **own[name])
        assert (logs.returncode, logs.stdout) == (0, f"by {name}\n" * count), logs.stderr


@pytest.mark.nightly
def test_ssh_users_get_the_nodes_of_a_lost_run_of_another_user(
    team: Team, fairway: Fairway, tmp_path: Path
) -> None:
    """The lost run's entry in the queue does not hold them either."""
    own = {name: {"FAIRWAY_SSH_CONFIG": str(team.config(name))} for name in NAMES}
    fairway.folder = team.project("ada", tmp_path / "ada")
    job = fairway.job("echo up; exec sleep 600", template="plain", nodes=1)
    run = fairway.submit(job, "--target", "pair", **own["ada"])
    until(lambda: fairway.show(run, **own["ada"])["state"] != "queued")
    team.ssh("ada", "pkill -KILL -f 'fairway_agent.ssh.run[s] /'")
    fairway.folder = team.project("bob", tmp_path / "bob")
    job = fairway.job("id -un", template="every-node", nodes=2)
    watched = fairway.ok("submit", job, "--target", "pair", "--watch", **own["bob"])
    assert watched.count("bob\n") == 2
    fairway.folder = tmp_path / "ada"
    assert fairway.show(run, **own["ada"])["state"] == "lost"
    team.ssh("ada", "pkill sleep")


def test_ssh_users_run_their_own_podman_containers_that_end_with_the_task(
    team: Team, fairway: Fairway, lab: Registry, tmp_path: Path
) -> None:
    check_containers(team, fairway, lab, tmp_path / "ada", lab.login)

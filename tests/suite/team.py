"""Two users with accounts on the nodes of a cluster, and a machine of their own."""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from program import Fairway
from programs import finished
from registries import OPTIONS, Registry
from waiting import PATIENCE, until

from fairway_constructs.cloud_init.people import Accounts
from fairway_core.environment import Person
from fairway_core.environment.filesystems.home_directories import HomeDirectories, SharedQueue
from fairway_core.target import Target

NAMES = ("ada", "bob")
"""The names of the accounts, whose user ids are 30001 and 30002."""

# Runs the setup script in a mount namespace: it writes to folders of the test only.
_SPACE = """
mount --bind "$1/etc" /etc
mount --bind "$1/sbin" /usr/local/sbin
mount -t tmpfs none /usr/local/bin
mount --bind "$1/data" "$1/data"
mount -t tmpfs none /var/tmp
export PATH="$1/bin:$PATH"
useradd --no-create-home azureuser
bash "$1/setup"
/usr/local/sbin/fairway-people
/usr/local/sbin/fairway-people
"""


@dataclass
class Team:
    """The cluster, the target that leads to it, and the host where users log in."""

    folder: Path
    cluster: Any
    target: dict[str, Any]
    host: str

    @property
    def homes(self) -> Path:
        """The folder of home directories, on the file system that all nodes share."""
        return self.folder / "data" / "home"

    def config(self, name: str) -> Path:
        """Writes and returns the user's ssh configuration."""
        file = self.folder / f"{name}.ssh"
        text = Path(self.cluster.environment["FAIRWAY_SSH_CONFIG"]).read_text()
        file.write_text(re.sub("IdentityFile .*", f"IdentityFile {self.folder / name}", text))
        return file

    def ssh(self, name: str, command: str, host: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command on a host as that user."""
        words = ["ssh", "-F", str(self.config(name)), f"{name}@{host or self.host}", command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def project(self, name: str, folder: Path, **fields: str) -> Path:
        """Makes a folder from which the user submits, as after `targets sync --user NAME`."""
        homes = {each: str(self.homes / each / "fairway") for each in NAMES}
        record = {**self.target, "users": homes, **fields}
        target = Target.model_validate(record).as_user(name)
        folder.mkdir()
        (folder / "fairway.yaml").write_text(json.dumps({"targets": [target.record()]}))
        return folder


@contextmanager
def accounts(queue: str = "") -> Iterator[Path]:
    """Makes a folder whose `etc` has the accounts as the environment's own program sets them up.
    With the name of a queue, it also has that queue's folder `data/fairway-queue`."""
    with TemporaryDirectory(prefix="fairway-team-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # The accounts do not need a file that disappears while /etc is copied.
        with contextlib.suppress(shutil.Error):
            shutil.copytree("/etc", folder / "etc", symlinks=True)
        for part in ("sbin", "bin", "data"):
            (folder / part).mkdir()
        (folder / "data").chmod(0o1777)
        (folder / "bin" / "systemctl").symlink_to("/bin/true")
        people, data = [], str(folder / "data")
        for number, person in enumerate(NAMES):
            key = folder / person
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", person, "-f", key]
            subprocess.run(words, check=True)
            public = key.with_suffix(".pub").read_text().strip()
            people.append(Person(name=person, keys=(public,), uid=30001 + number))
        made = Accounts(
            people=people,
            homes=HomeDirectories(f"{data}/home", data),
            queue=SharedQueue(queue, f"{data}/fairway-queue", data) if queue else None,
            containers=shutil.which("podman") is not None,
        )
        (folder / "setup").write_text(made.setup_script())
        words = ["unshare", "--mount", "bash", "-euc", _SPACE, "bash", str(folder)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        yield folder


def check_containers(team: Team, fairway: Fairway, lab: Registry, folder: Path, login: str) -> None:
    """Runs ada's jobs on two nodes, in containers of an image that needs a login: the containers
    are her own, each node pulls once, and their processes end with a cancelled task."""
    lab.allow(team.folder / "etc")
    assert team.ssh("ada", login).returncode == 0
    own = {"FAIRWAY_SSH_CONFIG": str(team.config("ada"))}
    fairway.folder = team.project("ada", folder)
    sleep = f"sleep {7000 + os.getpid() % 2000}"  # unique to this test
    fields = {"template": "every-node", "nodes": 2}
    fields["container"] = {"image": lab.image, "options": OPTIONS}
    whose = "echo it is $(id -u): $(cat /proc/self/uid_map); cat /etc/of-another"
    for word in ("first", "again"):
        job = fairway.job(f"{whose}; ls -n /etc/of-another", f"{word}.yaml", **fields)
        done = fairway.ok("submit", job, "--target", team.target["name"], "--watch", **own)
        assert done.count("it is 0: 0 30001 1 1 ") == 2
    job = fairway.job(
        f"setsid {sleep} & trap 'trap : TERM; echo saved by $(id -u); exit 3' TERM; "
        "touch $FAIRWAY_SHARED_DIR/$FAIRWAY_NODE_RANK; while true; do sleep 0.1; done",
        **fields,
    )
    run = fairway.submit(job, "--target", team.target["name"], **own)
    shared = team.homes / f"ada/fairway/runs/{run}/shared"
    for rank in ("0", "1"):
        until((shared / rank).exists)
        assert (shared / rank).stat().st_uid == 30001
    assert lab.pulls == 2, "once a node"
    assert _of_ada(sleep)
    assert fairway("cancel", run, **own).returncode == 0
    assert fairway("wait", run, **own).returncode == 130
    logged = fairway("logs", run, **own).stdout
    assert logged.count("saved by 0") == 2, logged
    until(lambda: not _of_ada(sleep) and not _of_ada("conmon --api-version"))


def _of_ada(command: str) -> list[str]:
    """Returns ada's processes, on any node, whose command lines contain this text."""
    listed = finished(["ps", "-u", "30001", "-o", "args="])
    return [line for line in listed.stdout.splitlines() if command in line]

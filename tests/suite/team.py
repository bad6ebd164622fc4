"""Two people with accounts of their own on the nodes of a cluster, and a machine of their own."""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from waiting import PATIENCE

from fairway_constructs.cloud_init.people import Accounts
from fairway_core.environment import Person
from fairway_core.environment.filesystems import Homes, SharedQueue
from fairway_core.target import Target

NAMES = ("ada", "bob")
"""Of the accounts, whose numbers are 30001 and 30002."""

# What the setup script writes outside of /etc goes to a folder of the test's; each node does it.
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
    """The cluster, the target that leads to it, and the host that people log in to."""

    folder: Path
    cluster: Any
    target: dict[str, Any]
    host: str

    @property
    def homes(self) -> Path:
        """On the file system that all nodes have."""
        return self.folder / "data" / "home"

    def config(self, name: str) -> Path:
        """The person's ssh configuration."""
        file = self.folder / f"{name}.ssh"
        text = Path(self.cluster.environment["FAIRWAY_SSH_CONFIG"]).read_text()
        file.write_text(re.sub("IdentityFile .*", f"IdentityFile {self.folder / name}", text))
        return file

    def ssh(self, name: str, command: str, host: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command on a host as that person."""
        words = ["ssh", "-F", str(self.config(name)), f"{name}@{host or self.host}", command]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def project(self, name: str, folder: Path, **fields: str) -> Path:
        """A folder from which the person submits, as after `targets sync --user NAME`."""
        homes = {each: str(self.homes / each / "fairway") for each in NAMES}
        record = {**self.target, "users": homes, **fields}
        target = Target.model_validate(record).as_user(name)
        folder.mkdir()
        (folder / "fairway.yaml").write_text(json.dumps({"targets": [target.record()]}))
        return folder


@contextmanager
def accounts(queue: str = "") -> Iterator[Path]:
    """A folder whose `etc` has the accounts as the environment's own program has made them; with
    the folder `data/fairway-queue` of a queue of that name."""
    with TemporaryDirectory(prefix="fairway-team-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # A file that goes while it is copied is none that accounts need.
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
            homes=Homes(f"{data}/home", data),
            queue=SharedQueue(queue, f"{data}/fairway-queue", data) if queue else None,
            containers=shutil.which("podman") is not None,
        )
        (folder / "setup").write_text(made.setup_script())
        words = ["unshare", "--mount", "bash", "-euc", _SPACE, "bash", str(folder)]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        yield folder

"""Podman without root's rights: who may not use Docker runs containers by it.

In the container root is the person outside, so that its files are theirs, and no copy of the image
with other owners is made. It stays among the task's processes, in Slurm's cgroup too: their limits
hold for it, and it ends with them. Sources: podman(1), podman-run(1).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import scratch
from fairway_boot import files
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUN_OPTIONS = (
    "--cgroups=disabled",
    "--group-add=keep-groups",  # by which shared folders, and the devices of AMD's GPUs, are open
    "--log-driver=none",
    "--pull=never",
    "--security-opt=label=disable",  # SELinux would close the folders of the host
    "--ulimit=host",
    "--user=0:0",
)
"""Of each container, whatever its image says of the user."""

# Root that is none: Open MPI refuses any.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def own_store() -> tuple[str, ...]:
    """Options that give this user's tasks a store on the node's local disk: a home in NFS holds no
    layers, and what a login session has for its time goes when that ends. Fault where the folder
    is somebody else's."""
    place = scratch.root() / "podman"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (place.parent, place):
        if folder.lstat().st_uid != os.getuid():
            message = f"{folder} on {os.uname().nodename} belongs to another user"
            raise Fault("no-containers", message, "ask an administrator to remove it", 4)
    state, boot = place / "run", _BOOT.read_text(encoding="ascii")
    os.environ["XDG_RUNTIME_DIR"] = str(state)
    with files.alone(place / "lock"):
        mark = state / "boot"
        if not mark.exists() or mark.read_text(encoding="ascii") != boot:
            # What ran before a restart of the machine would count as running.
            shutil.rmtree(state, ignore_errors=True)
            state.mkdir(mode=0o700, exist_ok=True)
            mark.write_text(boot, encoding="ascii")
    folders = {"root": place / "store", "runroot": state, "tmpdir": state / "tmp"}
    no_systemd = ("--cgroup-manager=cgroupfs", "--events-backend=file")
    own = (f"--{name}={folder}" for name, folder in folders.items())
    return (*own, "--storage-driver=overlay", *no_systemd)


def fetch(podman: Sequence[str], image: str, environment: Mapping[str, str]) -> None:
    """Pulls the image unless it is there, once for all tasks that want it at a time; before that it
    removes what killed tasks have left. `environment` is no task's: Podman leaves a process for the
    next time. Fault where the image cannot be had."""
    folder = scratch.root() / "images"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with files.alone(folder / f"{hashlib.sha256(image.encode()).hexdigest()[:16]}.lock"):
        # Containers whose starter is gone, whose number ends their name; none of the user's own.
        listing = [*podman, "ps", "--all", "--filter=label=fairway.run", "--format={{.Names}}"]
        listed = subprocess.run(listing, env=environment, stdout=subprocess.PIPE, check=False)
        for name in listed.stdout.decode().split():
            if not Path("/proc", name.rpartition("-")[2]).exists():
                words = [*podman, "rm", "--force", name]
                subprocess.run(words, env=environment, capture_output=True, check=False)
        if subprocess.call([*podman, "image", "exists", image], env=environment) == 0:
            return
        words = [*podman, "pull", "--quiet", image]
        own = {**environment, "TMPDIR": str(folder)}  # as large as the image
        if code := subprocess.call(words, env=own, stdout=subprocess.DEVNULL):
            login = "podman login --authfile ~/.config/containers/auth.json SERVER"
            hint = f"its own message is above; for a registry that asks who you are: {login}"
            raise Fault("no-image", f"Podman cannot pull {image}", hint, code)

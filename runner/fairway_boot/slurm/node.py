"""Makes an instance a node: the munge key, a name from the scheduler, and slurmd with it.

Runs at each boot. While the scheduler needs no further node, or is not there yet, it asks again;
`reconcile` deletes an instance that nobody needs.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot.imds import physical_host
from fairway_boot.slurm import munge
from fairway_boot.slurm.commands import HARDWARE
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from fairway_boot.imds import Machine
    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
_TIMEOUT = 30.0
# Seconds between the name and slurmd's start: Slurm must see a boot after its request for the node.
# Source: Slurm, get_up_time in src/slurmd/slurmd/get_mach_stat.c.
_ROUNDING = 2.0
# Folders of daemons, which may not be on a user's PATH.
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"
_INSTALLED_BY = "/var/log/cloud-init-output.log"
# Longer than the started program may take.
_LONGEST = 900.0


def main() -> int:
    """Returns 0 once slurmd is started, and keeps asking until then; 1 if this instance cannot be a
    node."""
    settings, metadata = begin()
    if lacks := missing(settings, "munged", "unmunge"):
        # Without them it can report only to the console.
        _log.critical("%s", lacks)
        return 1
    while not munge.has_key(settings, metadata):
        time.sleep(settings.poll)
    me = metadata.machine()
    if lacks := missing(settings, "slurmd"):
        _log.critical("%s", lacks)
        ask_for_name(settings, me, trouble=lacks)
        return 1
    if fault := health_fault(settings):
        _log.critical("%s", fault)
        ask_for_name(settings, me, trouble=fault, hardware=fault.startswith(HARDWARE))
        return 1
    while (name := ask_for_name(settings, me)) is None:
        time.sleep(settings.poll)
        # The scheduler may have a new key by now, and answers only with that.
        munge.has_key(settings, metadata)
    _log.info("this is %s", name)
    start(settings, name)
    return 0


def missing(settings: Settings, *programs: str) -> str:
    """Names the programs that are not installed, in a message for people; empty if all are."""
    path = settings.bin or f"{os.environ.get('PATH', '')}:{_SYSTEM}"
    gone = [program for program in programs if shutil.which(program, path=path) is None]
    return f"{', '.join(gone)} not installed: see {_INSTALLED_BY}" if gone else ""


def ask_for_name(
    settings: Settings, me: Machine, trouble: str = "", *, hardware: bool = False
) -> str | None:
    """Returns the name that the scheduler gives this instance; None if it gives none now. `trouble`
    says why this instance cannot be a node: it then gets none, and the scheduler reports that. If
    it is the `hardware`, the scheduler remembers the host."""
    question = {"scale_set": settings.partition, "vm": me.vm, "id": me.id.split("/")[-1]}
    question |= {"host": physical_host(Path(settings.key_values)), "resource": me.id}
    if trouble:
        question |= {"trouble": trouble, "hardware": "yes" if hardware else ""}
    host = settings.scheduler.partition(":")[0]
    url = f"http://{host}:{settings.claim_port}/claim"
    try:
        credential = munge.encode(settings, question).encode()
        with urllib.request.urlopen(url, data=credential, timeout=_TIMEOUT) as response:
            answer, uid = munge.decode(settings, response.read().decode("ascii"))
    except (OSError, ValueError, munge.UntrustedMessage) as error:
        _log.warning("%s: %s", url, error)
        return None
    trusted = {0}
    with suppress(KeyError):  # the account of the service that gives nodes their names
        trusted.add(pwd.getpwnam(settings.user).pw_uid)
    if uid not in trusted:
        _log.warning("%s: user %d does not speak for the scheduler", url, uid)
        return None
    name = answer.get("name")
    return str(name) if name else None


def start(settings: Settings, name: str) -> None:
    """Starts slurmd under that name, which the machine then has too, as MPI expects it.

    The first time slurmd reports that the machine has just booted: it may have waited for its name,
    and Slurm rejects a node that booted before it was asked for. It counts entire seconds, of which
    one may pass within a few milliseconds.
    """
    options = f"-N {name} --conf-server {settings.scheduler}"
    new = f'SLURMD_OPTIONS="{options}"\n'
    file = Path(settings.name_file)
    if not file.exists() or file.read_text(encoding="utf-8") != new:
        file.write_text(new, encoding="utf-8")
    Path(settings.first_file).write_text('SLURMD_FIRST="-b"\n', encoding="utf-8")
    subprocess.run([*settings.set_host_name, name], check=True)
    time.sleep(_ROUNDING)
    subprocess.run(settings.start, check=True)


def health_fault(settings: Settings) -> str:
    """Returns the fault that the health check finds; "" if the machine is healthy, or has no check.
    Drivers and fabric need a while after boot, so faults are tolerated for as long as `settle`."""
    deadline = time.monotonic() + settings.settle
    while problem := _look(settings):
        if time.monotonic() >= deadline:
            return problem
        time.sleep(settings.poll)
    return ""


def _look(settings: Settings) -> str:
    if not settings.check:
        return ""
    try:
        done = subprocess.run(settings.check, capture_output=True, text=True, timeout=_LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the health check did not run: {error}"
    said = " ".join((done.stdout or done.stderr).split())
    return (said or f"the health check ended with {done.returncode}") if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())

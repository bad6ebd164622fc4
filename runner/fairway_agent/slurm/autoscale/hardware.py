"""What an instance stands on: its physical host, and whether all of its hardware is sound.

Azure may put the next instance onto the very host that the last one was deleted from, so a host
whose hardware failed is refused for some days; see `ledger`.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairway_agent.slurm.autoscale.settings import Settings

# The file is a row of such records, filled up with zeros.
# Source: Linux, include/uapi/linux/hyperv.h (HV_KVP_EXCHANGE_MAX_KEY_SIZE and …_VALUE_SIZE).
_KEY, _VALUE = 512, 2048
_HOST = "PhysicalHostName"
# Longer than what it starts may take.
_LONGEST = 900.0


def physical_host(settings: Settings) -> str:
    """The name of the host below this VM; empty where Azure does not tell it."""
    try:
        data = Path(settings.key_values).read_bytes()
    except OSError:
        return ""
    for start in range(0, len(data), _KEY + _VALUE):
        key, value = data[start : start + _KEY], data[start + _KEY : start + _KEY + _VALUE]
        if _text(key) == _HOST:
            return _text(value)
    return ""


def unsound(settings: Settings) -> str:
    """What the health check says of this machine; empty where it is well, or there is no check.

    Drivers and fabric need a while after boot, so it may say so for as long as `settle`.
    """
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
        done = subprocess.run(
            settings.check, capture_output=True, text=True, check=False, timeout=_LONGEST
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the health check did not run: {error}"
    said = " ".join((done.stdout or done.stderr).split())
    return (said or f"the health check ended with {done.returncode}") if done.returncode else ""


def _text(field: bytes) -> str:
    text = field.partition(b"\0")[0].decode("ascii", errors="replace")
    return "".join(each for each in text if each.isalnum() or each in "._-")

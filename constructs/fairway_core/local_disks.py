"""Local NVMe disks of nodes, which Azure delivers raw: their mount point and setup."""

from __future__ import annotations

from pathlib import Path

FOLDER = "/mnt/resource_nvme"
"""The mount point of a node's local NVMe disks, striped into one."""
_PLACE = "# local_disks.sh\n"


def with_local_disks(script: str) -> str:
    """Returns a node's script with the functions that mount its disks inserted."""
    text = Path(__file__).with_suffix(".sh").read_text(encoding="utf-8")
    return script.replace(_PLACE, text)

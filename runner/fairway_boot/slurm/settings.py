"""Start of every program of a scheduler or a node: its log, and the settings of its cluster, a JSON
file whose path FAIRWAY_SLURM_SETTINGS names."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_boot.imds import ADDRESS, Metadata

if TYPE_CHECKING:
    from types import TracebackType

_START = ("systemctl", "restart", "slurmd.service", "fairway-slurm-eviction.service")


@dataclass(frozen=True)
class ScaleSet:
    """The nodes of a partition: the resource id of their scale set, and how many always stay."""

    id: str
    kept: int = 0


@dataclass(frozen=True)
class Settings:
    """Settings of a cluster, read by `load`; times are in seconds.

    `state` is the folder of the scheduler's registry. `vault` holds the munge key, `people_vault`
    the secrets of jobs, "" for none. `authority` is a file of certificates to trust, `bin` the
    folder of Slurm's and munge's commands if they are not on PATH, `user` the account of slurmctld.
    `patience` is for how long Azure may work on a change, and `orphan_after` for how long an
    instance may exist that nobody needs; one that Azure calls failed may ask for a name for as long
    as `failed_after`, and any other for as long as `silent_after`. `hold` is for how long nodes are
    not requested again that Azure did not create: longer than idle nodes stay, so that those that
    it did create may go.

    A host whose hardware failed is refused for `refuse_host`. Of a node, `check` is the program
    that prints faults of its hardware and then fails, which it may do for `settle` after boot, and
    `key_values` the file in which Hyper-V names the host.

    A node's own are `partition`, `scheduler` (HOST:PORT of slurmctld), `name_file` and
    `first_file`, which its slurmd reads, and the commands that start things.
    """

    scale_sets: dict[str, ScaleSet]
    state: str = "/var/lib/fairway-slurm/nodes"
    client_id: str = ""
    arm: str = "https://management.azure.com"
    metadata: str = ADDRESS
    vault: str = ""
    people_vault: str = ""
    authority: str = ""
    secret: str = "munge-key"  # noqa: S105 - the name of the secret
    scheduler: str = ""
    claim_address: str = "127.0.0.1"
    claim_port: int = 6820
    munge_socket: str = ""
    munge_key: str = "/etc/munge/munge.key"
    user: str = "slurm"
    bin: str = ""
    log: str = ""
    poll: float = 10.0
    patience: float = 1500.0
    orphan_after: float = 900.0
    failed_after: float = 600.0
    silent_after: float = 1200.0
    hold: float = 720.0
    refuse_host: float = 604_800.0
    check: tuple[str, ...] = ()
    settle: float = 300.0
    key_values: str = "/var/lib/hyperv/.kvp_pool_3"
    partition: str = ""
    name_file: str = "/run/fairway-slurm-node"
    first_file: str = "/run/fairway-slurm-first"
    start: tuple[str, ...] = _START
    restart_munge: tuple[str, ...] = ("systemctl", "restart", "munge.service")
    set_host_name: tuple[str, ...] = ("hostnamectl", "set-hostname")


def load(path: str | None = None) -> Settings:
    """Reads the settings from the file. Raises ValueError for an unknown key."""
    file = Path(path or os.environ.get("FAIRWAY_SLURM_SETTINGS") or "/etc/fairway/slurm.json")
    data = json.loads(file.read_text(encoding="utf-8"))
    unknown = sorted(set(data) - {field.name for field in fields(Settings)})
    if unknown:
        raise ValueError(f"{file}: no setting is called {unknown[0]}")
    data["scale_sets"] = {
        name: ScaleSet(**scale_set) for name, scale_set in data.get("scale_sets", {}).items()
    }
    data |= {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Settings(**data)


def begin() -> tuple[Settings, Metadata]:
    """Returns the settings, and this VM's metadata service. From now on lines are logged with their
    time to the log file, or to standard error if the settings name none. Unexpected errors are
    logged too: nobody reads the output of slurmctld's programs."""
    settings = load()
    logging.basicConfig(
        filename=settings.log or None,
        level=logging.INFO,
        format="%(asctime)s %(module)s[%(process)d]: %(message)s",
    )
    sys.excepthook = _unexpected
    return settings, metadata_service(settings)


def _unexpected(kind: type[BaseException], error: BaseException, tb: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    logging.getLogger(__name__).critical("unexpected", exc_info=(kind, error, tb))


def metadata_service(settings: Settings) -> Metadata:
    """Returns this VM's metadata service, which caches its tokens."""
    identity = {"client_id": settings.client_id} if settings.client_id else {}
    return Metadata(settings.metadata, identity)

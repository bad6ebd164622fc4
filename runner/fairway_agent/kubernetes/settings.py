"""What a target says of its pods, and the job of its container. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_agent import record
from fairway_agent.shared import plans

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Volume:
    """A claim, and the path at which each pod has it."""

    name: str
    claim: str
    path: str


@dataclass(frozen=True)
class Settings:
    """How the pods of a run are made: their image and service account, the labels of the nodes
    that they may have and the taints that they bear, what each takes of its node, the queue of
    Kueue's in which they wait ("" for none) with their class of priority there, and the size of
    /dev/shm ("" for all that there is).
    `head_image` is that of pods which run none of the job's programs, and `most` how many nodes
    there can be, 0 for any number."""

    image: str
    head_image: str
    service_account: str
    head_account: str
    queue: str = ""
    priority: str = ""
    shm_size: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    most: int = 0


def of_run(folder: Path, resources: Mapping[str, str]) -> Settings:
    """From the files of a run, and the resources of a whole node."""
    target = record.read_json(folder / "target.json")
    container: dict[str, Any] = record.read_json(folder / "job.json").get("container") or {}
    access, mounts = target["kubernetes"], target.get("mounts") or {}
    volumes = access.get("volumes") or {}
    return Settings(
        image=container.get("image") or access["image"],
        head_image=access["head_image"],
        service_account=access["service_account"],
        head_account=access["head"],
        queue=access.get("queue") or "",
        priority=(access.get("priorities") or {}).get(plans.priority_word(folder), ""),
        shm_size=_quantity(container.get("shm_size") or ""),
        selector=access.get("selector") or {},
        tolerations=tuple(access.get("tolerations") or ()),
        volumes=tuple(Volume(name, claim, mounts[name]) for name, claim in volumes.items()),
        resources=resources,
        most=(target.get("nodes") or {}).get("max") or 0,
    )


def _quantity(size: str) -> str:
    """A size of Docker's as Kubernetes writes it.

    >>> _quantity("8g"), _quantity("")
    ('8Gi', '')
    """
    return f"{size[:-1]}{size[-1].upper() if size[-1] != 'k' else 'K'}i" if size else ""

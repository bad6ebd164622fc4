"""The GPUs of the nodes, as NVIDIA's device plugin lends them: a container has the files of its own
and no others, by the numbers that they have on the node.

kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fairway_agent.kubernetes.settings import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

GPU = "nvidia.com/gpu"


class Devices:
    """Who has which; `count` says how many a node has, and `folder` holds the files."""

    def __init__(self, folder: Path, count: Callable[[str], int]) -> None:
        self._folder = folder
        self._count = count
        self._lock = threading.Lock()
        self._lent: dict[str, dict[int, str]] = {}

    def lend(self, node: str, pod: str, container: Mapping[str, Any]) -> tuple[int, ...] | None:
        """The first that are free of as many as a container asks for, and the same when it starts
        again; None where others, which are about to end, still have some of these."""
        limits: Mapping[str, str] = (container.get("resources") or {}).get("limits") or {}
        wanted = int(parse(limits.get(GPU, "0")))
        owner = f"{pod}/{container['name']}"
        with self._lock:
            lent = self._lent.setdefault(node, {})
            if own := tuple(number for number, has in lent.items() if has == owner):
                return own
            free = [number for number in range(self._count(node)) if number not in lent]
            if len(free) < wanted:
                return None
            lent.update(dict.fromkeys(free[:wanted], owner))
            return tuple(free[:wanted])

    def give_back(self, pod: str) -> None:
        """A pod has none any more."""
        with self._lock:
            for lent in self._lent.values():
                for number in [each for each, has in lent.items() if has.startswith(f"{pod}/")]:
                    del lent[number]

    def mounts(self, numbers: tuple[int, ...]) -> list[tuple[str, str, str]]:
        """What is mounted in the container that has them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        found = []
        for number in numbers:
            file = self._folder / f"nvidia{number}"
            file.touch()
            found.append(("bind", str(file), f"/dev/{file.name}"))
        return found

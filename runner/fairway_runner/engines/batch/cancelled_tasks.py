"""Tasks that a person has ended, each by itself, as every machine sees them: the service does not
say who ended a task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fairway_runner.engines.azure.storage import OUTPUTS
from fairway_runner.engines.batch import names, states

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.azure.storage import Storage
    from fairway_runner.engines.batch.submission import State


def note(run: str, state: State, task: str, storage: Storage) -> None:
    """Says it beside what the run keeps."""
    storage.upload(OUTPUTS, f"{names.cancelled_folder(run, state.generation)}{task}", b"")


@dataclass
class CancelledTasks:
    """Those of one run, as it runs this time."""

    run: str
    state: State
    storage: Storage

    def has(self, task: Mapping[str, Any]) -> bool:
        """Whether it is one. What others have noted is asked for once, and only for a task that
        somebody has ended."""
        name = str(task["id"])
        if name in self.state.cancelled:
            return True
        return states.is_ended_early(task.get("executionInfo") or {}) and name in self._noted

    @cached_property
    def _noted(self) -> frozenset[str]:
        folder = names.cancelled_folder(self.run, self.state.generation)
        found = self.storage.blobs(OUTPUTS, folder)
        return frozenset(blob.name.removeprefix(folder) for blob in found)

"""Inputs of a run that other runs have kept, on the shared folder of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairway_agent.shared.reports import InputsReport, InputsRequest
from fairway_runner.engines.refusals import gone_input
from fairway_runner.runs.records import read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fairway_agent.plan import Chained
    from fairway_runner.engines.remote.remote_host import RemoteHost
    from fairway_runner.runs.folder import RunFolder

_MODULE = "fairway_agent.shared.inputs"


@dataclass(frozen=True)
class Inputs:
    """Those of one run; the host is asked where there are any."""

    run: RunFolder
    remote: RemoteHost
    entries: Sequence[Chained]

    @classmethod
    def of(cls, run: RunFolder, remote: RemoteHost) -> Inputs:
        """By the run's plan; what it waits for is not there yet."""
        plan = read_plan(run.folder)
        return cls(run, remote, [each for each in plan.chained if not plan.awaits(each)])

    def missing(self) -> Mapping[str, str]:
        """Those that have to be copied there, by their paths, each with the folder in which it is
        to be put; Refused where one was to be there, and is not."""
        if not self.entries:
            return {}
        request = InputsRequest(self.run.id, tuple(each.path for each in self.entries))
        missing = self.remote.call(_MODULE, request, InputsReport).missing
        for each in self.entries:
            if each.path in missing and not self._is_here(each):
                raise gone_input(each.name, each.source or each.path)
        return missing

    def bring(self, missing: Mapping[str, str]) -> None:
        """Copies them; the run has them from now on."""
        copied = {each.path: each for each in self.entries if each.source is not None}
        for path, each in copied.items():
            if path in missing:
                folder, deadline = self._folder(each), self.remote.deadline
                self.remote.connection.upload(folder, missing[path], deadline=deadline)
        if copied:
            request = InputsRequest(self.run.id, tuple(copied), adopt=True)
            self.remote.call(_MODULE, request, InputsReport)

    def _is_here(self, entry: Chained) -> bool:
        return entry.source is not None and self._folder(entry).is_dir()

    def _folder(self, entry: Chained) -> Path:
        assert entry.source is not None, "it is copied from here"
        return self.run.folder.parents[1] / entry.source

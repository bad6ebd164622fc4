"""Which of the runs of a folder are listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Collection

    from fairway_core.findings import Finding
    from fairway_runner.runs.store import Run, RunStore


@dataclass
class Listing:
    """Runs with their recorded states, the newest last, and what is wrong with those that
    cannot be read."""

    runs: list[tuple[Run, dict[str, Any]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def select(
    store: RunStore,
    states: Collection[str] = (),
    name: str | None = None,
    target: str | None = None,
    limit: int | None = None,
) -> Listing:
    """The newest runs that all that is given holds for, at most `limit` of them."""
    listing = Listing()
    runs: list[Run] = []
    for run in store.unsorted():
        try:
            record = run.record
        except UserError as error:
            listing.findings += error.findings
            continue
        except FileNotFoundError:
            continue  # it was removed just now
        if (name is None or record.name == name) and (target is None or record.target == target):
            runs.append(run)
    for run in sorted(runs, key=lambda run: (-run.record.created, run.id)):
        if limit is not None and len(listing.runs) >= limit:
            break
        try:
            status = run.status
        except UserError as error:
            listing.findings += error.findings
            continue
        except FileNotFoundError:
            continue
        if not states or status["state"] in states:
            listing.runs.append((run, status))
    listing.runs.reverse()
    return listing

"""The stacks of an environment: synthesized, in their order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from fairway_core.environment.selection import environment_file
from fairway_core.findings import format_finding
from fairway_stacks.plan.options import say

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class StackFolder:
    """A synthesized stack: its name, the folder for Terraform, and the stacks before it."""

    name: str
    folder: Path
    dependencies: tuple[str, ...] = ()


def synthesize(choice: str | None, outdir: Path) -> list[StackFolder]:
    """Writes the stacks of the environment to `outdir`; answers with them in their order.

    Raises UserError where the environment is refused; warnings go to standard error.
    """
    from fairway_stacks.app import write_stacks

    write_stacks(environment_file(choice), outdir, warn=lambda found: say(format_finding(found)))
    return in_order(outdir)


def in_order(outdir: Path) -> list[StackFolder]:
    """The stacks that the manifest in `outdir` lists, each after those that it reads from."""
    manifest = json.loads((outdir / "manifest.json").read_text(encoding="utf-8"))
    stacks = {
        name: StackFolder(
            name,
            (outdir / each["workingDirectory"]).resolve(),
            tuple(each.get("dependencies") or ()),
        )
        for name, each in manifest["stacks"].items()
    }
    sorter = TopologicalSorter({name: sorted(each.dependencies) for name, each in stacks.items()})
    return [stacks[name] for name in sorter.static_order()]

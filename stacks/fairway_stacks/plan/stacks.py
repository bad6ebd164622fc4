"""The stacks of an environment, synthesized in their order, and what is told meanwhile."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from fairway_core.environment.selection import environment_file
from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def say(line: str) -> None:
    """Progress goes to standard error: standard output is for the review."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def tell(error: UserError) -> None:
    """A user's error as its findings."""
    for finding in error.findings:
        say(format_finding(finding))


@contextmanager
def files_can_be_written() -> Iterator[None]:
    """Makes a UserError of a file or a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        message = f"{error.filename}: {error.strerror}"
        raise UserError.of("cannot-write", message, "name another file or folder") from None


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

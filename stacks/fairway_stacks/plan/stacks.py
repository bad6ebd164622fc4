"""The stacks of an environment, synthesized in their order, and the messages about it."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from fairway_core.environment.selection import environment_file, known_environments
from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_STATE = re.compile(r"terraform\.(?P<environment>.+)-(network|data|compute)\.tfstate")
_NAME = re.compile(r"^name:\s*[\"']?([A-Za-z0-9-]+)", re.MULTILINE)


def print_progress(line: str) -> None:
    """Writes progress to standard error: standard output is for the review."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def print_error(error: UserError) -> None:
    """Reports the findings of a user's error."""
    for finding in error.findings:
        print_progress(format_finding(finding))


@contextmanager
def files_can_be_written() -> Iterator[None]:
    """Converts the OSError of an unwritable file or folder into a UserError."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        message = f"{error.filename}: {error.strerror}"
        raise UserError.of("cannot-write", message, "name another file or folder") from None


@dataclass(frozen=True)
class StackFolder:
    """A synthesized stack: its name, its folder for Terraform, and the stacks before it."""

    name: str
    folder: Path
    dependencies: tuple[str, ...] = ()


def synthesize(choice: str | None, outdir: Path, *, state: bool = False) -> list[StackFolder]:
    """Writes the stacks of the environment to `outdir` and returns them in their order.

    With `state` it is only the account that holds the others' state. Raises UserError if the
    environment is refused; warnings go to standard error.
    """
    from fairway_stacks.app import write_stacks

    write_stacks(
        environment_file(choice),
        outdir,
        warn=lambda found: print_progress(format_finding(found)),
        state=state,
    )
    return ordered_stacks(outdir)


def ordered_stacks(outdir: Path) -> list[StackFolder]:
    """Returns the stacks of the manifest in `outdir`, each after those that it reads from."""
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


def left_behind(stacks: Sequence[StackFolder]) -> list[str]:
    """Returns deployed environments that no file describes any more, but only if these stacks are
    new: otherwise nothing was renamed.

    Only states in files can be listed; states in a storage account are not seen here.
    """
    files = [file for stack in stacks if (file := _state_file(stack)) is not None]
    if not files or any(_holds_something(file) for file in files):
        return []
    deployed = {
        found["environment"]
        for folder in {file.parent for file in files}
        for file in folder.glob("terraform.*.tfstate")
        if (found := _STATE.fullmatch(file.name)) and _holds_something(file)
    }
    return sorted(deployed - set(_asked_for()))


def _state_file(stack: StackFolder) -> Path | None:
    document = json.loads((stack.folder / "cdk.tf.json").read_text(encoding="utf-8"))
    local = document.get("terraform", {}).get("backend", {}).get("local")
    return (stack.folder / local["path"]).resolve() if local else None


def _holds_something(state: Path) -> bool:
    try:
        return bool(json.loads(state.read_text(encoding="utf-8")).get("resources"))
    except (OSError, ValueError, AttributeError):
        return False


def _asked_for() -> Iterator[str]:
    for file in known_environments().values():
        try:
            found = _NAME.search(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if found:
            yield found[1]

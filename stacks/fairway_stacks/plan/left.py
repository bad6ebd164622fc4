"""Environments that are deployed and that no file asks for any more, as after a renaming."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from fairway_core.environment.selection import known_environments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_stacks.plan.stacks import StackFolder

_STATE = re.compile(r"terraform\.(?P<environment>.+)-(network|data|compute)\.tfstate")
_NAME = re.compile(r"^name:\s*[\"']?([A-Za-z0-9-]+)", re.MULTILINE)


def left_behind(stacks: Sequence[StackFolder]) -> list[str]:
    """Their names, told only where these stacks are new: else nothing was renamed.

    Only states in files can be listed; of those in a storage account nothing is known here.
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

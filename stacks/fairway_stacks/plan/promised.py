"""Stacks that read the outputs which the plans of other stacks promise, and not those in states.

So a stack can be planned before the stacks that it reads are deployed: what their plans know is
used, and what is known only after an apply is unknown here too. Nothing is applied for it.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairway_core.review.plan import CROSS_STACK_INPUT, REMOTE_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fairway_stacks.plan.stacks import StackFolder

    Outputs = Mapping[str, Any]


def write_private(file: Path, text: str) -> None:
    """A file for nobody else to read, in place of one that is there."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def private_for_now(file: Path, text: str) -> Iterator[None]:
    """Until it ends the file holds this text, for nobody else to read."""
    before = file.read_text(encoding="utf-8")
    write_private(file, text)
    try:
        yield
    finally:
        write_private(file, before)


_LOCAL = "outputs-of-"
# A plan does not know what `uuid` will answer, and so neither its type nor its value here.
# Source: Terraform, functions `uuid` ("will produce a new value each time it's evaluated") and
# `jsondecode` ("the result type is determined dynamically").
_UNKNOWN = "${jsondecode(uuid())}"


def outputs_of(plan: Mapping[str, Any]) -> Outputs | None:
    """The outputs that a plan promises, as expressions of Terraform's JSON syntax, by name.

    `plan` is what `terraform show -json` prints. None where it is not the whole plan.
    """
    if plan.get("errored") or "resource_changes" not in plan:
        return None
    return {
        name: _expression(each.get("after"), each.get("after_unknown", False))
        for name, each in (plan.get("output_changes") or {}).items()
        if each.get("actions") != ["delete"]
    }


def _expression(value: Any, unknown: Any) -> Any:
    """The value as a literal; Terraform reads any text in its JSON as a template."""
    if unknown is True:
        return _UNKNOWN
    if isinstance(value, list):
        marks = unknown if isinstance(unknown, list) else []
        return [
            _expression(item, marks[place] if place < len(marks) else False)
            for place, item in enumerate(value)
        ]
    if isinstance(value, dict) or (value is None and isinstance(unknown, dict) and unknown):
        known = value or {}
        later = unknown if isinstance(unknown, dict) else {}
        return {
            _literal(key): _expression(known.get(key), later.get(key, False))
            for key in {**known, **later}
        }
    return _literal(value) if isinstance(value, str) else value


def _literal(text: str) -> str:
    """The text with the beginnings of templates doubled, by which they are none.

    >>> _literal("${a} %{b}")
    '$${a} %%{b}'
    """
    return text.replace("${", "$${").replace("%{", "%%{")


@contextmanager
def reading(stack: StackFolder, promised: Mapping[str, Outputs]) -> Iterator[None]:
    """Until it ends the stack reads these outputs, by the name of the stack that has them."""
    file = stack.folder / "cdk.tf.json"
    with private_for_now(file, _rewritten(file.read_text(encoding="utf-8"), promised)):
        yield


def _rewritten(text: str, promised: Mapping[str, Outputs]) -> str:
    if not promised:
        return text
    for name in promised:
        source = re.escape(f"data.{REMOTE_STATE}.{CROSS_STACK_INPUT}{name}.outputs") + r"(?![\w-])"
        text = re.sub(source, f"local.{_LOCAL}{name}", text)
    document = json.loads(text)
    data = document.get("data", {})
    for name in promised:
        data.get(REMOTE_STATE, {}).pop(f"{CROSS_STACK_INPUT}{name}", None)
    if not data.get(REMOTE_STATE):
        data.pop(REMOTE_STATE, None)
    if not data:  # Terraform refuses a section with nothing in it
        document.pop("data", None)
    named = {f"{_LOCAL}{name}": dict(outputs) for name, outputs in promised.items()}
    document["locals"] = {**document.get("locals", {}), **named}
    return json.dumps(document, indent=1)

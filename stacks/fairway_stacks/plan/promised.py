"""Stand-ins for what is not deployed: the outputs that other plans promise, and for a plan without
an Azure account one for Azure.

So a stack can be planned before the stacks that it reads are deployed: values in their plans are
used, and values that are known only after an apply are unknown here too. Nothing is applied.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fairway_constructs.hcl.expressions import escaped
from fairway_core.findings import UserError
from fairway_core.review.plan import CROSS_STACK_INPUT, REMOTE_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from fairway_stacks.plan.stacks import StackFolder

    Outputs = Mapping[str, Any]


def write_private(file: Path, text: str) -> None:
    """Writes a file that only the user can read; replaces an existing one."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


@contextmanager
def private_for_now(file: Path, text: str) -> Iterator[None]:
    """Replaces the file's text within the context, readable only by the user."""
    before = file.read_text(encoding="utf-8")
    write_private(file, text)
    try:
        yield
    finally:
        write_private(file, before)


_LOCAL = "outputs-of-"
# A plan does not know the result of `uuid`, and so neither the type nor the value here.
# Source: Terraform, functions `uuid` ("will produce a new value each time it's evaluated") and
# `jsondecode` ("the result type is determined dynamically").
_UNKNOWN = "${jsondecode(uuid())}"


def outputs_of(plan: Mapping[str, Any]) -> Outputs | None:
    """Returns the outputs that a plan promises, by name, as expressions of Terraform's JSON syntax.

    `plan` is what `terraform show -json` prints. Returns None if the plan is incomplete.
    """
    if plan.get("errored") or "resource_changes" not in plan:
        return None
    return {
        name: _expression(each.get("after"), each.get("after_unknown", False))
        for name, each in (plan.get("output_changes") or {}).items()
        if each.get("actions") != ["delete"]
    }


def _expression(value: Any, unknown: Any) -> Any:
    """Returns the value as a literal; Terraform parses any string in its JSON as a template."""
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
            escaped(key): _expression(known.get(key), later.get(key, False))
            for key in {**known, **later}
        }
    return escaped(value) if isinstance(value, str) else value


@contextmanager
def with_previewed_outputs(stack: StackFolder, promised: Mapping[str, Outputs]) -> Iterator[None]:
    """Makes the stack read these outputs within the context; `promised` is by stack name."""
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
    if not data:  # Terraform refuses an empty section
        document.pop("data", None)
    named = {f"{_LOCAL}{name}": dict(outputs) for name, outputs in promised.items()}
    document["locals"] = {**document.get("locals", {}), **named}
    return json.dumps(document, indent=1)


_FAILED = 5


@contextmanager
def loopback_azure() -> Iterator[dict[str, str]]:
    """Runs the stand-in; yields the environment variables that make the provider use it as Azure.

    It ends with this process, even if that is killed: it reads the other end of a pipe.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "fairway_simulator.azure"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        line = program.stdout.readline()
        if not line:
            message = "the stand-in for Azure did not start"
            hint = "see why: python -P -m fairway_simulator.azure"
            raise UserError.of("no-stand-in", message, hint, exit_code=_FAILED)
        try:
            yield json.loads(line)
        finally:
            program.stdin.close()


# A user's settings for the real Azure; none may reach the stand-in's provider.
FOREIGN = ("ARM_", "AZURE_", "TF_CLI_ARGS", "TF_WORKSPACE", "TF_DATA_DIR", "TF_VAR_")


def keep_states_in(folder: Path, stacks: Sequence[StackFolder]) -> None:
    """Makes the synthesized stacks keep their states, which stay empty, in `folder`."""
    for stack in stacks:
        file = stack.folder / "cdk.tf.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        path = str(folder / f"{stack.name}.tfstate")
        document["terraform"]["backend"] = {"local": {"path": path}}
        file.write_text(json.dumps(document, indent=1), encoding="utf-8")

"""Plans to review: one per stack, from the output of `terraform show -json`.

In place of a plan, the output of `terraform plan -json` is accepted if planning failed because the
stack's inputs are not deployed yet.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.json_values import (
    DEEPEST,
    NO_JSON,
    DuplicateKey,
    blocks,
    first_block,
    is_deep,
    parse_json,
    value_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FORMAT = re.compile(r"1\.[0-9]+")
_LARGEST = 1 << 30
_HOW = "terraform plan -out tfplan && terraform show -json tfplan > plan.json"

ROLES = ("network", "data", "compute")
"""Endings of the names of an environment's stacks, in the order in which they are deployed."""

# File names that do not name the stack: their folder does.
_PLAIN_NAMES = frozenset({"plan", "tfplan", "show"})
_NAME_PREFIXES, _NAME_SUFFIXES = ("plan-", "tfplan-"), (".plan", ".tfplan", "-plan")

WAITS_FOR = "fairway_waits_for"
"""A key of a plan that was made with promised outputs: the stacks that promise them."""

UNLOCKED = "fairway_unlocked"
"""A key of a plan: the addresses of locks that it leaves out, and that the next plan creates."""

# A key of each line of Terraform's machine-readable log.
_LEVEL = "@level"
REMOTE_STATE = "terraform_remote_state"
CROSS_STACK_INPUT = "cross-stack-reference-input-"
"""cdktf's prefix for the data source of another stack's outputs."""
CROSS_STACK_OUTPUT = "cross-stack-output-"
"""cdktf's prefix for the outputs that other stacks read."""
# A reference to an output of another stack in a JSON configuration: with a dot or in brackets.
_OUTPUT = re.compile(
    r"data\.terraform_remote_state\.([\w-]+)\.outputs(?:\.([\w-]+)|\[\\*\"([\w-]+)\\*\"\])"
)
_INPUT = re.compile(rf"{CROSS_STACK_INPUT}([\w-]+)")
NO_STATE, NO_OUTPUT = "Unable to find remote state", "Unsupported attribute"
"""Summaries of Terraform's diagnostics if a remote state, or an output in it, is missing."""


@dataclass(frozen=True)
class Plan:
    """A stack, and its plan as plain data.

    `waits_for` names stacks whose outputs it needs and that are not deployed yet. The plan is
    `promised` if it is complete anyway, made with the outputs that their plans promise.
    """

    stack: str
    data: Mapping[str, Any]
    waits_for: tuple[str, ...] = ()

    @property
    def promised(self) -> bool:
        """True if the stack waits, and its plan was made with promised outputs."""
        return bool(self.data.get(WAITS_FOR)) and not self.errored

    @property
    def errored(self) -> bool:
        """True if Terraform stopped before the plan was complete."""
        return self.data.get("errored") is True

    @property
    def changes(self) -> list[Mapping[str, Any]]:
        """Planned changes of resources, as Terraform writes them."""
        found: list[Mapping[str, Any]] = self.data.get("resource_changes") or []
        return found

    @property
    def drift(self) -> list[Mapping[str, Any]]:
        """Changes made to resources outside of Terraform, as Terraform writes them."""
        found: list[Mapping[str, Any]] = self.data.get("resource_drift") or []
        return found

    @property
    def output_changes(self) -> Mapping[str, Mapping[str, Any]]:
        """Planned changes of the stack's outputs, by name."""
        found: Mapping[str, Mapping[str, Any]] = self.data.get("output_changes") or {}
        return found


def read_plans(argument: str) -> list[Plan]:
    """Reads the plan that the argument names, see `read_plan`, or all *.json files of a folder.

    Stacks are named after the files, in the order in which Fairway deploys them; a folder without
    such files gives none. Raises UserError for a file that is not a plan.
    """
    if not argument:  # such as "$BASE" if it is unset: not the current folder
        raise UserError.of("no-such-file", "an empty word names no plan", _HOW)
    folder = Path(argument)
    if not folder.is_dir():
        return [read_plan(argument)]

    def deployed_at(file: Path) -> tuple[int, str]:
        role = file.stem.rpartition("-")[2]
        return (ROLES.index(role) if role in ROLES else len(ROLES)), file.name

    # `fairway plan --out` names files after stacks, even after `plan-lab`.
    return [
        _plan(stack_of(str(file)) if file.stem in _PLAIN_NAMES else file.stem, file)
        for file in sorted(folder.glob("*.json"), key=deployed_at)
    ]


def read_plan(argument: str) -> Plan:
    """Reads the plan in `FILE`, or in FILE of `STACK=FILE`.

    Without a name the stack is named after the file, without `plan-` or `.plan`, or after its
    folder if the file is called `plan.json`. Raises UserError for a file that is not a plan.

    >>> stack_of("out/demo-data.plan.json"), stack_of("out/demo-data/plan.json")
    ('demo-data', 'demo-data')
    """
    name, equals, path = argument.partition("=")
    file = Path(argument)
    named = equals and name and "/" not in name and not file.exists()
    if named:
        file = Path(path)
    return _plan(name if named else stack_of(argument), file)


def stack_of(path: str) -> str:
    """Returns the stack according to the name of a file, or of its folder."""
    file = Path(path)
    name = file.stem
    if name in _PLAIN_NAMES and file.resolve().parent.name:
        return file.resolve().parent.name
    for prefix in _NAME_PREFIXES:
        name = name.removeprefix(prefix)
    for suffix in _NAME_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _plan(stack: str, file: Path) -> Plan:
    content = _content(file)
    if is_deep(content):
        raise _no_plan(file, f"nested more than {DEEPEST} levels deep")
    try:
        data = parse_json(content)
        if data is NO_JSON or (isinstance(data, dict) and _LEVEL in data):
            return _plan_of_log(stack, file, content)
    except DuplicateKey as error:
        raise _no_plan(file, str(error)) from None
    if not isinstance(data, dict) or "format_version" not in data:
        raise _no_plan(file, "this is JSON, but not a plan")
    version = str(data["format_version"])
    if not _FORMAT.fullmatch(version):
        raise _no_plan(file, f"this plan has format {version}, and only formats 1.x are known")
    if "values" in data and "resource_changes" not in data:
        raise _no_plan(file, "this is a state, not a plan")
    if "resource_changes" not in data and "planned_values" not in data:
        raise _no_plan(file, "this is JSON, but not a plan")
    _check_shape(data, file)
    return Plan(stack, data, tuple(_missing_inputs(data)))


def _content(file: Path) -> bytes:
    """Reads a file or a pipe completely; a device such as /dev/zero never ends, and is refused."""
    too_large = _no_plan(file, f"larger than {_LARGEST >> 30} GiB")
    try:
        if file.is_char_device() or file.is_block_device():
            raise _no_plan(file, "this is a device, not a file")
        if file.stat().st_size > _LARGEST:
            raise too_large
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except FileNotFoundError:
        raise UserError.of("no-such-file", f"{file}: no such file", _HOW) from None
    except OSError as error:
        message = f"{file}: {error.strerror}"
        raise UserError.of("unreadable-plan", message, f"ls -l {file}") from None
    if len(content) > _LARGEST:
        raise too_large
    return content


def _check_shape(data: Mapping[str, Any], file: Path) -> None:
    for key in ("resource_changes", "resource_drift"):
        changes = [] if data.get(key) is None else data[key]
        if not isinstance(changes, list) or not all(map(_is_change, changes)):
            raise _no_plan(file, f"`{key}` is not what Terraform writes")
    outputs = {} if data.get("output_changes") is None else data["output_changes"]
    if not isinstance(outputs, dict) or not all(_has_actions(each) for each in outputs.values()):
        raise _no_plan(file, "`output_changes` is not what Terraform writes")
    for key in (WAITS_FOR, UNLOCKED):
        names = data.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _no_plan(file, f"`{key}` is not a list of names")


def _is_change(resource: Any) -> bool:
    match resource:
        case {"address": str(), "type": str(), "change": change} if _has_actions(change):
            paths = [] if change.get("replace_paths") is None else change["replace_paths"]
            return (
                isinstance(change.get("before"), dict | None)
                and isinstance(change.get("after"), dict | None)
                and isinstance(paths, list)
                and all(isinstance(path, list) for path in paths)
                and all(isinstance(step, str | int) for path in paths for step in path)
            )
    return False


def _has_actions(change: Any) -> bool:
    actions = change.get("actions") if isinstance(change, dict) else None
    return isinstance(actions, list) and all(isinstance(action, str) for action in actions)


def _missing_inputs(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields the stacks that lack outputs which an errored plan was to read.

    Outputs that were read are in the state before the plan. A deployed stack may lack an output
    too, which its own next plan adds.
    """
    if data.get("errored") is not True:
        yield from data.get(WAITS_FOR, ())
        return
    resources = blocks(value_at(data, ("prior_state", "values", "root_module", "resources")))
    read = {
        str(each.get("name")): set(first_block(value_at(each, ("values", "outputs"))))
        for each in resources
        if each.get("type") == REMOTE_STATE
    }
    used: dict[str, set[str]] = {}
    configuration = value_at(data, ("configuration", "root_module"))
    for name, dotted, quoted in _OUTPUT.findall(json.dumps(configuration)):
        used.setdefault(name, set()).add(dotted or quoted)
    for each in blocks(first_block(configuration).get("resources")):
        if each.get("type") == REMOTE_STATE:
            name = str(each.get("name"))
            if name not in read or used.get(name, set()) - read[name]:
                yield name.removeprefix(CROSS_STACK_INPUT)


def _plan_of_log(stack: str, file: Path, content: bytes) -> Plan:
    """Returns a stack that could not be planned, from the diagnostics of `terraform plan -json`."""
    if content[:2] == b"PK":
        raise _no_plan(file, "this is Terraform's own plan file, not JSON")
    errors = list(_errors(content))
    if not errors:
        raise _no_plan(file, "this is not JSON")
    missing: dict[str, None] = {}
    for summary, stacks in errors:
        if summary != NO_STATE and not (summary == NO_OUTPUT and stacks):
            message = f"{file}: terraform plan failed: {summary}"
            raise UserError.of("plan-failed", message, "see its whole output: terraform plan")
        missing.update(dict.fromkeys(stacks or ["another stack"]))
    return Plan(stack, {}, tuple(missing))


def _errors(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yields the summary of each error, and the other stacks that it names.

    Yields nothing if any line does not belong to such a log.
    """
    found = []
    for line in content.splitlines():
        entry = parse_json(line)
        if not isinstance(entry, dict) or _LEVEL not in entry:
            return
        diagnostic = entry.get("diagnostic")
        if isinstance(diagnostic, dict) and diagnostic.get("severity") == "error":
            stacks = _INPUT.findall(json.dumps(diagnostic))
            found.append((str(diagnostic.get("summary")), stacks))
    yield from found


def _no_plan(file: Path, message: str) -> UserError:
    return UserError.of("not-a-plan", f"{file}: {message}", _HOW)

"""Reads the files that a review is made of: one plan a stack, as `terraform show -json` prints it.

In place of a plan there may be what `terraform plan -json` printed, where it failed because
the stack's inputs are not deployed yet.
"""

from __future__ import annotations

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.findings import UserError
from fairway_core.json_values import DEEPEST, NO_JSON, KeyTwice, at, blocks, first, is_deep, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FORMAT = re.compile(r"1\.[0-9]+")
_LARGEST = 1 << 30
_HOW = "terraform plan -out tfplan && terraform show -json tfplan > plan.json"

ROLES = ("network", "data", "compute")
"""Endings of the names of an environment's stacks, in the order in which they are deployed."""

# Names of files that say nothing of the stack: their folder then does.
_PLAIN_NAMES = frozenset({"plan", "tfplan", "show"})
_NAME_PREFIXES, _NAME_SUFFIXES = ("plan-", "tfplan-"), (".plan", ".tfplan", "-plan")

WAITS_FOR = "fairway_waits_for"
"""In a plan that was made with outputs which are only promised: the stacks that are to have them.
"""

UNLOCKED = "fairway_unlocked"
"""In a plan: the addresses of locks that were left out of it, which the next plan makes."""

# The key that each line of Terraform's machine-readable log has.
_LEVEL = "@level"
REMOTE_STATE = "terraform_remote_state"
CROSS_STACK_INPUT = "cross-stack-reference-input-"
"""The prefix that cdktf gives to the data source for the outputs of another stack."""
# An output of another stack, as a configuration in JSON names it: with a dot or in brackets.
_OUTPUT = re.compile(
    r"data\.terraform_remote_state\.([\w-]+)\.outputs(?:\.([\w-]+)|\[\\*\"([\w-]+)\\*\"\])"
)
_INPUT = re.compile(rf"{CROSS_STACK_INPUT}([\w-]+)")
# The summaries of Terraform's diagnostics where a remote state, or an output in it, is not there.
_NO_STATE, _NO_OUTPUT = "Unable to find remote state", "Unsupported attribute"


@dataclass(frozen=True)
class Plan:
    """A stack, and its plan as plain data.

    `waits_for` names stacks of which it needs outputs that are not deployed yet. The plan is
    `promised` where it is whole all the same: made with what their plans promise.
    """

    stack: str
    data: Mapping[str, Any]
    waits_for: tuple[str, ...] = ()

    @property
    def promised(self) -> bool:
        """True if the stack waits, and its plan was made with outputs that are promised."""
        return bool(self.data.get(WAITS_FOR)) and not self.errored

    @property
    def errored(self) -> bool:
        """True if Terraform gave up before the plan was whole."""
        return self.data.get("errored") is True

    @property
    def changes(self) -> list[Mapping[str, Any]]:
        """Planned changes of resources, as Terraform writes them."""
        found: list[Mapping[str, Any]] = self.data.get("resource_changes") or []
        return found

    @property
    def drift(self) -> list[Mapping[str, Any]]:
        """Changes that were made to resources outside of Terraform, as Terraform writes them."""
        found: list[Mapping[str, Any]] = self.data.get("resource_drift") or []
        return found

    @property
    def output_changes(self) -> Mapping[str, Mapping[str, Any]]:
        """Planned changes of the stack's outputs, by name."""
        found: Mapping[str, Mapping[str, Any]] = self.data.get("output_changes") or {}
        return found


def read_plans(argument: str) -> list[Plan]:
    """Returns the plan that the argument names as `read_plan` takes it; all of a folder's *.json.

    These are called as their files, in the order in which Fairway's stacks are deployed; none where
    the folder has none. Raises UserError for a file that is no plan.
    """
    if not argument:  # such as "$BASE" where that is not set: not the current folder
        raise UserError.of("no-such-file", "an empty word names no plan", _HOW)
    folder = Path(argument)
    if not folder.is_dir():
        return [read_plan(argument)]
    files = sorted(folder.glob("*.json"), key=_deployed_at)
    return [_plan(_stack_in_folder(file), file) for file in files]


def _stack_in_folder(file: Path) -> str:
    """Returns an environment may be called `plan-lab`: `fairway plan --out` names files as
    stacks."""
    return stack_of(str(file)) if file.stem in _PLAIN_NAMES else file.stem


def _deployed_at(file: Path) -> tuple[int, str]:
    role = file.stem.rpartition("-")[2]
    return (ROLES.index(role) if role in ROLES else len(ROLES)), file.name


def read_plan(argument: str) -> Plan:
    """Returns the plan in `FILE`, or in FILE of `STACK=FILE`.

    Without a name the stack is called as the file, less `plan-` or `.plan`, or as its folder where
    the file is called `plan.json`. Raises UserError for a file that is no plan.

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
    """Returns the stack that a file's name, or that of its folder, tells."""
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
        data = parsed(content)
        if data is NO_JSON or (isinstance(data, dict) and _LEVEL in data):
            return _plan_of_log(stack, file, content)
    except KeyTwice as error:
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
    """Returns all of a file or of a pipe; a device such as /dev/zero never ends."""
    try:
        facts = file.stat()
        if stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode):
            raise _no_plan(file, "this is a device, not a file")
        if facts.st_size > _LARGEST:
            raise _too_large(file)
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except FileNotFoundError:
        raise UserError.of("no-such-file", f"{file}: no such file", _HOW) from None
    except OSError as error:
        raise UserError.of(
            "unreadable-plan", f"{file}: {error.strerror}", f"ls -l {file}"
        ) from None
    if len(content) > _LARGEST:
        raise _too_large(file)
    return content


def _too_large(file: Path) -> UserError:
    return _no_plan(file, f"larger than {_LARGEST >> 30} GiB")


def _check_shape(data: Mapping[str, Any], file: Path) -> None:
    for key in ("resource_changes", "resource_drift"):
        changes = [] if data.get(key) is None else data[key]
        if not isinstance(changes, list) or not all(_is_change(change) for change in changes):
            raise _no_plan(file, f"`{key}` is not what Terraform writes")
    outputs = {} if data.get("output_changes") is None else data["output_changes"]
    if not isinstance(outputs, dict) or not all(_has_actions(each) for each in outputs.values()):
        raise _no_plan(file, "`output_changes` is not what Terraform writes")
    for key in (WAITS_FOR, UNLOCKED):
        names = data.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _no_plan(file, f"`{key}` is not a list of names")


def _is_change(change: Any) -> bool:
    return (
        isinstance(change, dict)
        and isinstance(change.get("address"), str)
        and isinstance(change.get("type"), str)
        and _has_actions(change.get("change"))
        and isinstance(change["change"].get("before"), dict | None)
        and isinstance(change["change"].get("after"), dict | None)
        and _are_paths(change["change"].get("replace_paths"))
    )


def _are_paths(paths: Any) -> bool:
    if paths is None:
        return True
    return isinstance(paths, list) and all(
        isinstance(path, list) and all(isinstance(step, str | int) for step in path)
        for path in paths
    )


def _has_actions(change: Any) -> bool:
    actions = change.get("actions") if isinstance(change, dict) else None
    return isinstance(actions, list) and all(isinstance(action, str) for action in actions)


def _missing_inputs(data: Mapping[str, Any]) -> Iterator[str]:
    """Yields the stacks of whose outputs an errored plan was to read some that are not there.

    What was read stands in the state before the plan. A stack that is deployed may lack an output
    too, which its own next plan adds.
    """
    if data.get("errored") is not True:
        yield from data.get(WAITS_FOR, ())
        return
    read = dict(_outputs_read(data))
    used: dict[str, set[str]] = {}
    configuration = at(data, ("configuration", "root_module"))
    for name, dotted, quoted in _OUTPUT.findall(json.dumps(configuration)):
        used.setdefault(name, set()).add(dotted or quoted)
    for each in blocks(first(configuration).get("resources")):
        if each.get("type") == REMOTE_STATE:
            name = str(each.get("name"))
            if name not in read or used.get(name, set()) - read[name]:
                yield name.removeprefix(CROSS_STACK_INPUT)


def _outputs_read(data: Mapping[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yields the remote states that were found, each with the names of its outputs."""
    for each in blocks(at(data, ("prior_state", "values", "root_module", "resources"))):
        if each.get("type") == REMOTE_STATE:
            yield str(each.get("name")), set(first(at(each, ("values", "outputs"))))


def _plan_of_log(stack: str, file: Path, content: bytes) -> Plan:
    """Returns a stack that could not be planned, by the diagnostics of `terraform plan -json`."""
    if content[:2] == b"PK":
        raise _no_plan(file, "this is Terraform's own plan file, not JSON")
    errors = list(_errors(content))
    if not errors:
        raise _no_plan(file, "this is not JSON")
    missing: dict[str, None] = {}
    for summary, stacks in errors:
        if summary != _NO_STATE and not (summary == _NO_OUTPUT and stacks):
            message = f"{file}: terraform plan failed: {summary}"
            raise UserError.of("plan-failed", message, "see its whole output: terraform plan")
        missing.update(dict.fromkeys(stacks or ["another stack"]))
    return Plan(stack, {}, tuple(missing))


def _errors(content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yields summary of each error, and the other stacks that it names.

    Nothing where a line is not of such a log.
    """
    found = []
    for line in content.splitlines():
        entry = parsed(line)
        if not isinstance(entry, dict) or _LEVEL not in entry:
            return
        diagnostic = entry.get("diagnostic")
        if isinstance(diagnostic, dict) and diagnostic.get("severity") == "error":
            stacks = _INPUT.findall(json.dumps(diagnostic))
            found.append((str(diagnostic.get("summary")), stacks))
    yield from found


def _no_plan(file: Path, message: str) -> UserError:
    return UserError.of("not-a-plan", f"{file}: {message}", _HOW)

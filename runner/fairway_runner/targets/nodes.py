"""Nodes of a target as plain data, and actions on them, for callers that know no engine."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fairway_core.findings import Finding, Severity, UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.target import Target
from fairway_core.terraform_program import missing, program, title
from fairway_core.validation import Arguments, findings_of
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.engine import Node, engine_for, is_addressed, unready
from fairway_runner.engines.outage import brief

if TYPE_CHECKING:
    from fairway_runner.targets.lookup import KnownTarget


def node_facts(node: Node) -> dict[str, Any]:
    """Returns the facts of one node; null for unknown ones."""
    return {
        "name": node.name,
        "state": node.state,
        "address": node.address or None,
        "run": node.run or None,
        "reason": node.reason or None,
        **node.facts,
    }


def nodes_of(target: Target, deadline: float) -> list[dict[str, Any]]:
    """Returns all nodes, as `fairway nodes list --json` prints them. Raises UserError for a target
    that does not answer."""
    return [node_facts(node) for node in engine_for(target, deadline).nodes()]


def node_actions(target: Target) -> tuple[str, ...]:
    """Returns the possible actions on its nodes."""
    return capabilities(target.engine).node_actions


def act_on_node(target: Target, action: str, node: str) -> None:
    """Carries out an action on a node. Raises UserError if that fails."""
    engine_for(target).act_on_node(action, node)


def target_facts(targets: Sequence[KnownTarget], *, ask: bool) -> list[dict[str, Any]]:
    """Returns one mapping per target; `nodes_now` is null if it was not asked or does not answer;
    see also `ready`."""
    counts: list[int | None] = [None] * len(targets)
    if ask:
        with ThreadPoolExecutor(max_workers=16) as pool:
            counts = list(pool.map(lambda known: _nodes_now(known.target), targets))
    return [
        {**_facts(known.target), "nodes_now": count, "source": known.source}
        for known, count in zip(targets, counts, strict=True)
    ]


def _facts(target: Target) -> dict[str, Any]:
    size = None
    if target.vm_size:
        from fairway_core.catalog import vm_size

        with suppress(UserError):  # a custom size in fairway.yaml may be unknown
            size = vm_size(target.vm_size)
    fabric = size.infiniband if size and size.rdma else None
    return {
        "name": target.name,
        "environment": target.environment or None,
        "engine": target.engine,
        "vm_size": target.vm_size or None,
        "region": target.region or None,
        "gpus": size.gpu.count if size and size.gpu else 0,
        "infiniband_gbps": fabric.gbps * fabric.adapters if fabric else None,
        "nodes_min": target.nodes.min,
        "nodes_max": target.nodes.max,
        "spot": target.spot,
        "price": target.price,
        "mounts": target.mounts,
        "ready": unready(target) is None,
    }


def _nodes_now(target: Target) -> int | None:
    if not is_addressed(target):  # avoids importing an SDK only to report that
        return None
    try:
        return len(engine_for(target, brief()).nodes())
    except UserError:
        return None


_DEPLOY = "deploy it first: fairway deploy"
_WHERE = (
    "go to the folder it was deployed from, or name a file of outputs:\n"
    "fairway targets sync --from outputs.json"
)
_WRITE = "write it again: terraform output -json >FILE"


def read_targets(source: Path, environment: str | None = None) -> list[Target]:
    """Returns the targets in a folder of stacks or a file of outputs, sorted. Raises UserError for
    none, and for a folder with the stacks of another environment than this one."""
    try:
        found = _of_folder(source, environment) if source.is_dir() else _of_file(source)
        records = list(found)
    except RecursionError:
        message = f"{source} is nested too deep to be read"
        raise UserError.of("bad-outputs", message, _WRITE) from None
    if not records:
        raise UserError.of("no-targets", f"{source} has no output `targets`", _DEPLOY)
    targets: dict[str, Target] = {}
    for record in records:
        try:
            target = Target.model_validate(record)
        except ValidationError as error:
            first = findings_of(error, Arguments(record), Target.__value__)[0]
            message = f"{source}: this is not a target for this version of Fairway: {first.message}"
            raise UserError.of("bad-target", message, first.hint) from None
        if target.name in targets:
            message = f"{source}: two targets are named `{target.name}`"
            raise UserError.of("bad-target", message, "give one of the clusters another name")
        targets[target.name] = target
    return [targets[name] for name in sorted(targets)]


def as_person(targets: Sequence[Target], name: str | None, file: Path) -> list[Target]:
    """Returns the targets as the person of that account reaches them; without a name as the person
    for whom `file` was written before. Raises UserError for an account that no target has."""
    known = sorted({user for target in targets for user in target.users or {}})
    if name is None:
        name = next((each.user for each in _before(file) if each.user in (each.users or {})), "")
    elif name not in known:
        message = f"no target has an account `{name}`"
        hint = did_you_mean(name, known) or "`access.users` in the environment creates accounts"
        raise UserError.of("unknown-user", message, hint)
    return [target.as_user(name) for target in targets]


def replaced(found: Sequence[Target], file: Path) -> Iterator[Finding]:
    """Yields a warning for each environment that has targets in `file`, and none in these."""
    gone = {each.environment for each in _before(file)} - {each.environment for each in found}
    for name in sorted(gone - {""}):
        message = f"the targets of `{name}` are no longer known here"
        hint = f"to have them again in place of these, write the stacks of `{name}`, and sync again"
        yield Finding("replaced-targets", message, hint, severity=Severity.WARNING)


def _before(file: Path) -> list[Target]:
    """Returns the targets in a file that is written anew; none if it cannot be read."""
    try:
        return [Target.from_json(record) for record in json.loads(file.read_bytes())]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


def _of_file(file: Path) -> Iterator[Any]:
    try:
        outputs = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise UserError.of("no-targets", f"there is no {file}", _WHERE) from None
    except (OSError, ValueError) as error:
        message = f"{file} cannot be read as JSON: {error}"
        raise UserError.of("bad-outputs", message, _WRITE) from None
    yield from _in_outputs(outputs)


def _in_outputs(outputs: Any) -> Iterator[Any]:
    """Yields the records in a mapping of outputs, or of stacks with outputs."""
    if not isinstance(outputs, dict):
        return
    found = outputs.get("targets")
    if isinstance(found, dict) and "value" in found:  # the format of `terraform output -json`
        found = found["value"]
    if isinstance(found, list):
        yield from found
        return
    for stack in outputs.values():
        yield from _in_outputs(stack)


_CLUSTERS = "-compute"  # ends the name of the stack with an environment's clusters


def _of_folder(folder: Path, environment: str | None) -> Iterator[Any]:
    files = sorted((folder / "stacks").glob("*/cdk.tf*"))
    stacks = [file.parent for file in files if _has_targets(file)]
    if not stacks:
        message = f"{folder} holds no synthesized stack with clusters"
        raise UserError.of("no-targets", message, "synthesize it first: fairway synth")
    names = [name for name in map(_environment_of, stacks) if name]
    if environment and names and environment not in names:
        message = f"{folder} holds the environment `{names[0]}`, and `{environment}` is chosen"
        hint = f"fairway synth\nor, for the other: fairway targets sync --from {folder}"
        raise UserError.of("other-environment", message, hint)
    for stack in stacks:
        try:
            done = subprocess.run(
                [program(), f"-chdir={stack}", "output", "-json", "-no-color"],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise missing(error) from None
        why = _first_error(done.stderr) if done.returncode else ""
        # Not deployed, or a fresh clone: "Backend initialization required, please …".
        if "initialization required" in why or (not why and done.stdout.split() == ["{}"]):
            raise _not_deployed(stack)
        if done.returncode:
            message = f"{title()} has no outputs for {stack}: {why}"
            raise UserError.of("no-outputs", message, _DEPLOY, exit_code=5)
        yield from _in_outputs(json.loads(done.stdout))


def _environment_of(stack: Path) -> str:
    """Returns the name of the environment that has this stack; "" if it is a program's own."""
    name = stack.name.removesuffix(_CLUSTERS)
    is_one = name != stack.name and (stack.parent / f"{name}-network").is_dir()
    return name if is_one else ""


def _not_deployed(stack: Path) -> UserError:
    terraform = f"{program()} -chdir={shlex.quote(str(stack))}"
    if name := _environment_of(stack):
        what = f"the environment `{name}`"
        hint = f"fairway deploy {name}\nif it was deployed elsewhere: {terraform} init"
    else:
        what = f"the stack `{stack.name}`"
        hint = f"{terraform} init && {terraform} apply\nif it was deployed elsewhere: init alone"
    message = f"{what} is not deployed yet, or not from this folder"
    return UserError.of("not-deployed", message, hint)


def _has_targets(file: Path) -> bool:
    """Returns True if a stack publishes targets: an environment's clusters, or a program's own."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".tf":
            return '\noutput "targets" {' in text
        return "targets" in json.loads(text).get("output", {})
    except (OSError, ValueError):
        return False


def _first_error(text: str) -> str:
    """Returns Terraform's first error, without its frame."""
    lines = [line.strip(" │╷╵") for line in text.split("\n")]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    return errors[0] if errors else " ".join(lines).strip()[:400]

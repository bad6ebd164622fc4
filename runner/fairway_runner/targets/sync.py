"""Reads the targets that an environment has, from what Terraform put out.

Three forms of the same: the folder of synthesized stacks, which Terraform is asked about; the
file of `cdktf deploy --outputs-file`; the text of `terraform output -json`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fairway_boot.files import write_json
from fairway_core.findings import UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.target import Target
from fairway_core.terraform_program import program
from fairway_runner.runs.records import writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_DEPLOY = "deploy it first: fairway deploy"
_WHERE = (
    "go to the folder it was deployed from, or name a file of outputs:\n"
    "fairway targets sync --from outputs.json"
)
_WRITE = "write it again: terraform output -json >FILE"


def read_targets(source: Path) -> list[Target]:
    """The targets in a folder of stacks or a file of outputs, sorted; UserError for none."""
    try:
        records = list(_of_folder(source) if source.is_dir() else _of_file(source))
    except RecursionError:
        raise UserError.of(
            "bad-outputs", f"{source} is nested too deep to be read", _WRITE
        ) from None
    if not records:
        raise UserError.of("no-targets", f"{source} has no output `targets`", _DEPLOY)
    targets: dict[str, Target] = {}
    for record in records:
        try:
            target = Target.model_validate(record)
        except ValidationError as error:
            message = f"{source}: this is not a target for this version of Fairway: {record}"
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "target"
            raise UserError.of("bad-target", message[:300], f"{where}: {first['msg']}") from None
        if target.name in targets:
            message = f"{source}: two targets are named `{target.name}`"
            raise UserError.of("bad-target", message, "give one of the clusters another name")
        targets[target.name] = target
    return [targets[name] for name in sorted(targets)]


def as_person(targets: Sequence[Target], name: str | None, file: Path) -> list[Target]:
    """The targets as the person of that account reaches them; without a name as the one for whom
    `file` was written before. UserError for an account that no target has."""
    known = sorted({user for target in targets for user in target.users or {}})
    if name is None:
        name = _written_for(file)
    elif name not in known:
        message = f"no target has an account `{name}`"
        hint = did_you_mean(name, known) or "`access.users` in the environment creates accounts"
        raise UserError.of("unknown-user", message, hint)
    return [target.as_user(name) for target in targets]


def _written_for(file: Path) -> str:
    """The account of the person in a file of targets; "" where it names nobody's own."""
    try:
        before = [Target.model_validate(record) for record in json.loads(file.read_bytes())]
    except (OSError, ValueError, TypeError, RecursionError):
        return ""  # it is written anew
    return next((each.user for each in before if each.user in (each.users or {})), "")


def write_targets(targets: Sequence[Target], file: Path) -> None:
    """Replaces the file of synchronized targets as a whole."""
    with writing(f"{file} cannot be written", f"ls -ld {file.parent}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / ".gitignore").write_text("*\n", encoding="ascii")
        write_json(file, [target.record() for target in targets])


def _of_file(file: Path) -> Iterator[Any]:
    try:
        outputs = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise UserError.of("no-targets", f"there is no {file}", _WHERE) from None
    except (OSError, ValueError) as error:
        raise UserError.of(
            "bad-outputs", f"{file} cannot be read as JSON: {error}", _WRITE
        ) from None
    yield from _in_outputs(outputs)


def _in_outputs(outputs: Any) -> Iterator[Any]:
    """The records in a mapping of outputs, or of stacks with outputs."""
    if not isinstance(outputs, dict):
        return
    found = outputs.get("targets")
    if isinstance(found, dict) and "value" in found:  # as `terraform output -json` has it
        found = found["value"]
    if isinstance(found, list):
        yield from found
        return
    for stack in outputs.values():
        yield from _in_outputs(stack)


def _of_folder(folder: Path) -> Iterator[Any]:
    files = sorted((folder / "stacks").glob("*/cdk.tf*"))
    stacks = [file.parent for file in files if _has_targets(file)]
    if not stacks:
        message = f"{folder} holds no synthesized stack with clusters"
        raise UserError.of("no-targets", message, "synthesize it first: fairway synth")
    if shutil.which(program()) is None:
        hint = "install Terraform, or name a file of outputs: fairway targets sync --from FILE"
        raise UserError.of("missing-tool", f"`{program()}` is not on PATH", hint, exit_code=4)
    for stack in stacks:
        done = subprocess.run(
            [program(), f"-chdir={stack}", "output", "-json", "-no-color"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        why = _first_error(done.stderr) if done.returncode else ""
        # Before a deployment, and in a fresh clone: "Backend initialization required, please …".
        if "initialization required" in why or (not why and done.stdout.split() == ["{}"]):
            name = stack.name.removesuffix("-compute")
            message = f"the environment `{name}` is not deployed yet, or not from this folder"
            hint = f"fairway deploy {name}\nif it was deployed elsewhere: "
            hint += f"{program()} -chdir={stack} init"
            raise UserError.of("not-deployed", message, hint)
        if done.returncode:
            message = f"terraform has no outputs for {stack}: {why}"
            raise UserError.of("no-outputs", message, _DEPLOY, exit_code=5)
        yield from _in_outputs(json.loads(done.stdout))


def _has_targets(file: Path) -> bool:
    """True if a stack publishes targets: an environment's clusters, or a program's own."""
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".tf":
            return '\noutput "targets" {' in text
        return "targets" in json.loads(text).get("output", {})
    except (OSError, ValueError):
        return False


def _first_error(text: str) -> str:
    """Terraform's first error, without its frame."""
    lines = [line.strip(" │╷╵") for line in text.split("\n")]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    return errors[0] if errors else " ".join(lines).strip()[:400]

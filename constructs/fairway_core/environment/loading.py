"""Reads an environment file: its variables, its defaults, and the SSH keys that it refers to."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.documents import Document, read
from fairway_core.environment.clusters import KINDS
from fairway_core.environment.defaults import (
    apply_defaults,
    field_path,
    substitute,
    without_repeats,
)
from fairway_core.environment.keys import own_public_keys, read_public_keys, read_repository_key
from fairway_core.environment.model import Environment
from fairway_core.findings import Finding, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_core.environment.access import Person
    from fairway_core.environment.clusters.slurm.scheduler import Slurm
    from fairway_core.yaml_text import DataPath

# Top-level keys that hold only YAML anchors, as in Compose files.
_ANCHORS = "x-"


@dataclass(frozen=True)
class LoadedEnvironment:
    """An environment, and the document that it was read from, with the line of every value."""

    environment: Environment
    document: Document


def load_environment(
    file: str | Path, *, overrides: Sequence[str] = (), home: Path | None = None
) -> Environment:
    """Returns the environment in `file`, with each `dotted.path=value` of `overrides` applied.
    Paths of keys are relative to the file's folder; `home` holds the user's own keys. Raises
    UserError with a located finding for each fault."""
    return read_environment(file, overrides=overrides, home=home).environment


def read_environment(
    file: str | Path,
    *,
    overrides: Sequence[str] = (),
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedEnvironment:
    """Loads an environment like `load_environment`, with the document, in which checks find lines;
    `${env:NAME}` is looked up in `environ`, by default that of the process."""
    document = read(file)
    if isinstance(document.data, dict):
        data = {key: item for key, item in document.data.items() if not key.startswith(_ANCHORS)}
        document = replace(document, data=data)
    if isinstance(document.data, dict) and "command" in document.data:
        message = "this is a job file: it has `command:`"
        hint = f"check it with: fairway submit {file} --dry-run; an environment has `clusters:`"
        location = document.location(("command",), of_key=True)
        raise UserError([Finding("not-an-environment", message, hint, location=location)])
    document = document.override(overrides, Environment)
    variables = os.environ if environ is None else environ
    document = substitute(document, Environment, variables, field_path)
    document = apply_defaults(document, Environment)
    try:
        environment = document.validate(Environment)
    except UserError as error:
        findings = [_explain_idle(each, document) for each in error.findings]
        raise without_repeats(UserError(findings, exit_code=error.exit_code), document) from None
    keys = _keys(environment, document, home or Path.home())
    update: dict[str, object] = {"ssh_keys": keys}
    if "users" in environment.access.model_fields_set:
        update["users"] = _people(environment, document)
    access = environment.access.model_copy(update=update)
    slurm = _with_repository_key(environment.slurm, document)
    changed = {"access": access, "slurm": slurm}
    return LoadedEnvironment(environment.model_copy(update=changed), document)


def _with_repository_key(slurm: Slurm | None, document: Document) -> Slurm | None:
    """Returns Slurm's settings with the text of the repository's key in place of its file."""
    if slurm is None or isinstance(slurm.packages, str):
        return slurm
    with _at(("slurm", "packages", "key"), document):
        key = read_repository_key(slurm.packages.key, folder=Path(document.file).parent)
    packages = slurm.packages.model_copy(update={"key": key})
    return slurm.model_copy(update={"packages": packages})


def _explain_idle(finding: Finding, document: Document) -> Finding:
    """Returns the finding, with a hint on what replaces `idle:` if nodes are deleted when idle."""
    match = re.fullmatch(r"clusters\.([^.]+)\.idle", finding.path)
    if match is None or finding.id != "unknown-key":
        return finding
    kind = KINDS.get(str(document.data["clusters"][match[1]].get("engine")))
    if kind is None or not kind.in_place_of_idle:
        return finding
    message = (
        f"`{finding.path}`: this engine starts and removes nodes as needed, and none of them stops"
    )
    return replace(finding, message=f"{message} itself", hint=kind.in_place_of_idle)


@contextmanager
def _at(path: DataPath, document: Document, *, of_key: bool = False) -> Iterator[None]:
    """Adds a field's path and location to errors about its keys; a private key is not shown."""
    try:
        yield
    except UserError as error:
        location = document.location(path, of_key=of_key)
        if path[0] == "access" and any(each.id == "private-key" for each in error.findings):
            location = location.hidden
        dotted = ".".join(map(str, path))
        raise UserError(
            replace(finding, path=dotted, location=location) for finding in error.findings
        ) from None


def _keys(environment: Environment, document: Document, home: Path) -> tuple[str, ...]:
    """Returns the keys of the file, or the user's own if a machine takes one; nodes of Batch take
    none."""
    if environment.access.ssh_keys is not None:
        return _read(environment.access.ssh_keys, document, ("access", "ssh_keys"))
    machine = environment.first_machine
    if machine is None:
        return ()
    with _at(machine, document, of_key=True):
        return own_public_keys(home)


def _people(environment: Environment, document: Document) -> tuple[Person, ...]:
    return tuple(
        person.model_copy(
            update={"keys": _read(person.keys, document, ("access", "users", index, "keys"))}
        )
        if person.keys
        else person
        for index, person in enumerate(environment.access.users)
    )


def _read(entries: Sequence[str], document: Document, where: DataPath) -> tuple[str, ...]:
    """Returns the keys that a list of keys and files refers to, without duplicates."""
    keys: dict[str, None] = {}
    for index, entry in enumerate(entries):
        with _at((*where, index), document):
            found = read_public_keys(entry, folder=Path(document.file).parent)
        keys.update(dict.fromkeys(found))
    return tuple(keys)

"""Values from elsewhere: the file's `defaults:`, and `${env:NAME}` in the caller's environment."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import Field

from fairway_agent.quick import dataclass
from fairway_core.annotations import annotations_at, fields_at
from fairway_core.documents import Model
from fairway_core.findings import Finding, Location, UserError
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import parse_yaml, unfit_character

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from fairway_core.documents import Document
    from fairway_core.yaml_text import DataPath

SECTIONS = {"cluster": "clusters", "filesystem": "filesystems"}


class Defaults(Model, defer_build=True):
    """Default values of fields for every cluster, or every file system.

    A default applies where the kind or engine has that field. Mappings are merged key by key; any
    other value replaces the default.
    """

    cluster: dict[str, Any] = Field(default_factory=dict)
    """Fields of every cluster, for example `engine`, `image` or `mounts`."""

    filesystem: dict[str, Any] = Field(default_factory=dict)
    """Fields of every file system, for example `kind` or `size`."""


def apply_defaults(document: Document, model: type[BaseModel]) -> Document:
    """Returns the document with its `defaults:` merged under each item of their section, with their
    own line numbers. Raises UserError for a key that no cluster or no file system has."""
    data = document.data
    defaults = data.get("defaults") if isinstance(data, dict) else None
    if not isinstance(defaults, dict):
        return document
    merged, inherited = dict(data), _Inherited(document, dict(document.overrides))
    for singular, plural in SECTIONS.items():
        fields, items = defaults.get(singular), data.get(plural)
        if not isinstance(fields, dict):
            continue
        _require_known(document, model, singular)
        if isinstance(items, dict):
            merged[plural] = {}
            for name, given in items.items():
                own = {} if given is None else given
                filled = {plural: {name: {**fields, **own}}} if isinstance(own, dict) else {}
                known = fields_at(model, (plural, name), filled)
                fit = {key: value for key, value in fields.items() if key in known}
                path, source = (plural, name), ("defaults", singular)
                merged[plural][name] = inherited.merge(own, fit, path, source)
    return replace(document, data=merged, overrides=inherited.locations)


@dataclass
class _Inherited:
    """Merges defaults under values, and records the source location of each inherited value."""

    document: Document
    locations: dict[DataPath, Location]

    def merge(self, own: Any, default: Any, path: DataPath, source: DataPath) -> Any:
        if not isinstance(own, dict) or not isinstance(default, dict):
            return own
        result = dict(own)
        for key, value in default.items():
            below, origin = (*path, key), (*source, key)
            if key in own:
                result[key] = self.merge(own[key], value, below, origin)
            else:
                result[key] = value
                self._note(value, below, origin)
        return result

    def _note(self, value: Any, path: DataPath, source: DataPath) -> None:
        self.locations[path] = self.document.location(source)
        parts = value.items() if isinstance(value, dict) else ()
        for key, item in enumerate(value) if isinstance(value, list) else parts:
            self._note(item, (*path, key), (*source, key))


def field_path(path: DataPath) -> DataPath:
    """Returns the path of the field that a default stands for; other paths are unchanged."""
    if len(path) > 1 and path[0] == "defaults" and path[1] in SECTIONS:
        return (SECTIONS[str(path[1])], "any", *path[2:])
    return path


def without_repeats(error: UserError, document: Document) -> UserError:
    """Returns the error without repetitions: a wrong default is wrong in all that inherit it."""
    inherited = {location for path, location in document.overrides.items() if path[0] != "defaults"}
    seen: set[tuple[str, Location | None]] = set()
    findings = []
    for finding in error.findings:
        key = (finding.id, finding.location)
        if finding.location in inherited and key in seen:
            continue
        seen.add(key)
        findings.append(finding)
    return UserError(findings, exit_code=error.exit_code)


def _require_known(document: Document, model: type[BaseModel], singular: str) -> None:
    plural = SECTIONS[singular]
    known = fields_at(model, (plural, "any"), {})
    findings = [
        document.finding(
            "unknown-key",
            ("defaults", singular, key),
            f"no {singular} has a key `{key}`",
            did_you_mean(key, known),
            of_key=True,
        )
        for key in document.data["defaults"][singular]
        if key not in known
    ]
    if findings:
        raise UserError(findings)


_REFERENCE = re.compile(r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_OPENING = "${env:"


def substitute(
    document: Document,
    model: type[BaseModel],
    environ: Mapping[str, str],
    field_path: Callable[[DataPath], DataPath] = lambda path: path,
) -> Document:
    """Returns the document with each `${env:NAME}` in its values, never in its keys, replaced.

    The text is parsed as the type of the model's field, so that `zone: ${env:ZONE}` is a number;
    `field_path` returns the path of the field that gives the type. Raises UserError with a located
    finding for each variable that is not set and has no default.
    """
    findings: list[Finding] = []

    def walk(value: Any, path: DataPath) -> Any:
        match value:
            case dict():
                return {key: walk(item, (*path, key)) for key, item in value.items()}
            case list():
                return [walk(item, (*path, index)) for index, item in enumerate(value)]
            case str() if _OPENING in value:
                fault = _fault(value, environ)
                if fault:
                    dotted, location = ".".join(map(str, path)), document.location(path)
                    findings.append(replace(fault, path=dotted, location=location))
                    return value
                text = _REFERENCE.sub(lambda m: environ.get(m["name"], m["default"]) or "", value)
                return _as_field(text, annotations_at(model, field_path(path)))
        return value

    data = walk(document.data, ())
    if findings:
        raise UserError(findings)
    return replace(document, data=data)


def _fault(text: str, environ: Mapping[str, str]) -> Finding | None:
    if _OPENING in _REFERENCE.sub("", text):
        hint = "write ${env:NAME}, or ${env:NAME:-default}"
        return Finding("bad-variable", f"`{text[:60]}` does not name a variable", hint)
    for match in _REFERENCE.finditer(text):
        name, value = match["name"], environ.get(match["name"], match["default"])
        if value is None:
            hint = f"export {name}=…, or give a default: ${{env:{name}:-default}}"
            return Finding("unset-variable", f"the variable {name} is not set", hint)
        if character := unfit_character(value):
            hint = f"export {name}=… without it"
            return Finding("bad-variable", f"{name} holds the character {character}", hint)
    return None


def _as_field(text: str, annotations: list[Any]) -> Any:
    """Parses the text as one YAML value if the field takes anything but text."""
    if not annotations or any(_takes_text(each, text) for each in annotations):
        return text
    try:
        value = parse_yaml(text, "").data
    except UserError:
        return text
    return text if isinstance(value, dict | list) else value


def _takes_text(annotation: Any, text: str) -> bool:
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return text in choices or all(isinstance(choice, str) for choice in choices)
    return annotation in (str, Any)

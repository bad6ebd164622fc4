"""Values that a file takes from the caller's environment: `${env:NAME}`, `${env:NAME:-default}`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from fairway_core.annotations import annotations_at
from fairway_core.findings import Finding, UserError
from fairway_core.yaml_text import parse_yaml, unfit_character

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from fairway_core.documents import Document
    from fairway_core.yaml_text import DataPath

_REFERENCE = re.compile(r"\$\{env:(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_OPENING = "${env:"


def substitute(
    document: Document,
    model: type[BaseModel],
    environ: Mapping[str, str],
    typed_as: Callable[[DataPath], DataPath] = lambda path: path,
) -> Document:
    """The document with each `${env:NAME}` in its values, never in its keys, replaced.

    The text becomes what the model's field is, so that `zone: ${env:ZONE}` is a number;
    `typed_as` answers with the path of the field that says so. Raises UserError with a
    located finding for each variable that is not set and has no default.
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
                text = _REFERENCE.sub(lambda match: _value(match, environ) or "", value)
                return _as_field(text, annotations_at(model, typed_as(path)))
        return value

    data = walk(document.data, ())
    if findings:
        raise UserError(findings)
    return replace(document, data=data)


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str | None:
    return environ.get(match["name"], match["default"])


def _fault(text: str, environ: Mapping[str, str]) -> Finding | None:
    if _OPENING in _REFERENCE.sub("", text):
        hint = "write ${env:NAME}, or ${env:NAME:-default}"
        return Finding("bad-variable", f"`{text[:60]}` does not name a variable", hint)
    for match in _REFERENCE.finditer(text):
        name, value = match["name"], _value(match, environ)
        if value is None:
            hint = f"export {name}=…, or give a default: ${{env:{name}:-default}}"
            return Finding("unset-variable", f"the variable {name} is not set", hint)
        if character := unfit_character(value):
            hint = f"export {name}=… without it"
            return Finding("bad-variable", f"{name} holds the character {character}", hint)
    return None


def _as_field(text: str, annotations: list[Any]) -> Any:
    """The text as one value of YAML, where the field takes anything but text."""
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

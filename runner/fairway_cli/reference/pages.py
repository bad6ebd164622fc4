"""Generated parts of the docs: fields of both files, checks, engines, and calls of a server."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks import Subject, all_checks
from fairway_core.checks.live import LIVE
from fairway_core.schema import models_in, schema_of
from fairway_runner.engines.capabilities import ENGINES, table
from fairway_web.api import CALLS
from fairway_web.roles import ACTIONS, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import BaseModel

    from fairway_core.checks import Check


# What a field takes that takes a value of any kind.
_VALUE = ("text", "whole number", "number", "`true` or `false`")
_LISTED = re.compile(r"(\w+) {2,}\S")
_VARIABLE = re.compile(r"\bFAIRWAY_[A-Z_]+<\w+>")


def fields_of(root: type[BaseModel]) -> str:
    """A section for each model of a file, with a table of its fields."""
    schema = schema_of(root, title="")
    models, paths, parts = models_in(root), _paths(schema), []
    for name, model in models.items():
        own = schema if name == root.__name__ else schema["$defs"].get(name)
        if own is not None:
            parts.append(_section(name, model, own, models, paths.get(name, [])))
    return "\n".join(parts)


def _paths(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """Paths at which a file uses each definition, such as `clusters.NAME`; the shortest first."""
    found: dict[str, list[str]] = {}
    waiting = [("", schema)]
    while waiting:
        path, each = waiting.pop(0)
        for name, below in _used_in(path, each):
            if name in found:
                found[name].append(below)
            else:
                found[name] = [below]
                waiting.append((below, schema["$defs"][name]))
    return {name: list(dict.fromkeys(paths)) for name, paths in found.items()}


def _used_in(path: str, schema: Any) -> Iterator[tuple[str, str]]:
    """The definitions that a schema refers to, each with the path at which."""
    if isinstance(schema, list):
        for each in schema:
            yield from _used_in(path, each)
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2], path
    for key in ("anyOf", "oneOf"):
        yield from _used_in(path, schema.get(key))
    for field, value in schema.get("properties", {}).items():
        yield from _used_in(f"{path}.{field}".lstrip("."), value)
    yield from _used_in(f"{path}.NAME", schema.get("additionalProperties"))
    yield from _used_in(f"{path}[]", schema.get("items"))


def _section(
    name: str,
    model: type[BaseModel],
    schema: Mapping[str, Any],
    models: Mapping[str, Any],
    paths: Sequence[str],
) -> str:
    required = schema.get("required", ())
    fields = schema.get("properties", {})
    lines = [f"## {name}\n"]
    if paths:
        where = ", ".join(f"`{path}`" for path in paths)
        lines.append(f"In the file: {where}{_kind(fields)}.\n")
    lines.append(_prose(inspect.getdoc(model) or "", fields) + "\n")
    if fields:
        lines += ["| field | takes | default | meaning |", "|---|---|---|---|"]
    for field, value in schema.get("properties", {}).items():
        default = "required" if field in required else _default(value)
        words = _outside_code(re.sub(r"\s+", " ", value.get("description", "")))
        cells = (f"`{field}`", _type(value, models), default, words)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _kind(fields: Mapping[str, Any]) -> str:
    """The field that tells one kind of a cluster or file system from the others."""
    for field, value in fields.items():
        if "const" in value:
            default = " or without it" if "default" in value else ""
            return f", with `{field}: {value['const']}`{default}"
    return ""


def _prose(docstring: str, fields: Mapping[str, Any]) -> str:
    """A docstring as Markdown: examples are fenced, and a list of the fields is left out. Their
    table follows."""
    paragraphs = []
    for paragraph in docstring.split("\n\n"):
        listed = [match[1] for match in map(_LISTED.match, paragraph.splitlines()) if match]
        if paragraph.startswith(">>> "):
            paragraphs.append(f"```pycon\n{paragraph}\n```")
        elif not listed:
            paragraphs.append(_outside_code(paragraph))
        elif not all(name in fields for name in listed):
            paragraphs.append(f"```text\n{paragraph}\n```")
    return "\n\n".join(paragraphs)


def _outside_code(text: str) -> str:
    """The text, with variables as code: a page would take their <ID> for HTML."""
    parts = text.split("`")
    parts[::2] = [_VARIABLE.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: Any, models: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branches = [_type(each, models) for each in schema[key] if each.get("type") != "null"]
            if set(_VALUE) <= set(branches):
                branches = ["value", *(each for each in branches if each not in _VALUE)]
            return " or ".join(dict.fromkeys(branches))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{choice}`" for choice in schema["enum"])
    return _plain_type(schema, models)


def _plain_type(schema: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    match schema.get("type"):
        case "array":
            items = _type(schema.get("items"), models)
            return f"list of {'values' if items == 'value' else items}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"name: {_type(schema['additionalProperties'], models)}"
        case "object":
            return "mapping"
        case "string" if "examples" in schema:
            return "text such as " + ", ".join(f"`{each}`" for each in schema["examples"])
        case "integer" | "number" as kind:
            bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}
            said = [f"{sign} {schema[key]}" for key, sign in bounds.items() if key in schema]
            noun = "whole number" if kind == "integer" else "number"
            return " ".join([noun, ", ".join(said)]).strip()
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
    return "anything"


_SECTIONS = {
    Subject.ENVIRONMENT: "On the environment file",
    Subject.TERRAFORM: "On the generated Terraform",
    Subject.PLAN: "On a plan",
    Subject.JOB: "On a job",
}


def checks() -> str:
    """A table of the checks, and a section for each with its examples."""
    rows = [
        f"| [{check.id}](#{check.id}) | {check.severity} | {check.summary} |"
        for check in all_checks()
    ]
    parts = ["| check | severity | looks at |", "|---|---|---|", *rows, ""]
    for subject, title in _SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(check) for check in all_checks(subject)]
    return "\n".join(parts)


def live_checks() -> str:
    """A table of the checks that ask Azure."""
    rows = ["| check | severity | looks at | reads, under the subscription |", "|---|---|---|---|"]
    rows += [
        f"| `{id_}` | {one.severity} | {one.text} | {one.reads} |" for id_, one in LIVE.items()
    ]
    return "\n".join(rows)


def _entry(check: Check) -> str:
    explained = check.explanation
    return (
        f"### {check.id}\n\n*{check.severity.capitalize()}.* {explained.text}\n\n"
        f"Fails:\n\n```yaml\n{explained.wrong}\n```\n\n"
        f"Passes:\n\n```yaml\n{explained.right}\n```\n"
    )


def engines() -> str:
    """A table of what engines can do."""
    rows = [["", *(f"`{name}`" for name in ENGINES)], ["---"] * (len(ENGINES) + 1)]
    rows += [[title, *words] for title, words in table()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows).replace("|  |", "| |")


def roles() -> str:
    """A table of what each role may do on a server."""
    names = " | ".join(role.title for role in Role)
    rows = [f"| permission | {names} |", "|---|---|---|---|"]
    for least, says in ACTIONS.values():
        marks = ("yes" if role >= least else "" for role in Role)
        rows.append(f"| {says} | {' | '.join(marks)} |")
    return "\n".join(rows)


def calls() -> str:
    """A table of the calls of a server."""
    rows = ["| call | returns |", "|---|---|"]
    for method, path, function, _ in CALLS:
        shown = re.sub(r"\{(\w+)(:path)?\}", lambda found: found[1].upper(), path)
        says = " ".join(function.__doc__.split()).removesuffix(".")
        rows.append(f"| `{method} /api/v1{shown}` | {says} |")
    return "\n".join(rows)

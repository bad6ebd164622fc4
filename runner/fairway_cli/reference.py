"""Parts of the documentation that are generated from the code; see bin/docs.

    reference FOLDER   renews the pages there

Constructs are read from their source: importing the classes would start Node.js.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from functools import cache, partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fairway_constructs
from fairway_constructs.arguments import plain_type
from fairway_core.checks import Subject, all_checks
from fairway_core.checks.live import LIVE
from fairway_core.environment.model import Environment
from fairway_core.schema import models_in, schema_of
from fairway_runner.engines.capabilities import ENGINES, table
from fairway_runner.jobs.job import Job
from fairway_web.api import CALLS
from fairway_web.roles import ACTIONS, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pydantic import BaseModel

# Public members of every construct in cdktf.
_CDKTF = frozenset({"node", "synth", "to_terraform"})


def constructs() -> str:
    """Returns a section for each class and function of the library."""
    return "\n".join(_class_section(name, node) for name, node in exported().items())


@cache
def exported() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """Returns the definition of each exported name of the library's own, by name."""
    found: dict[str, ast.ClassDef | ast.FunctionDef] = {}
    for name in sorted(fairway_constructs.__all__):
        package, _, module = fairway_constructs._MODULES[name].partition(".")
        path = f"{module.replace('.', '/')}.py"
        text = (files(package) / path).read_text(encoding="utf-8")
        tree = ast.parse(text)
        body = _Constants(tree, is_library=package == "fairway_constructs").visit(tree).body
        known = {one.name: one for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
        if node := known.get(name):
            found[name] = node
            bases = [ast.unparse(each) for each in getattr(node, "bases", ())]
            for base in bases:
                if base in known and base not in fairway_constructs.__all__:  # no own section
                    bases += map(ast.unparse, getattr(known[base], "bases", ()))
                    node.body += filter(_is_public, known[base].body)
    return found


class _Constants(ast.NodeTransformer):
    """Replaces names of a module's constants by their values, those of small values by types, and
    in modules of the library others too, as a section of a file may have text for an object."""

    def __init__(self, tree: ast.Module, *, is_library: bool) -> None:
        self._values: dict[str, ast.expr] = {
            ast.unparse(each.targets[0]): each.value
            for each in tree.body
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        }
        types: tuple[str, ...] = ("fairway_core.environment.values",)
        if is_library:
            types = ("fairway_core.", "fairway_constructs.cloud_init.")
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom) and str(each.module).startswith(types):
                module = import_module(str(each.module))
                for name in (alias.name for alias in each.names):
                    if plain := plain_type(getattr(module, name)):
                        self._values[name] = ast.parse(plain, mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def arguments_of(node: ast.ClassDef | ast.FunctionDef) -> list[tuple[str, str, str]]:
    """Returns each argument with its type and its default, "" for none."""
    if isinstance(node, ast.FunctionDef):
        return list(_arguments(node, skip=0))
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return list(_arguments(each, skip=1))
    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    if not is_dataclass and not _is_model(node):
        return []
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return [
        (ast.unparse(each.target), _annotation(each.annotation), _field_default(each.value))
        for each in fields
        if "ClassVar" not in ast.unparse(each.annotation)
    ]


def _is_model(node: ast.ClassDef) -> bool:
    return any(ast.unparse(each) == "Model" for each in node.bases)


def _arguments(function: ast.FunctionDef, *, skip: int) -> Iterator[tuple[str, str, str]]:
    given = function.args
    plain = given.args[skip:]
    late: list[ast.expr | None] = [None] * (len(plain) - len(given.defaults))
    defaults = [*late, *given.defaults, *given.kw_defaults]
    found = zip([*plain, *given.kwonlyargs], defaults, strict=True)
    for place, (argument, default) in enumerate(found):
        if given.vararg and place == len(plain):
            yield f"*{given.vararg.arg}", _annotation(given.vararg.annotation), ""
        shown = ast.unparse(default) if default is not None else ""
        yield argument.arg, _annotation(argument.annotation), shown


def _annotation(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    return ast.unparse(annotation) if annotation is not None else ""


def _field_default(value: ast.expr | None) -> str:
    """Returns the default of a field; `field(default_factory=list)` gives `list()`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "Field"):
        given = {each.arg: ast.unparse(each.value) for each in value.keywords}
        factory = given.get("default_factory")
        return f"{factory}()" if factory else given.get("default", "")
    return ast.unparse(value) if value is not None else ""


def _class_section(name: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    parts = [f"## {name}\n"]
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(each) for each in node.bases]
        links = [f"[{each}](#{each.lower()})" for each in bases if each in exported()]
        if links:
            parts.append(f"Has all of {' and '.join(links)}.\n")
    parts.append(_text(ast.get_docstring(node) or ""))
    rows = [
        (f"`{argument}`", _code(takes), _code(default) if default else "required")
        for argument, takes, default in arguments_of(node)
        if argument != "scope"
    ]
    if rows:
        parts.append(_table(("argument", "takes", "default"), rows) + "\n")
    if isinstance(node, ast.ClassDef):
        if attributes := ", ".join(f"`{each}`" for each in _attributes(node)):
            parts.append(f"Attributes: {attributes}.\n")
        parts += [
            _method(each)
            for each in node.body
            if isinstance(each, ast.FunctionDef) and _is_public(each)
        ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _attributes(node: ast.ClassDef) -> list[str]:
    """Returns the attributes of an instance, apart from methods and properties."""
    found: dict[str, None] = {}
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            named = [one for one in ast.walk(each) if isinstance(one, ast.Attribute)]
            own = (one for one in named if isinstance(one.ctx, ast.Store))
            found |= dict.fromkeys(one.attr for one in own if ast.unparse(one.value) == "self")
        elif isinstance(each, ast.AnnAssign) and not (node.decorator_list or _is_model(node)):
            found |= {ast.unparse(each.target): None}
    return [each for each in found if not each.startswith("_") and not each.isupper()]


def _is_public(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and node.name not in _CDKTF
        and not any("setter" in ast.unparse(each) for each in node.decorator_list)
    )


def _method(node: ast.FunctionDef) -> str:
    text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    kinds = " ".join(ast.unparse(each) for each in node.decorator_list)
    given = ", ".join(
        f"{name}: {takes}" + (f" = {default}" if default else "")
        for name, takes, default in _arguments(node, skip=0 if "staticmethod" in kinds else 1)
    )
    return f"- `{node.name}{'' if 'property' in kinds else f'({given})'}`: {text}"


def _code(text: str) -> str:
    """Formats a type or value for a table, in which `|` would begin another cell."""
    parts = text.split(" | ")
    if any(each.count("[") != each.count("]") for each in parts):
        parts = [text.replace(" | ", " or ")]
    return " or ".join(f"`{each}`" for each in parts)


def _text(docstring: str) -> str:
    lines, code = [], False
    for line in inspect.cleandoc(docstring).splitlines():
        shown = re.match(r"(?:>>>|\.\.\.) ?(.*?)(?:\s*# doctest: \+SKIP)?$", line)
        if (shown is not None) != code and (shown or not line):
            lines += ["```python"] if shown else ["```", ""]
            code = shown is not None
        if shown is None or shown[1]:
            lines.append(shown[1] if shown else line)
    text = "\n".join([*lines, "```"] if code else lines)
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


# Types of a field that accepts any scalar.
_VALUE = ("text", "whole number", "number", "`true` or `false`")
_LISTED = re.compile(r"(\w+) {2,}\S")
_VARIABLE = re.compile(r"\bFAIRWAY_[A-Z_]+<\w+>")


def fields_of(root: type[BaseModel]) -> str:
    """Returns a section for each model of a file, with a table of its fields."""
    schema = schema_of(root, title="")
    models, paths, parts = models_in(root), _paths(schema), []
    for name, model in models.items():
        own = schema if name == root.__name__ else schema["$defs"].get(name)
        if own is not None:
            parts.append(_section(name, model, own, models, paths.get(name, [])))
    return "\n".join(parts)


def _paths(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """Returns the paths of each definition in a file, as `clusters.NAME`; the shortest first."""
    found: dict[str, list[str]] = {}
    waiting = [("", schema)]
    for path, each in waiting:  # the list grows meanwhile
        for name, below in _used_in(path, each):
            if name not in found:
                waiting.append((below, schema["$defs"][name]))
            found.setdefault(name, []).append(below)
    return {name: list(dict.fromkeys(paths)) for name, paths in found.items()}


def _used_in(path: str, schema: Any) -> Iterator[tuple[str, str]]:
    """Yields the definitions that a schema refers to, each with its path."""
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
    rows = []
    for field, value in fields.items():
        default = "required" if field in required else ""
        if not default and (given := value.get("default")) not in (None, "", [], {}):
            default = f"`{json.dumps(given, ensure_ascii=False)}`"
        words = _outside_code(re.sub(r"\s+", " ", value.get("description", "")))
        cells = (f"`{field}`", _type(value, models), default, words)
        rows.append([cell.replace("|", "\\|") for cell in cells])
    if rows:
        lines.append(_table(("field", "takes", "default", "meaning"), rows))
    return "\n".join(lines) + "\n"


def _kind(fields: Mapping[str, Any]) -> str:
    """Returns words about the field by which a cluster's or file system's kinds differ, or ""."""
    for field, value in fields.items():
        if "const" in value:
            default = " or without it" if "default" in value else ""
            return f", with `{field}: {value['const']}`{default}"
    return ""


def _prose(docstring: str, fields: Mapping[str, Any]) -> str:
    """Formats a docstring in Markdown, without its list of the fields: their table follows."""
    paragraphs = []
    for paragraph in docstring.split("\n\n"):
        listed = [match[1] for match in map(_LISTED.match, paragraph.splitlines()) if match]
        if paragraph.startswith(">>> "):
            if all(line.startswith((">>>", "...")) for line in paragraph.splitlines()):
                continue  # it only creates one, as programs do, but no file
            paragraphs.append(f"```pycon\n{paragraph}\n```")
        elif not listed:
            paragraphs.append(_outside_code(paragraph))
        elif not all(name in fields for name in listed):
            paragraphs.append(f"```text\n{paragraph}\n```")
    return "\n\n".join(paragraphs)


def _outside_code(text: str) -> str:
    """Returns the text, with variables as code: a page would take their <ID> for HTML."""
    parts = text.split("`")
    parts[::2] = [_VARIABLE.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _type(schema: Any, models: Mapping[str, Any]) -> str:
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
    """Returns a table of the checks, and a section for each with its examples."""
    rows = [(f"[{one.id}](#{one.id})", one.severity, one.summary) for one in all_checks()]
    parts = [_table(("check", "severity", "looks at"), rows), ""]
    for subject, title in _SECTIONS.items():
        parts.append(f"## {title}\n")
        for check in all_checks(subject):
            explained = check.explanation
            parts += [
                f"### {check.id}\n\n*{check.severity.capitalize()}.* {explained.text}\n",
                f"Fails:\n\n```yaml\n{explained.wrong}\n```\n",
                f"Passes:\n\n```yaml\n{explained.right}\n```\n",
            ]
    return "\n".join(parts)


def live_checks() -> str:
    rows = [(f"`{id_}`", it.severity, it.text, it.reads) for id_, it in LIVE.items()]
    return _table(("check", "severity", "looks at", "reads, under the subscription"), rows)


def engines() -> str:
    header = ("", *(f"`{name}`" for name in ENGINES))
    return _table(header, ((title, *words) for title, words in table()))


def roles() -> str:
    rows = [
        (says, *("yes" if role >= least else "" for role in Role))
        for least, says in ACTIONS.values()
    ]
    return _table(("permission", *(role.title for role in Role)), rows)


def calls() -> str:
    rows = []
    for method, path, function, _ in CALLS:
        shown = re.sub(r"\{(\w+)(:path)?\}", lambda found: found[1].upper(), path)
        says = " ".join(function.__doc__.split()).removesuffix(".")
        rows.append((f"`{method} /api/v1{shown}`", says))
    return _table(("call", "returns"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(header), *lines[1:]])


PARTS: dict[str, Callable[[], str]] = {
    "calls": calls,
    "checks": checks,
    "constructs": constructs,
    "engines": engines,
    "environment": partial(fields_of, Environment),
    "job": partial(fields_of, Job),
    "live": live_checks,
    "roles": roles,
}
_PART = re.compile(r"(<!-- made by bin/docs: (\w+) -->\n\n).*?(\n\n<!-- end -->\n)", re.DOTALL)


def renewed(page: str) -> str:
    """Returns a page's text with each part between two comments regenerated from the code."""
    return _PART.sub(lambda part: part[1] + PARTS[part[2]]().strip() + part[3], page)


if __name__ == "__main__":
    for file in Path(sys.argv[1]).glob("*.md"):
        file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")

"""The construct library: each class with its arguments, their defaults and its methods.

It is made from the source, as importing the classes would start Node.js.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import fairway_constructs

if TYPE_CHECKING:
    from collections.abc import Iterator

# What cdktf asks of every construct.
_CDKTF = frozenset({"node", "synth", "to_terraform"})


def constructs() -> str:
    """A section for each class and function of the library."""
    return "\n".join(_section(name, node) for name, node in exported().items())


@cache
def exported() -> dict[str, ast.ClassDef | ast.FunctionDef]:
    """The definition of each exported name that is the library's own, by name."""
    found: dict[str, ast.ClassDef | ast.FunctionDef] = {}
    for name in sorted(fairway_constructs.__all__):
        package, _, module = fairway_constructs._MODULES[name].partition(".")
        path = f"{module.replace('.', '/')}.py"
        text = (files(package) / path).read_text(encoding="utf-8")
        tree = ast.parse(text)
        body = _Constants(tree).visit(tree).body
        known = {
            each.name: each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)
        }
        if node := known.get(name):
            found[name] = node
            for base in map(ast.unparse, getattr(node, "bases", ())):
                if base.startswith("_"):  # nobody can look it up
                    node.body += filter(_is_public, known[base].body)
    return found


class _Constants(ast.NodeTransformer):
    """Puts the values of a module's constants in place of their names."""

    def __init__(self, tree: ast.Module) -> None:
        self._values = {
            ast.unparse(each.targets[0]): each.value
            for each in tree.body
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def arguments_of(node: ast.ClassDef | ast.FunctionDef) -> list[tuple[str, str, str]]:
    """Each argument with its type and its default, which is "" where there is none."""
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
        (ast.unparse(each.target), _type(each.annotation), _field_default(each.value))
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
            yield f"*{given.vararg.arg}", _type(given.vararg.annotation), ""
        shown = ast.unparse(default) if default is not None else ""
        yield argument.arg, _type(argument.annotation), shown


def _type(annotation: ast.expr | None) -> str:
    """The type in words; of `Annotated` the type alone."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    return ast.unparse(annotation) if annotation is not None else ""


def _field_default(value: ast.expr | None) -> str:
    """The default of a field; what `field(default_factory=Homes)` makes is `Homes()`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "Field"):
        given = {each.arg: ast.unparse(each.value) for each in value.keywords}
        factory = given.get("default_factory")
        return f"{factory}()" if factory else given.get("default", "")
    return ast.unparse(value) if value is not None else ""


def _section(name: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    parts = [f"## {name}\n"]
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(each) for each in node.bases]
        links = [f"[{each}](#{each.lower()})" for each in bases if each in exported()]
        if links:
            parts.append(f"Has all of {' and '.join(links)}.\n")
    parts.append(_text(ast.get_docstring(node) or ""))
    if rows := [each for each in arguments_of(node) if each[0] != "scope"]:
        parts.append("| argument | takes | default |\n|---|---|---|")
        parts += [
            f"| `{argument}` | {_code(takes)} | {_code(default) if default else 'required'} |"
            for argument, takes, default in rows
        ]
        parts.append("")
    if isinstance(node, ast.ClassDef):
        if attributes := ", ".join(f"`{each}`" for each in _attributes(node)):
            parts.append(f"Attributes: {attributes}.\n")
        parts += [_method(each) for each in node.body if _is_public(each)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _attributes(node: ast.ClassDef) -> list[str]:
    """The attributes of an instance, beside methods and properties."""
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


def _method(node: ast.stmt) -> str:
    assert isinstance(node, ast.FunctionDef)
    text = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
    given = "" if is_property else f"({', '.join(_written(*each) for each in _of_method(node))})"
    return f"- `{node.name}{given}`: {text}"


def _of_method(node: ast.FunctionDef) -> Iterator[tuple[str, str, str]]:
    is_static = any("staticmethod" in ast.unparse(each) for each in node.decorator_list)
    return _arguments(node, skip=0 if is_static else 1)


def _written(name: str, takes: str, default: str) -> str:
    return f"{name}: {takes}" + (f" = {default}" if default else "")


def _code(text: str) -> str:
    """A type or value in a table, where `|` would begin another cell."""
    return " or ".join(f"`{each}`" for each in _alternatives(text))


def _alternatives(text: str) -> list[str]:
    parts = text.split(" | ")
    return (
        parts
        if all(each.count("[") == each.count("]") for each in parts)
        else [text.replace(" | ", " or ")]
    )


def _text(docstring: str) -> str:
    """The docstring as Markdown, with what it shows of a program as code."""
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

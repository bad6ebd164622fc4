"""Each error that the program can print is read by a test.

The errors are found in the code: what is said where a `UserError`, a `Finding` or one of their kin
is made. A test reads one if a string in it has a part of what is said, `_WINDOW` letters long.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

_FOLDERS = ("constructs", "stacks", "runner")
# What makes an error, and which of its arguments is the message.
_MAKERS = {
    "UserError.of": 1,
    "Finding": 1,
    "FieldError": 0,
    "Fault": 0,
    "TemplateFault": 0,
}
_WINDOW = 14
_LEAST = 6  # letters of a message that is shorter


def errors() -> dict[str, list[str]]:
    """The literal parts of each error, by its message with … for what varies. Where another
    program's words follow a name, there is nothing of ours to read."""
    found: dict[str, list[str]] = {}
    for folder in _FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "azurerm" in file.parts:  # generated
                continue
            # On nodes the first argument is the id.
            after_id = "fairway_agent" in file.parts
            for parts in _errors_in(ast.parse(file.read_text("utf-8")), after_id=after_id):
                if max(map(len, parts)) >= _LEAST:
                    found["…".join(parts)] = parts
    return found


def _errors_in(tree: ast.Module, *, after_id: bool) -> Iterator[list[str]]:
    scopes = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    for scope in scopes:
        for call in ast.walk(scope):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in _MAKERS:
                continue
            place = _MAKERS[ast.unparse(call.func)] or int(after_id)
            said = call.args[place] if len(call.args) > place else _keyword(call, "message")
            if said is None:
                continue
            for text in _texts(said, scope):
                parts = [part for part in _parts(text) if part.strip()]
                if parts:
                    yield parts


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _texts(said: ast.expr, scope: ast.FunctionDef) -> Iterator[ast.expr]:
    """The texts that an expression may be: itself, or what its name stands for in the function."""
    if isinstance(said, ast.Name):
        for each in ast.walk(scope):
            if isinstance(each, ast.Assign) and said.id in map(ast.unparse, each.targets):
                yield from _texts(each.value, ast.FunctionDef(body=[]))
    elif isinstance(said, ast.IfExp):
        yield from _texts(said.body, scope)
        yield from _texts(said.orelse, scope)
    elif isinstance(said, ast.Constant | ast.JoinedStr | ast.BinOp):
        yield said


def _parts(text: ast.expr) -> Iterator[str]:
    """The literal parts of a text, in their order."""
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        yield " ".join(text.value.split()) if text.value.strip() else ""
    elif isinstance(text, ast.JoinedStr):
        for each in text.values:
            yield from _parts(each)
    elif isinstance(text, ast.BinOp):
        yield from _parts(text.left)
        yield from _parts(text.right)


def _strings_of_tests() -> Iterator[str]:
    """Every string of the tests but docstrings, without the escapes of regular expressions."""
    for said in json.loads((ROOT / "tests/core/checks/told.json").read_text("utf-8")).values():
        yield from (message for message, _ in said)
    for file in (ROOT / "tests").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            is_text = isinstance(each, ast.Constant) and isinstance(each.value, str)
            if is_text and id(each) not in alone:
                yield " ".join(re.sub(r"\\(?=\W)", "", each.value).split())


def unread() -> set[str]:
    """The errors of which no test has a part."""
    windows: dict[int, dict[str, set[str]]] = {}
    found = errors()
    for name, parts in found.items():
        size = min(_WINDOW, max(_LEAST, max(map(len, parts))))
        for part in parts:
            for start in range(len(part) - size + 1):
                window = part[start : start + size]
                windows.setdefault(size, {}).setdefault(window, set()).add(name)
    read: set[str] = set()
    for text in _strings_of_tests():
        for size, known in windows.items():
            for start in range(len(text) - size + 1):
                read |= known.get(text[start : start + size], set())
    return set(found) - read


def test_errors_are_read_by_tests() -> None:
    assert len(errors()) > 400
    assert sorted(unread()) == [], "let tests read what these say"

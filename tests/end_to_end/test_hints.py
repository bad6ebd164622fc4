"""Every error has a hint, and the commands in hints exist."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import command_of

ROOT = Path(__file__).resolve().parents[2]

_FOLDERS = ("constructs", "stacks", "runner")
# The calls that make an error, and the position of their argument `hint`.
_MAKERS = {"UserError.of": 2, "Finding": 2, "FieldError": 1, "Fault": 1, "AgentError": 1}
# Errors without a hint, and why they need none.
_WITHOUT = {
    "cut-off-submission": "the reason ends with the command",
}
_COMMAND = re.compile(r"(?<![\w/.-])(?<!-p )fairway ([a-z][^`;,()&|<>\n\"]*)")


def _files() -> Iterator[tuple[Path, list[ast.AST]]]:
    """Yields each module and its nodes, as walking all of them takes seconds."""
    for folder in _FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if "azurerm" not in file.parts:  # generated
                yield file, list(ast.walk(ast.parse(file.read_text("utf-8"))))


def _without_hint(file: Path, nodes: list[ast.AST]) -> Iterator[str]:
    for call in nodes:
        if not isinstance(call, ast.Call):
            continue
        owner = getattr(call.func, "value", None)
        name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
        made = f"{owner.id}.{name}" if isinstance(owner, ast.Name) else name
        if made not in _MAKERS:
            continue
        # In fairway_agent an AgentError has its id as first argument.
        at = 2 if "fairway_agent" in file.parts else _MAKERS[made]
        names = {keyword.arg for keyword in call.keywords}
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        id_ = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else ""
        has_hint = "hint" in names or starred or id_ in _WITHOUT
        if len(call.args) > at:
            hint = call.args[at]
            has_hint = not (isinstance(hint, ast.Constant) and hint.value == "")
        if not has_hint:
            yield f"{file.relative_to(ROOT)}:{call.lineno}"


def test_hints_are_given_for_all_errors_and_name_known_commands() -> None:
    found: list[list[str]] = []
    without: list[str] = []
    for file, nodes in _files():
        without += _without_hint(file, nodes)
        found += _commands(nodes)
    assert without == []
    assert len(found) > 100
    for words in found:
        given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "--"}
        assert given <= command_of(words)[2], words


def _strings(nodes: list[ast.AST]) -> Iterator[str]:
    """Yields each string other than docstrings, with X for its variable parts."""
    others = {
        id(value) for each in nodes if isinstance(each, ast.JoinedStr) for value in each.values
    }
    others |= {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        if isinstance(each, ast.JoinedStr):
            yield "".join(
                str(value.value) if isinstance(value, ast.Constant) else "X"
                for value in each.values
            )
        elif isinstance(each, ast.Constant) and id(each) not in others:
            yield each.value if isinstance(each.value, str) else ""


def _commands(nodes: list[ast.AST]) -> Iterator[list[str]]:
    for text in _strings(nodes):
        for found in _COMMAND.findall(text) if "fairway" in text else ():
            yield shlex.split(found.replace("'", "").rstrip(". ").partition(" -- ")[0])


@pytest.mark.parametrize("words", ["chek demo", "targets sink", "nodes drian x"])
def test_hints_check_finds_an_unknown_command(words: str) -> None:
    with pytest.raises(AssertionError):
        command_of(words.split())

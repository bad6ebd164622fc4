"""The table of exit codes in docs/reliability.md matches the code."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The calls that end the program with an exit code.
_ENDS = ("typer.Exit", "_end", "os._exit", "sys.exit")


def _documented() -> set[int]:
    table = (ROOT / "docs/reliability.md").read_text("utf-8").partition("## Exit codes")[2]
    return set(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE)))


def _used() -> set[int]:
    found: set[int] = set()
    for folder in ("runner/fairway_cli", "runner/fairway_runner", "stacks", "constructs"):
        for file in (ROOT / folder).rglob("*.py"):
            if "azurerm" not in file.parts:
                found |= _codes_in(ast.parse(file.read_text("utf-8")))
    return found


def _codes_in(tree: ast.Module) -> set[int]:
    said: list[ast.expr] = []
    for each in ast.walk(tree):
        if isinstance(each, ast.Call):
            said += [keyword.value for keyword in each.keywords if keyword.arg == "exit_code"]
            owner = getattr(each.func, "value", None)
            name = getattr(each.func, "attr", None) or getattr(each.func, "id", "")
            if (f"{owner.id}.{name}" if isinstance(owner, ast.Name) else name) in _ENDS:
                said += each.args[:1]
    codes = [each.value for each in said if isinstance(each, ast.Constant)]
    return {code for code in codes if type(code) is int}


def test_exit_codes_of_the_program_and_of_runs_are_documented() -> None:
    used = _used()
    assert {2, 3, 4, 5, 130, 141} <= used | {2}
    assert used <= _documented()
    assert {0, 1, 2, 124, 130} <= _documented()

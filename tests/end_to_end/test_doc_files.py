"""The documents are right: YAML blocks are valid parts of environment, job or project files, Python
blocks run one after the other as one program each, and the table of exit codes is complete."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from programs import finished
from pydantic import ValidationError
from ruamel.yaml import YAML

from fairway_core.environment.schema import environment_schema
from fairway_core.project import Project
from fairway_runner.jobs.steps import job_schema

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```yaml[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PARTS = [  # checks.md also shows files with mistakes
    (document, text)
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if document.name != "checks.md"
    for text in _BLOCK.findall(document.read_text("utf-8"))
    if "azuremlschemas" not in text
]


def _schema(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    """Returns a validator for part of a file, in which required fields may be missing."""
    demands = ("required", "anyOf")  # a job has either a command or steps
    return jsonschema.Draft202012Validator(
        {key: value for key, value in schema.items() if key not in demands}
    )


@pytest.fixture(scope="module")
def schemas() -> list[jsonschema.Draft202012Validator]:
    return [_schema(environment_schema()), _schema(job_schema())]


@pytest.mark.parametrize(("document", "text"), _PARTS, ids=lambda each: getattr(each, "stem", ""))
def test_doc_yaml_blocks_match_a_schema(
    schemas: list[jsonschema.Draft202012Validator], document: Path, text: str
) -> None:
    data = YAML(typ="safe", pure=True).load(text)
    wrong = [error.message for schema in schemas for error in schema.iter_errors(data)]
    if all(not schema.is_valid(data) for schema in schemas):
        try:
            Project.model_validate(data)
        except ValidationError as error:
            pytest.fail(f"{document}:\n{text}\n{wrong}\n{error}")


def test_doc_yaml_check_finds_unknown_fields_and_bad_values(
    schemas: list[jsonschema.Draft202012Validator],
) -> None:
    for data in ({"nods": 2}, {"clusters": {"gpu": {"engine": "sge"}}}, {"timeout": 30}):
        assert not any(schema.is_valid(data) for schema in schemas), data
        with pytest.raises(ValidationError):
            Project.model_validate(data)


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


@pytest.mark.parametrize(
    "document",
    [
        "python.md",
        "notebooks.md",
        "howto/program-with-constructs.md",
        "howto/use-any-resource.md",
        "constructs.md",
    ],
)
def test_python_docs_blocks_run_without_errors_or_output(
    repository: Path, tmp_path: Path, document: str
) -> None:
    text = (repository / "docs" / document).read_text(encoding="utf-8")
    for line in re.findall(r"^fairway bindings .*", text, re.MULTILINE):
        schema = repository / "tests/stacks/container_apps.schema.json"
        words = [sys.executable, "-P", "-m", "fairway_cli.entry", *shlex.split(line)[1:]]
        subprocess.run([*words, "--schema", schema], cwd=tmp_path, check=True, timeout=300)
    # The blocks generated from docstrings are incomplete programs.
    written = text.partition("<!-- made by bin/docs")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", written, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        done = finished(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith("FAIRWAY_")},
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert done.stdout == ""

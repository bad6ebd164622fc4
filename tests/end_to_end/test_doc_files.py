"""The YAML blocks of the documents are valid parts of environment, job or project files."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
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

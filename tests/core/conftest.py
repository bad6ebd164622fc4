"""Holds environments loaded by tests to the schema as well: it accepts all that the program
accepts, and no key or type of value that the program refuses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fairway_core.documents import read
from fairway_core.environment import loading
from fairway_core.environment.schema import environment_schema
from fairway_core.findings import UserError


@pytest.fixture(scope="session", autouse=True)
def _held_to_the_schema() -> Iterator[None]:
    validator = jsonschema.Draft202012Validator(environment_schema())
    load = loading.read_environment

    def checked(file: str | Path, **given: Any) -> loading.LoadedEnvironment:
        try:
            found = load(file, **given)
        except UserError as error:
            shapes = {"unknown-key", "missing-key", "wrong-type"}
            is_shape = {each.id for each in error.findings} <= shapes
            if is_shape and not given.get("overrides") and validator.is_valid(read(file).data):
                raise AssertionError(f"the schema takes it: {error}") from error
            raise
        if not given.get("overrides"):
            validator.validate(read(file).data)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "read_environment", checked)
        yield

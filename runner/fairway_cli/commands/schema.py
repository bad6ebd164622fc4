"""`fairway schema`: what files may hold, for editors."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

from typer import Argument


class Kind(StrEnum):
    """The kinds of files."""

    ENVIRONMENT = "environment"
    JOB = "job"


def command(kind: Annotated[Kind, Argument(help="Which kind of file.")]) -> None:
    """Print the JSON schema of environment files or job files, for editors.

    Save it, and name it in the first line of a file:
    # yaml-language-server: $schema=environment.schema.json
    """
    if kind is Kind.ENVIRONMENT:
        from fairway_core.environment.schema import environment_schema as schema
    else:
        from fairway_runner.jobs.steps import job_schema as schema
    print(json.dumps(schema(), indent=1, ensure_ascii=False))

"""The JSON schema of job files, for editors."""

from __future__ import annotations

from typing import Any

from fairway_core.schema import schema_of
from fairway_runner.jobs.job import Job

# A value may be written by a template, see `job_file`.
_TEMPLATE = r"\{[{%#]"


def job_schema() -> dict[str, Any]:
    """The schema of a job file; text with `{{ … }}` in it may stand for any single value."""
    schema = schema_of(Job, title="Fairway job", reference=_TEMPLATE)
    per_node = schema["properties"]["processes_per_node"]
    # `job_file` puts a number in its place before the model sees it.
    words = {key: per_node.pop(key) for key in ("description", "default") if key in per_node}
    schema["properties"]["processes_per_node"] = {**words, "anyOf": [{"const": "gpus"}, per_node]}
    return schema

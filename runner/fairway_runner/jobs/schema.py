"""The JSON schema of job files, for editors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fairway_core.schema import Schema, schema_of
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.steps import OF_THE_WHOLE, Step

# A value may be written by a template, see `job_file`.
_TEMPLATE = r"\{[{%#]"
_STEPS = "Jobs that begin when others have ended; what stands beside them holds for all."


def job_schema() -> dict[str, Any]:
    """The schema of a job file; text with `{{ … }}` in it may stand for any single value."""
    schema = schema_of(Job, title="Fairway job", reference=_TEMPLATE)
    per_node = schema["properties"]["processes_per_node"]
    # `job_file` puts a number in its place before the model sees it.
    words = {key: per_node.pop(key) for key in ("description", "default") if key in per_node}
    schema["properties"]["processes_per_node"] = {**words, "anyOf": [{"const": "gpus"}, per_node]}
    _add_steps(schema)
    return schema


def _add_steps(schema: Schema) -> None:
    """Lets the file have several jobs in place of one."""
    definitions = schema["$defs"]
    own = schema_of(Step, title="")
    definitions |= own["$defs"]
    kept, best = (deepcopy(definitions[name]) for name in ("KeptInput", "Best"))
    for each in (kept, best):
        each["properties"]["step"] = {**each["properties"].pop("run"), "description": "The step."}
        each["required"] = ["step" if name == "run" else name for name in each["required"]]
    kept["properties"]["from"] = {"const": "step", "description": "`step` says that it is one's."}
    kept["description"] = "What a task of a step before has kept."
    definitions |= {"StepInput": kept, "BestOfStep": best}
    step = {k: v for k, v in schema["properties"].items() if k not in OF_THE_WHOLE}
    inputs = deepcopy(step["inputs"])
    of_best = {"properties": {"best": {"$ref": "#/$defs/BestOfStep"}}, "required": ["best"]}
    inputs["additionalProperties"]["anyOf"] += [
        {"$ref": "#/$defs/StepInput"},
        {"type": "object", "additionalProperties": False, **of_best},
    ]
    fields: Schema = {**deepcopy(step), "inputs": inputs, "after": own["properties"]["after"]}
    for each in fields.values():
        each.pop("default", None)  # it is what stands beside the steps
    definitions["Step"] = {
        "type": "object",
        "description": "One step: a job, and after which others it begins.",
        "properties": fields,
        "additionalProperties": False,
    }
    schema["properties"]["steps"] = {
        "type": "object",
        "description": _STEPS,
        "minProperties": 1,
        "additionalProperties": {"$ref": "#/$defs/Step"},
    }
    schema["required"] = [name for name in schema["required"] if name != "command"]
    schema["anyOf"] = [{"required": ["command"]}, {"required": ["steps"]}]

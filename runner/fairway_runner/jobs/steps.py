"""Several named jobs in one file, each of which begins when others have ended: `steps:`.

Fields next to `steps:` hold for all steps; a step's own fields override them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fairway_core.documents import Document, FieldError, Model, require, rule
from fairway_core.findings import UserError
from fairway_core.schema import Schema, schema_of
from fairway_core.suggestions import did_you_mean
from fairway_core.yaml_text import DataPath, YamlText
from fairway_runner.jobs.job import Job, JobName
from fairway_runner.jobs.job_fields import Note, Tags, require_pattern
from fairway_runner.jobs.sweep_values import Called

# Fields of the entire run that no step can have.
COMMON_FIELDS = ("name", "tags", "note", "code")

StepName = Annotated[
    str,
    require_pattern(
        r"[a-z][a-z0-9-]{0,14}",
        "is not a step's name",
        "up to 15 lower-case letters, digits and hyphens, the first of them a letter",
    ),
]


_Code = Annotated[int, Field(ge=0, le=255)]
_SOME = require(lambda codes: codes != [], "the list is empty", "write for example exit_code: 3")

Ending = Literal["succeeded", "failed", "ended"]


class Ended(Model):
    """Required end of a step's run: one of these exit codes."""

    FOREIGN: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "points": "a step waits for all tasks of another: `after: STEP`; or let one command do "
            "the work of both",
            "state": "write the state in place of the mapping: `after: {STEP: failed}`",
        }
    )

    exit_code: Annotated[_Code | list[_Code] | None, _SOME] = None
    """A code from 0 to 255, or a list of them; of a sweep it is that of its first failing task."""

    @rule
    def _says_one(self) -> None:
        if self.exit_code is None:
            raise FieldError("the condition is empty", "write for example exit_code: 3")

    @property
    def codes(self) -> list[int]:
        """Exit codes, one of which is required."""
        found = self.exit_code
        return found if isinstance(found, list) else [] if found is None else [found]


Condition = Ending | Annotated[Ended, Called("{exit_code: 3}")]
"""Required result of a step before another begins; any result satisfies `ended`."""


def _after(value: Any) -> Any:
    """Reads one name, or several, without a condition: they must have succeeded."""
    if isinstance(value, str):
        return {value: "succeeded"}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return dict.fromkeys(value, "succeeded")
    return value


After = Annotated[
    dict[str, Condition],
    BeforeValidator(_after, json_schema_input_type=str | list[str] | dict[str, Condition]),
]


class Step(BaseModel):
    """One step: a job, and after which others it begins."""

    model_config = ConfigDict(extra="allow", frozen=True)

    after: After = Field(default_factory=dict)
    """Steps that come before it: a name, a list of names, or by name how each must have ended."""


class StepsFile(BaseModel):
    """A file with steps, before each is looked at as a job."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: JobName
    tags: Tags = ()
    note: Note = ""
    steps: Annotated[dict[StepName, Step], Field(min_length=1, max_length=100)]


class Typed(Job):
    """Fields that `-s` may set in a file with steps, and their types."""

    steps: dict[str, Job] = Field(default_factory=dict)


@dataclass(frozen=True)
class NamedStep:
    """A step of a file: its name, the required ends of other steps, and its job."""

    name: str
    after: Mapping[str, Condition]
    document: Document


def read_steps(document: Document, run: str) -> list[NamedStep]:
    """Returns the steps of a file, each after those that it depends on; `run` is the workflow's ID.
    Raises UserError at its line for each error in them, except errors in the job of one."""
    outer = document.validate(StepsFile)
    _require_known(document)
    before: dict[str, set[str]] = {}  # the steps that have ended when one begins
    found = []
    for name in _ordered(outer, document):
        after = outer.steps[name].after
        before[name] = set(after).union(*(before[other] for other in after))
        own = _document_of(document, name, run, before[name])
        found.append(NamedStep(name, after, own))
    return found


def step_run(run: str, step: str) -> str:
    """Returns the ID of a step's run.

    >>> step_run("digits-7k2m9p", "train")
    'digits-7k2m9p-train'
    """
    return f"{run}-{step}"


def _require_known(document: Document) -> None:
    known = {field.alias or name for name, field in Job.model_fields.items()} | {"steps"}
    findings = []
    written = document.text.data["steps"]
    written = written if isinstance(written, dict) else {}
    for name in document.data["steps"]:
        if name not in written:
            path, hint = document.set_below(("steps", name)), did_you_mean(name, written)
            findings.append(document.finding("bad-steps", path, f"there is no step `{name}`", hint))
    for key in document.data:
        if key not in known or key in ("after", "sweep"):
            hint = did_you_mean(key, known) if key not in known else "write it in a step"
            message = f"unknown key `{key}`"
            findings.append(document.finding("bad-steps", (key,), message, hint, of_key=True))
    for name, step in document.data["steps"].items():
        for key in (key for key in COMMON_FIELDS if key in step):
            path, message = ("steps", name, key), f"`{key}` applies to all steps"
            findings.append(document.finding("bad-steps", path, message, "write it beside `steps`"))
    if findings:
        raise UserError(findings)


def _ordered(outer: StepsFile, document: Document) -> list[str]:
    """Returns their names in order. Raises UserError for an unknown one, and for a circle."""
    for name, step in outer.steps.items():
        for other in step.after:
            if other not in outer.steps:
                message, hint = f"there is no step `{other[:60]}`", did_you_mean(other, outer.steps)
                raise document.error("bad-steps", ("steps", name, "after"), message, hint)
    found: list[str] = []
    while len(found) < len(outer.steps):
        ready = [
            name
            for name, step in outer.steps.items()
            if name not in found and set(step.after) <= set(found)
        ]
        if not ready:
            left = [name for name in outer.steps if name not in found]
            message = f"these steps wait for each other: {', '.join(left)}"
            hint = "remove one of them from `after`"
            raise document.error("bad-steps", ("steps", left[0], "after"), message, hint)
        found += ready
    return found


def _document_of(document: Document, name: str, run: str, before: set[str]) -> Document:
    common, own = _fields_of(document.data, name)
    data = {**common, **own, "name": f"{common['name']}-{name}"[:40].rstrip("-")}
    if isinstance(data.get("inputs"), dict):
        data["inputs"] = {
            key: _input(document, name, key, value, run, before)
            for key, value in data["inputs"].items()
        }
    root: DataPath = ("steps", name)

    def placed(table: Mapping[DataPath, Any]) -> dict[DataPath, Any]:
        hidden = own.keys() - {"name"}
        kept = {
            path: at for path, at in table.items() if path and path[0] in common.keys() - hidden
        }
        return kept | {path[2:]: at for path, at in table.items() if path[:2] == root}

    outer = document.text
    keys, values = placed(outer.keys), placed(outer.values)
    values.setdefault((), outer.values[()])
    written, own_written = _fields_of(outer.data, name)
    text = YamlText(outer.file, outer.source, {**written, **own_written}, keys, values)
    return Document(text, data, placed(document.overrides))


def _fields_of(data: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    own = data["steps"][name] or {}  # `-s` may have filled it
    common = {key: value for key, value in data.items() if key != "steps"}
    return common, {key: value for key, value in own.items() if key != "after"}


def _input(document: Document, name: str, key: str, value: Any, run: str, before: set[str]) -> Any:
    """Returns an input of a step; the ID of the other step's run replaces the step's name."""
    if not isinstance(value, dict):
        return value
    best = value.get("best")
    named = best if isinstance(best, dict) else value
    if "step" not in named and value.get("from") != "step":
        return value
    path = document.set_below(("steps", name, "inputs", key))
    if "run" in named or "step" not in named:
        both = "a run and a step" if "run" in named else "no step"
        message = f"the input `{key}` names {both}"
        raise document.error("bad-steps", path, message, "write `step: NAME` of one before")
    step = named["step"]
    rest = {k: v for k, v in named.items() if k != "step"} | {"run": step_run(run, str(step))}
    found = {**value, "best": rest} if named is best else {**rest, "from": "run"}
    if str(step) not in before:
        message = f"`{name}` does not come after the step `{str(step)[:60]}`"
        known = document.data["steps"]
        hint = f"add it: after: [{', '.join([*sorted(before), str(step)])}]"
        hint = hint if str(step) in known else did_you_mean(str(step), known)
        raise document.error("bad-steps", path, message, hint)
    return found


def inputs_of_runs(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the reference to the other run for each input that another run has kept, by name."""
    inputs = document.data.get("inputs")
    for name, value in inputs.items() if isinstance(inputs, dict) else ():
        if isinstance(value, dict) and (value.get("from") == "run" or "best" in value):
            yield name, value


def job_schema() -> dict[str, Any]:
    """Returns the schema of a job file, where text with `{{ … }}` may replace any single value."""
    # A template may produce any value, see `job_file`.
    schema = schema_of(Job, title="Fairway job", reference=r"\{[{%#]")
    per_node = schema["properties"]["processes_per_node"]
    # `job_file` replaces it by a number before the model is validated.
    words = {key: per_node.pop(key) for key in ("description", "default") if key in per_node}
    schema["properties"]["processes_per_node"] = {**words, "anyOf": [{"const": "gpus"}, per_node]}
    # A file may have several jobs instead of one.
    definitions = schema["$defs"]
    own = schema_of(Step, title="")
    definitions |= own["$defs"]
    kept, best = (deepcopy(definitions[name]) for name in ("RunInput", "Best"))
    for each in (kept, best):
        each["properties"]["step"] = {**each["properties"].pop("run"), "description": "The step."}
        each["required"] = ["step" if name == "run" else name for name in each["required"]]
    kept["properties"]["from"] = {"const": "step", "description": "`step` says that it is one's."}
    kept["description"] = "What a task of a step before has kept."
    definitions |= {"StepInput": kept, "BestOfStep": best}
    step = {k: v for k, v in schema["properties"].items() if k not in COMMON_FIELDS}
    inputs = deepcopy(step["inputs"])
    of_best = {"properties": {"best": {"$ref": "#/$defs/BestOfStep"}}, "required": ["best"]}
    inputs["additionalProperties"]["anyOf"] += [
        {"$ref": "#/$defs/StepInput"},
        {"type": "object", "additionalProperties": False, **of_best},
    ]
    fields: Schema = {**deepcopy(step), "inputs": inputs, "after": own["properties"]["after"]}
    for each in fields.values():
        each.pop("default", None)  # the default is the field's value beside `steps:`
    definitions["Step"] = {
        "type": "object",
        "description": "One step: a job, and after which others it begins.",
        "properties": fields,
        "additionalProperties": False,
    }
    says = "Jobs that begin when others have ended; what stands beside them holds for all."
    schema["properties"]["steps"] = {
        "type": "object",
        "description": says,
        "minProperties": 1,
        "additionalProperties": {"$ref": "#/$defs/Step"},
    }
    schema["required"] = [name for name in schema["required"] if name != "command"]
    schema["anyOf"] = [{"required": ["command"]}, {"required": ["steps"]}]
    return schema

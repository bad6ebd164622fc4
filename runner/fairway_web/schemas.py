"""JSON of REST answers, for the OpenAPI document: each has at least these fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from fairway_web.runs import State

Count = Annotated[int, Field(ge=0)]
Map = dict[str, Any]


class Record(BaseModel):
    """An object to which later releases may add fields."""

    model_config = ConfigDict(extra="allow")


class Finding(Record):
    id: str
    message: str
    severity: str = ""
    path: str = ""
    hint: str = ""
    file: str | None = None
    line: int | None = None
    column: int | None = None


class Run(Record):
    run_id: str
    name: str
    target: str
    created: str
    reason: str | None
    started: str | None
    ended: str | None
    state: State
    tags: list[str]
    note: str | None
    tasks: Count
    task_states: Map
    seconds: float | None


class RunDetail(Run):
    folder: str
    task_list: list[Map]
    cost: Map


class Folder(Record):
    folder: str
    last_known: float
    files: dict[str, str]
    logs: dict[str, Count]


class Pieces(BaseModel):
    pieces: list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


def _record(title: str, /, **fields: Any) -> type[Record]:
    return create_model(title, __base__=Record, **fields)


Findings = _record("Findings", findings=list[Finding])
Records = _record("Records", since=int, runs=dict[str, Folder])
RunState = _record(
    "RunState",
    run_id=str,
    target=str,
    state=State,
    reason=str | None,
    exit_code=int | None,
    empty_outputs=list[Map],
    last_known=str | None,
)
Compared = _record(
    "Compared", run_id=str, name=str, target=str, state=str, params=Map, metrics=Map, differs=Map
)
RunCosts = _record(
    "RunCosts", by=str, currency=str, groups=list[Map], total=Map, findings=list[Map]
)
Output = _record("Output", path=str, size=Count, mode=(str | None, None), link=(str | None, None))
Submitted = _record("Submitted", run_id=str, target=str, tasks=Count, state=State)
Cancelled = _record("Cancelled", run_id=str, state=State)
Retried = _record("Retried", run_id=str, tasks=Count)
Checked = _record("Checked", name=str, target=str, tasks=Count, scripts=Map, findings=list[Map])
Rendered = _record("Rendered", name=str, target=str, template=str, script=str)
Code = _record("Code", code=str, missing=list[str])
Piece = _record("Piece", digest=str, size=Count)
Target = _record("Target", name=str, engine=str, ready=bool)
Node = _record(
    "Node", name=str, state=str, **dict.fromkeys(("address", "run", "reason"), str | None)
)
NodeAction = _record("NodeAction", node=str, action=Literal["drain", "resume"])
Environment = _record("Environment", name=str, file=str)

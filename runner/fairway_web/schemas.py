"""The JSON of REST answers, for the OpenAPI document: each has at least these fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class Findings(Record):
    findings: list[Finding]


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


class RunState(Record):
    run_id: str
    target: str
    state: State
    reason: str | None
    exit_code: int | None
    empty_outputs: list[Map]
    last_known: str | None


class Folder(Record):
    folder: str
    last_known: float
    files: dict[str, str]
    logs: dict[str, Count]


class Records(Record):
    since: int
    runs: dict[str, Folder]


class Compared(Record):
    run_id: str
    name: str
    target: str
    state: str
    params: Map
    metrics: Map
    differs: Map


class Output(Record):
    path: str
    size: Count
    link: str | None = None


class Submitted(Record):
    run_id: str
    target: str
    tasks: Count
    state: State


class Cancelled(Record):
    run_id: str
    state: State


class Retried(Record):
    run_id: str
    tasks: Count


class Checked(Record):
    name: str
    target: str
    tasks: Count
    scripts: Map
    findings: list[Map]


class Rendered(Record):
    name: str
    target: str
    template: str
    script: str


class Pieces(BaseModel):
    pieces: list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


class Code(Record):
    code: str
    missing: list[str]


class Piece(Record):
    digest: str
    size: Count


class Target(Record):
    name: str
    engine: str
    ready: bool


class Node(Record):
    name: str
    state: str
    address: str | None
    run: str | None
    reason: str | None


class NodeAction(Record):
    node: str
    action: Literal["drain", "resume"]


class Environment(Record):
    name: str
    file: str


class RunCosts(Record):
    by: str
    currency: str
    groups: list[Map]
    total: Map
    findings: list[Map]

"""The JSON of REST answers, for the OpenAPI document: each has at least these fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from fairway_web.runs import State

Count = Annotated[int, Field(ge=0)]
Map = dict[str, Any]
Text = str | None
Maps = list[Map]


class Record(BaseModel):
    """An object to which later releases may add fields."""

    model_config = ConfigDict(extra="allow")


def _record(name: str, base: type[BaseModel] = Record, /, **fields: Any) -> Any:
    """A kind of record by the types of its fields; one with a default is a pair."""
    given: Any = {
        key: each if isinstance(each, tuple) else (each, ...) for key, each in fields.items()
    }
    return create_model(name, __base__=base, __module__=__name__, **given)


class Pieces(BaseModel):
    pieces: list[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


_MESSAGE = {"id": str, "message": str, **dict.fromkeys(("severity", "path", "hint"), (str, ""))}
_PLACE = {"file": (Text, None), **dict.fromkeys(("line", "column"), (int | None, None))}
Finding = _record("Finding", **_MESSAGE, **_PLACE)
Findings = _record("Findings", findings=list[Finding])  # type: ignore[valid-type]

_SHOWN: Map = {"run_id": str, "name": str, "target": str, "created": str, "state": State}
_SHOWN |= {"reason": Text, "started": Text, "ended": Text, "tags": list[str], "note": Text}
Run = _record("Run", **_SHOWN, tasks=Count, task_states=Map, seconds=float | None)
RunDetail = _record("RunDetail", Run, folder=str, task_list=Maps, cost=Map)
_KNOWN = {"run_id": str, "target": str, "state": State}
_END = {"exit_code": int | None, "empty_outputs": Maps, "last_known": Text}
RunState = _record("RunState", **_KNOWN, reason=Text, **_END)
Submitted = _record("Submitted", run_id=str, target=str, tasks=Count, state=State)
Cancelled = _record("Cancelled", run_id=str, state=State)
Retried = _record("Retried", run_id=str, tasks=Count)
Folder = _record(
    "Folder", folder=str, last_known=float, files=dict[str, str], logs=dict[str, Count]
)
Records = _record("Records", since=int, runs=dict[str, Folder])  # type: ignore[valid-type]
_MAPS = {"params": Map, "metrics": Map, "differs": Map}
Compared = _record("Compared", run_id=str, name=str, target=str, state=str, **_MAPS)
Output = _record("Output", path=str, size=Count)
Checked = _record("Checked", name=str, target=str, tasks=Count, scripts=Map, findings=Maps)
Rendered = _record("Rendered", name=str, target=str, template=str, script=str)
Code = _record("Code", code=str, missing=list[str])
Piece = _record("Piece", digest=str, size=Count)
Target = _record("Target", name=str, engine=str, ready=bool)
Node = _record("Node", name=str, state=str, **dict.fromkeys(("address", "run", "reason"), Text))
NodeAction = _record("NodeAction", node=str, action=Literal["drain", "resume"])
Environment = _record("Environment", name=str, file=str)
RunCosts = _record("RunCosts", by=str, currency=str, groups=Maps, total=Map, findings=Maps)

"""The calls of REST, one by one: what each takes, answers and refuses.

The OpenAPI document and the table of docs/serve.md say what stands here; that the server has these
calls and no others, and answers as they say, is tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_runner.runs.accounting import BY
from fairway_web.listing import MOST, STATES

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
_DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_MAYBE: Schema = {"type": ["string", "null"]}
_NUMBER: Schema = {"type": ["number", "null"]}
_FLAG: Schema = {"type": "boolean"}
_MAP: Schema = {"type": "object"}
_STATE: Schema = {"type": "string", "enum": list(STATES)}


def _record(**fields: Schema) -> Schema:
    """An object that has at least these fields: releases may add others."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_RUN = {
    **dict.fromkeys(("run_id", "name", "target", "created"), TEXT),
    **dict.fromkeys(("reason", "started", "ended"), _MAYBE),
    "state": _STATE,
    "tags": _list(TEXT),
    "note": _MAYBE,
    "tasks": _COUNT,
    "task_states": _MAP,
    "seconds": _NUMBER,
}
_FINDING = {
    **_record(id=TEXT, message=TEXT),
    "properties": {
        **dict.fromkeys(("id", "severity", "path", "message", "hint"), TEXT),
        "file": _MAYBE,
        "line": {"type": ["integer", "null"]},
        "column": {"type": ["integer", "null"]},
    },
}
_COSTS = {"by": TEXT, "currency": TEXT, "groups": _list(_MAP), "total": _MAP}
RECORDS: Mapping[str, Schema] = {
    "Finding": _FINDING,
    "Findings": _record(findings=_list({"$ref": "#/components/schemas/Finding"})),
    "Run": _record(**_RUN),
    "RunDetail": _record(**_RUN, folder=TEXT, task_list=_list(_MAP), cost=_MAP),
    "Compared": _record(
        **dict.fromkeys(("run_id", "name", "target", "state"), TEXT),
        **dict.fromkeys(("params", "metrics", "differs"), _MAP),
    ),
    "Output": _record(path=TEXT, size=_COUNT),
    "Submitted": _record(run_id=TEXT, target=TEXT, tasks=_COUNT, state=_STATE),
    "State": _record(
        run_id=TEXT,
        target=TEXT,
        state=_STATE,
        reason=_MAYBE,
        exit_code={"type": ["integer", "null"]},
        empty_outputs=_list(_MAP),
        last_known=_MAYBE,
        labels_ranks=_FLAG,
    ),
    "Cancelled": _record(run_id=TEXT, state=_STATE),
    "Retried": _record(run_id=TEXT, tasks=_COUNT),
    "Checked": _record(name=TEXT, target=TEXT, tasks=_COUNT, scripts=_MAP, findings=_list(_MAP)),
    "Rendered": _record(name=TEXT, target=TEXT, template=TEXT, script=TEXT),
    "Code": _record(code=TEXT, missing=_list(TEXT)),
    "Piece": _record(digest=TEXT, size=_COUNT),
    "Target": _record(name=TEXT, engine=TEXT, ready=_FLAG),
    "Node": _record(name=TEXT, state=TEXT, address=_MAYBE, run=_MAYBE, reason=_MAYBE),
    "NodeAction": _record(node=TEXT, action=TEXT),
    "Environment": _record(name=TEXT, file=TEXT),
    "RunCosts": _record(**_COSTS, findings=_list(_MAP)),
    "Cost": _MAP,
}


@dataclass(frozen=True)
class Parameter:
    """What a call takes in its address or headers."""

    name: str
    schema: Schema
    says: str
    is_header: bool = False


@dataclass(frozen=True)
class Call:
    """One call below `/api/v1`: what it answers, in words for the table of the docs, and of which
    kind that is: a record, a list of them as `Run[]`, or a type of content."""

    name: str
    path: str
    says: str
    answer: str
    takes: tuple[Parameter, ...] = ()
    method: str = "get"
    status: int = 200
    has_job: bool = False
    body: Mapping[str, Schema] = field(default_factory=dict)
    events: bool = False
    headers: tuple[str, ...] = ()

    @property
    def in_path(self) -> list[str]:
        """What varies in its path."""
        parts = [part for part in self.path.split("/") if part.startswith("{")]
        return [part.strip("{}") for part in parts]

    @property
    def row(self) -> str:
        """Its row in the table of the docs."""
        path = self.path
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", name.upper())
        return f"| `{self.method.upper()} /api/v1{path}` | {self.says} |"


def _query(name: str, says: str, **schema: object) -> Parameter:
    return Parameter(name, schema or TEXT, says)


_TASK = _query("task", "a task by its number, or `setup` or `finally`", type="string", default="0")
_SKIP = "how many files to skip"
_fresh = _query("fresh", "whether to ask targets first", type="string", enum=["true", "false"])
_FILTERS = (
    _query("state", "the states of the runs", **_list({"type": "string", "enum": ["", *STATES]})),
    *(_query(name, f"the {name} of the runs") for name in ("name", "target")),
    _query("tag", "the tags of the runs: all of them", **_list(TEXT)),
    _query("since", "submitted since this time, or this long ago"),
    _query("columns", "more columns, as in `fairway list --columns`"),
    _fresh,
    _query("text", "text in a run's ID, name, tags or note"),
    _query("limit", "how many runs", type="integer", minimum=1, maximum=MOST, default=MOST),
    _query("before", "older than this time; taken from `Link`"),
    _query("behind", "of the runs of that time, only those after this one; taken from `Link`"),
)
_LOG = (
    _query("task", "a task, or `all`", type="string", default="0"),
    _query("rank", "the lines of one rank"),
    _query("raw", "each log unchanged, byte by byte", type="string", enum=["true", "false"]),
    _query("from", "where to begin; taken from `Next-Offset`", type="string", default="0"),
    Parameter("Last-Event-ID", TEXT, "the last event that was read", is_header=True),
)

CALLS = (
    Call(
        "listRuns",
        "/runs",
        "the runs, newest first; `state`, `target`, `name`, `tag`, `text`, `since`, `columns`,"
        " `limit`; the header `Link` leads to older runs, `Findings` says what is wrong with"
        " others; `fresh=true` asks the targets first",
        "Run[]",
        _FILTERS,
        headers=("Link", "Findings"),
    ),
    Call("showRun", "/runs/{run}", "what `fairway show --json` prints", "RunDetail"),
    Call(
        "stateOfRun",
        "/runs/{run}/state",
        "the state of a run; RUN may be a prefix of its ID; `fresh=true` asks its target first",
        "State",
        (_fresh,),
    ),
    Call(
        "readLog",
        "/runs/{run}/log",
        "the log of `task` (default 0) from the byte `from` on, whole lines of at most 256 KiB"
        " together; `task=all` reads up to 64 as one, `rank` the lines of one rank, `raw=true` the"
        " bytes of the file; the header `Next-Offset` says where to continue, and equals `from` if"
        " there is nothing new yet",
        "text/plain",
        _LOG,
        events=True,
        headers=("Next-Offset",),
    ),
    Call("readScript", "/runs/{run}/script", "the script of `task`", "text/plain", (_TASK,)),
    Call(
        "listOutputs",
        "/runs/{run}/outputs",
        "the output files of the tasks, with their sizes, 1,000 at a time; the header `Link` leads"
        " to the next",
        "Output[]",
        (_query("from", _SKIP, type="integer", minimum=0, default=0),),
        headers=("Link",),
    ),
    Call(
        "readOutput", "/runs/{run}/outputs/{path}", "one of these files", "application/octet-stream"
    ),
    Call(
        "compareRuns",
        "/compare",
        "what `fairway compare --json` prints for the runs named, as in `?run=RUN&run=RUN`",
        "Compared[]",
        (_query("run", "a run; may be repeated", **_list(TEXT)),),
    ),
    Call(
        "submitJob",
        "/runs",
        "submits a job, as `fairway submit --json` does; with the same `run_id` again, it is the"
        " same run",
        "Submitted",
        method="post",
        status=201,
        has_job=True,
        headers=("Location", "Findings"),
    ),
    Call(
        "sendCode",
        "/code",
        'takes the list of pieces of some code, `{"pieces": [SHA-256, …]}`; answers with '
        "its name for `code`, and the pieces that are `missing`",
        "Code",
        method="post",
        body={"application/json": _record(pieces=_list(_DIGEST))},
    ),
    Call(
        "sendPiece",
        "/code/{digest}",
        "takes one piece of at most 1 MiB, by the SHA-256 of its bytes",
        "Piece",
        method="post",
        status=201,
        body={"application/octet-stream": {}},
    ),
    Call(
        "checkJob",
        "/check",
        "what a job would start, with its `scripts` and warnings; nothing is started",
        "Checked",
        method="post",
        has_job=True,
    ),
    Call(
        "renderJob",
        "/render",
        "what `fairway render --json` prints",
        "Rendered",
        method="post",
        has_job=True,
    ),
    Call(
        "cancelRun",
        "/runs/{run}/cancel",
        "ends the run, or one `task` of it; returns when that has ended",
        "Cancelled",
        (_query("task", "only this task, or step"),),
        method="post",
    ),
    Call(
        "retryRun",
        "/runs/{run}/retry",
        "retries the tasks that did not succeed",
        "Retried",
        method="post",
    ),
    Call(
        "listTargets", "/targets", "what `fairway targets list --offline --json` prints", "Target[]"
    ),
    Call(
        "listNodes",
        "/targets/{target}/nodes",
        "what `fairway nodes list TARGET --json` prints",
        "Node[]",
    ),
    Call(
        "actOnNode",
        "/targets/{target}/nodes/{node}/{action}",
        "`drain` keeps new work off the node; `resume` ends that",
        "NodeAction",
        method="post",
    ),
    Call(
        "listEnvironments", "/environments", "the names and files of environments", "Environment[]"
    ),
    Call(
        "checkEnvironment",
        "/environments/{name}/check",
        "what `fairway check NAME --json` prints",
        "Finding[]",
    ),
    Call(
        "costOfEnvironment",
        "/environments/{name}/cost",
        "what `fairway cost NAME --offline --json` prints",
        "Cost",
    ),
    Call("drawEnvironment", "/environments/{name}/diagram", "a diagram, as SVG", "image/svg+xml"),
    Call(
        "costOfRuns",
        "/cost",
        "what `fairway cost --runs --offline --json` prints for the runs of this project; `by`,"
        " `since`",
        "RunCosts",
        (
            _query("by", "what the runs are grouped by", type="string", enum=["", "run", *BY]),
            _query("since", "a time, or how long ago"),
        ),
    ),
    Call("openapi", "/openapi.json", "all these calls, as an OpenAPI document", "application/json"),
)

"""What became of a run's setup, which each node runs before its first task."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.task_state import TaskState
from fairway_runner.engines.azure.calls import ServiceError
from fairway_runner.engines.batch import states
from fairway_runner.runs.records import known_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.engines.batch.client import Account
    from fairway_runner.runs.folder import RunFolder

_MOST = 8 << 20  # bytes of a log


def unprepared(account: Account, job_id: str) -> tuple[str, bool]:
    """Why nodes could not be prepared for a job, and whether that is all nodes of the pool.

    Batch keeps such a node from the job without a word, and the job would wait for ever.
    """
    broken = {
        str(node["nodeId"]): node["jobPreparationTaskExecutionInfo"]
        for node in account.preparation(job_id)
        if _failed(node)
    }
    if not broken:
        return "", False
    name, info = next(iter(broken.items()))
    failure = info.get("failureInfo") or {}
    more = [str(each.get("value")) for each in failure.get("details") or ()]
    text = " ".join([str(failure.get("message") or failure.get("code") or ""), *more])
    there = {str(node["id"]) for node in account.nodes()}
    return f"the node {name} could not be prepared: {text}", there <= broken.keys()


def watch_setup(run: RunFolder, account: Account, job_id: str, *, ended: bool) -> str:
    """Writes the setup's state and log; returns that it failed, "" where it did not."""
    folder = run.folder / "setup"
    has_setup = (run.folder / "setup.jsonl").exists()
    if not has_setup:
        return ""
    known = known_task(folder)
    if known is not None and known.is_final:
        return _said(known)
    nodes = list(account.preparation(job_id))
    folder.mkdir(exist_ok=True)
    status = _status(nodes, account, folder.joinpath("log.txt"), ended=ended)
    state_files.write(folder, status)
    return _said(status)


def _said(status: TaskState) -> str:
    code = status.exit_code
    return f"the setup failed with exit code {code}" if code else ""


def _failed(node: Mapping[str, Any]) -> bool:
    info = node.get("jobPreparationTaskExecutionInfo") or {}
    return str(info.get("result") or "").lower() == "failure"


def _status(nodes: list[Any], account: Account, log: Any, *, ended: bool) -> TaskState:
    """The setup's state over all nodes: the first that fails, or else the first of them."""
    status = TaskState("cancelled" if ended else "queued")
    for node in nodes:
        info = node.get("jobPreparationTaskExecutionInfo")
        if info is None:
            continue  # that node has not begun
        started, name = states.seconds(info.get("startTime")), str(node["nodeId"])
        status = TaskState("running", attempt=0, started=started, node=name)
        if str(info["state"]).lower() != "completed":
            continue
        root = info.get("taskRootDirectory")
        if not root:
            continue  # nothing ran there
        try:
            code = json.loads(account.node_file(node["nodeId"], f"{root}/wd/setup.json", 0, 4096))
            log.write_bytes(account.node_file(node["nodeId"], f"{root}/stdout.txt", 0, _MOST))
        except ServiceError:
            continue  # the node is gone, and with it what it knew
        last = int(code["exit_code"])
        status = replace(
            status,
            state="failed" if last else "succeeded",
            exit_code=last,
            ended=states.seconds(info.get("endTime")),
        )
        if last:
            break
    if ended and status.state == "running":
        # Its tasks began; the node that knew more is gone.
        return replace(status, state="succeeded")
    return status

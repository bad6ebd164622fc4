"""Job preparation and release tasks on a node."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fairway_simulator.batch.agent import environment, layout
from fairway_simulator.batch.agent.commands import NodeLost, not_transferred
from fairway_simulator.batch.agent.transfers import TransferError, fetch

if TYPE_CHECKING:
    from fairway_simulator.batch.agent.commands import NodeAgent
    from fairway_simulator.batch.model.job import Job, Outcome
    from fairway_simulator.batch.model.pool import Node


class Preparation:
    """State of a job's preparation and release tasks on one node; infos have the wire format."""

    def __init__(self, node: Node, now: str) -> None:
        self.node = node
        self.generation = node.generation
        self.done = threading.Event()
        self.info: dict[str, Any] = {"startTime": now, "state": "running", "retryCount": 0}
        self.release: dict[str, Any] | None = None

    @property
    def succeeded(self) -> bool:
        return bool(self.info.get("result") == "success")

    def wire(self) -> dict[str, Any]:
        """Returns the entry for the list of preparation and release task states."""
        wire = {
            "poolId": self.node.pool.id,
            "nodeId": self.node.id,
            "nodeUrl": self.node.url,
            "jobPreparationTaskExecutionInfo": self.info,
        }
        if self.release is not None:
            wire["jobReleaseTaskExecutionInfo"] = self.release
        return wire


def prepare(agent: NodeAgent, job: Job, node: Node, generation: int) -> bool:
    """Runs the job's preparation task once on the node, or waits for it. Returns True if tasks of
    the job may run there. Raises NodeLost if the node is lost in the meantime."""
    spec = job.spec.get("jobPreparationTask")
    if not spec:
        return True
    account = agent.account
    with account.changed:
        known: Preparation | None = job.prepared.get(node.id)
        mine = known is None or known.generation != generation
        if known is None or mine:
            known = Preparation(node, account.clock.now())
            job.prepared[node.id] = known
    if mine:
        try:
            _run(agent, job, spec, known.info, node, generation, environment.preparation_id(job))
        finally:
            known.done.set()
    else:
        known.done.wait()
    good = known.succeeded or not spec.get("waitForSuccess", True)
    with account.changed:
        if not good and known.info.get("result") == "failure":
            node.unfit_for.add(job.key)
    return good


def release(agent: NodeAgent, job: Job) -> None:
    """Runs the job's release task on all nodes that its preparation ran on, all at once."""
    spec = job.spec.get("jobReleaseTask")
    threads = []
    with agent.account.changed:
        for known in job.prepared.values():
            if spec and known.node.generation == known.generation:
                known.release = {"startTime": agent.account.clock.now(), "state": "running"}
                threads.append(threading.Thread(target=_release, args=(agent, job, spec, known)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _release(agent: NodeAgent, job: Job, spec: dict[str, Any], known: Preparation) -> None:
    assert known.release is not None
    folder = str(spec.get("id") or "jobrelease")
    try:
        _run(agent, job, spec, known.release, known.node, known.generation, folder)
    except NodeLost:
        return


def _run(
    agent: NodeAgent,
    job: Job,
    spec: dict[str, Any],
    info: dict[str, Any],
    node: Node,
    generation: int,
    task_id: str,
) -> None:
    """Runs a preparation or release task with its retries, and records the result in `info`."""
    task_folder = agent.task_folder(node, f"{job.folder}/{task_id}")
    info["taskRootDirectory"] = task_folder.relative
    info["taskRootDirectoryUrl"] = f"{node.url}/files/{task_folder.relative}"
    variables = environment.of_folder(task_id, task_folder.seen)
    variables |= environment.of_job(job, agent.layout.root(node))
    variables |= environment.settings(spec.get("environmentSettings"))
    limit = int((spec.get("constraints") or {}).get("maxTaskRetryCount") or 0)
    while True:
        task_folder.make()
        supervisor = agent.supervise(node, generation)
        try:
            fetch(agent.blobs, spec.get("resourceFiles"), task_folder.host / "wd")
            container, identity = spec.get("containerSettings"), spec.get("userIdentity")
            layout.own(task_folder.host, identity)
            line = spec["commandLine"]
            outcome = agent.run(supervisor, task_folder, line, variables, container, identity)
        except TransferError as error:
            outcome = not_transferred(error, kind="preprocessing")
        finally:
            agent.dismiss(node, supervisor)
        if outcome is None:
            raise NodeLost
        again = outcome.kind == "exit" and outcome.failure and info.get("retryCount", 0) != limit
        if not again:
            _finish(agent, info, outcome)
            return
        with agent.account.changed:
            info["retryCount"] += 1
            info["lastRetryTime"] = agent.account.clock.now()


def _finish(agent: NodeAgent, info: dict[str, Any], outcome: Outcome) -> None:
    with agent.account.changed:
        info["endTime"] = agent.account.clock.now()
        info["state"] = "completed"
        info["result"] = "failure" if outcome.failure else "success"
        if outcome.exit_code is not None:
            info["exitCode"] = outcome.exit_code
        if outcome.failure:
            info["failureInfo"] = outcome.failure

"""An API server made of a few dictionaries, and a cluster to which runs are submitted."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairway_agent import control, job_facts, state_files
from fairway_agent.kubernetes import controller, runs, submit
from fairway_agent.kubernetes.api import RequestRefused
from fairway_agent.kubernetes.objects import INDEX, JOB
from fairway_agent.shared.reports import CancelRequest, SubmitRequest
from fairway_agent.state_files import RunState, TaskState


@dataclass
class Server:
    """The objects by kind and name; `refuse` returns why a Job is refused, or nothing."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    refuse: Callable[[str], str] = lambda _: ""
    created: list[str] = field(default_factory=list)
    namespace: str = "training"
    kueue: str = ""

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        return self.objects.setdefault(kind, {})

    def get(self, kind: str, name: str) -> Any:
        return self.of(kind).get(name)

    def list(self, kind: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        name, _equals, value = query.get("labelSelector", "").partition("=")
        found = list(self.of(kind).values())
        if not value:
            return found
        return [each for each in found if each["metadata"]["labels"].get(name) == value]

    def create(self, kind: str, manifest: Mapping[str, Any]) -> bool:
        name = manifest["metadata"]["name"]
        if why := self.refuse(name):
            raise RequestRefused(422, why)
        if name in self.of(kind):
            return False
        self.of(kind)[name] = json.loads(json.dumps(manifest))
        self.created.append(name)
        return True

    def delete(self, kind: str, name: str, **_: bool) -> None:
        self.of(kind).pop(name, None)

    def pod(self, job: str, index: int, phase: str = "Running", **status: Any) -> str:
        """Makes a pod of the Job as its controller does; returns the pod's name, which is its
        uid."""
        name, template = f"{job}-{index}-abcde", self.of("jobs")[job]["spec"]["template"]
        labels = {**template["metadata"]["labels"], JOB: job, INDEX: str(index)}
        facts = {"name": name, "uid": name, "labels": labels}
        facts["creationTimestamp"] = "2023-11-14T19:50:00Z"
        status = {"phase": phase, **status}
        self.of("pods")[name] = {**template, "metadata": facts, "status": status}
        return name


PLAN = {"version": 1, "run": "job-a", "tasks": 1, "retries": 0, "signal": "TERM", "grace": 10.0}
PLAN |= {"directory": "/x"}
ACCESS = {"image": "train:1", "head_image": "python:3.12-slim", "service_account": "fairway-task"}
ACCESS |= {"head": "fairway-head", "volumes": {"data": "claim"}}
TARGET = {"name": "nd", "nodes": {"min": 1, "max": 8}, "mounts": {"data": "/data"}}


@dataclass
class Cluster:
    """A shared folder to which runs are brought as the client does it, and the API server."""

    shared: Path
    server: Server

    def bring(self, run: str, nodes: list[int], *, last: bool = False, **plan: Any) -> Path:
        """Writes a run with one task for each entry of `nodes`, its number of nodes."""
        folder = self.shared / "runs" / run
        folder.mkdir(parents=True)
        (self.shared / "code" / f".0123.{run}").mkdir(parents=True)
        count = len(nodes) + last
        facts = {**PLAN, "run": run, "tasks": count, **plan}
        (folder / "plan.json").write_text(json.dumps(facts))
        (folder / "job.json").write_text("{}")
        (folder / "target.json").write_text(json.dumps({**TARGET, "kubernetes": ACCESS}))
        spec = {"script": "true", "environment": {}, "params": {}, "outputs": {}}
        spec |= {"processes_per_node": 1, "checkpoint": None}
        lines = [{**spec, "index": index, "nodes": each} for index, each in enumerate(nodes)]
        (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        if last:
            facts = {**spec, "index": "finally", "nodes": 1}
            (folder / "finally.jsonl").write_text(json.dumps(facts))
        return folder

    def request(self, run: str, submission: int = 0, key: str = "") -> SubmitRequest:
        """Returns the client's request to submit a run."""
        return SubmitRequest(run, submission, "0123", resources={"cpu": "4"}, key=key)

    def submit(self, run: str = "job-a", submission: int = 0, key: str = "") -> list[str]:
        """Submits a run that was brought, and returns the ids of its Jobs."""
        request = self.request(run, submission, key)
        return [*submit.submit(self.shared, request, io.BytesIO()).jobs]

    def submitted(self, nodes: list[int], run: str = "job-a", **more: Any) -> Path:
        """Brings a run, submits it, and returns its folder."""
        folder = self.bring(run, nodes, **more)
        self.submit(run)
        return folder

    def cancel(self, submission: int = 0, **more: Any) -> None:
        """Cancels the run `job-a`, or a task of it, as the client does."""
        runs.cancel(self.shared, CancelRequest("job-a", submission, **more), io.BytesIO())

    def wrote(self, folder: Path, task: str, state: str, **more: Any) -> None:
        """Writes a task's state, as the task does."""
        (folder / "tasks" / task).mkdir(parents=True, exist_ok=True)
        state_files.write(folder / "tasks" / task, TaskState(state, **more))

    def ended(self, folder: Path, task: str, state: str = "succeeded") -> None:
        """Writes the end of a task, as the task does."""
        self.wrote(folder, task, state, exit_code=0, ended=1.0)

    def controller(self, folder: Path) -> controller.Controller:
        """Returns the run's controller before its first look at the cluster."""
        plan = job_facts.read_shared_plan(folder)
        return controller.Controller(self.server, folder, 0, plan)  # type: ignore[arg-type]

    def due(self, folder: Path, known: control.Control | None = None) -> list[int]:
        """Returns the parts to be created now, for the last submission or a given one."""
        known = known or control.read(folder)
        plan = job_facts.read_shared_plan(folder)
        return [part.number for part in controller.due(folder, known, plan)]

    def state(self, folder: Path) -> RunState:
        """Reconciles the run and returns its state."""
        assert runs.reconcile_all(self.server, [folder]) == {}  # type: ignore[arg-type]
        return state_files.read_run(folder)

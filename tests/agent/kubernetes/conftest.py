"""An API server that is a few dictionaries, for tests of what is asked of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from fairway_agent.kubernetes.api import Refused
from fairway_agent.shared.reports import SubmitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass
class Server:
    """The objects by their kinds and names; `refuse` says which Jobs it does not take."""

    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    refuse: Callable[[str], str] = lambda _: ""
    created: list[str] = field(default_factory=list)
    namespace: str = "training"
    kueue: str = ""

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        return self.objects.setdefault(kind, {})

    def get(self, _base: str, kind: str, name: str, **_: bool) -> Any:
        return self.of(kind).get(name)

    def list(
        self, _base: str, kind: str, query: Mapping[str, str], **_: bool
    ) -> list[dict[str, Any]]:
        name, _equals, value = query.get("labelSelector", "").partition("=")
        found = list(self.of(kind).values())
        if not value:
            return found
        return [each for each in found if each["metadata"]["labels"].get(name) == value]

    def create(self, _base: str, kind: str, manifest: Mapping[str, Any]) -> bool:
        name = manifest["metadata"]["name"]
        if why := self.refuse(name):
            raise Refused(422, why)
        if name in self.of(kind):
            return False
        self.of(kind)[name] = json.loads(json.dumps(manifest))
        self.created.append(name)
        return True

    def delete(self, _base: str, kind: str, name: str, **_: bool) -> None:
        self.of(kind).pop(name, None)


@pytest.fixture
def server() -> Server:
    return Server()


PLAN = {"version": 1, "run": "job-a", "tasks": 1, "retries": 0, "signal": "TERM", "grace": 10.0}
PLAN |= {"directory": "/x"}
ACCESS = {"image": "train:1", "head_image": "python:3.12-slim", "service_account": "fairway-task"}
ACCESS |= {"head": "fairway-head", "volumes": {"data": "claim"}}
TARGET = {"name": "nd", "nodes": {"min": 1, "max": 8}, "mounts": {"data": "/data"}}


@dataclass
class Cluster:
    """A shared folder, and how a run comes there as the client brings it; and its API server."""

    shared: Path
    server: Server

    def bring(self, run: str, nodes: list[int], *, last: bool = False, **plan: Any) -> Path:
        """A run with a task on each of these numbers of nodes."""
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
        """How the client asks to submit it."""
        return SubmitRequest(run, submission, "0123", resources={"cpu": "4"}, key=key)


@pytest.fixture
def cluster(tmp_path: Path, server: Server) -> Cluster:
    return Cluster(tmp_path, server)

"""Files of a Batch pool's nodes and its storage, and errors of the service."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from fairway_core.findings import Finding
from fairway_runner.engines.azure_calls import ServiceError


def refused(status: int = 404, code: str = "") -> ServiceError:
    return ServiceError(Finding("refused", code or f"{status}"), status=status, code=code)


@dataclass
class Files:
    """The files of tasks on their nodes, by task and name, and the blobs of the account."""

    node: dict[tuple[str, str], bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    before: Callable[[str, str], None] = lambda _task, _name: None
    """Called before each read of a node's file."""
    asked: int = 0
    """The number of reads of nodes' files."""
    lists: int = 0
    """The number of times that blobs were listed."""

    def task_file(self, _job: str, task: str, name: str, first: int, last: int) -> bytes:
        self.asked += 1
        self.before(task, name)
        if (task, name) not in self.node:
            raise refused()
        data = self.node[task, name]
        if first >= len(data):
            raise refused(416)
        return data[first : last + 1]

    def read(self, _container: str, blob: str, offset: int = 0, length: int = 1 << 20) -> bytes:
        if blob not in self.stored:
            raise refused()
        return self.stored[blob][offset : offset + length]

    def upload(self, _container: str, name: str, data: bytes) -> None:
        self.stored[name] = data

    def blobs(self, _container: str, prefix: str) -> Iterator[Any]:
        self.lists += 1
        return (SimpleNamespace(name=name) for name in self.stored if name.startswith(prefix))

    def begin(self, task: str, number: int, *kept: bytes) -> None:
        """Starts an attempt on a node, with the logs kept from earlier attempts."""
        for name in [name for of, name in self.node if of == task]:
            del self.node[task, name]
        for earlier, data in enumerate(kept):
            self.node[task, f"wd/logs/stdout.{earlier}.txt"] = data
        marker = f"{number} {os.urandom(4).hex()}\n".encode()
        self.node |= {(task, "wd/logs/attempt.txt"): marker, (task, "stdout.txt"): b""}

    def say(self, task: str, text: bytes) -> None:
        self.node[task, "stdout.txt"] += text

"""A Batch account on loopback, and the real client for it."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from shutil import which
from typing import Any

import pytest
from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential

from fairway_simulator.batch import BatchSimulator, StorageAccess
from fairway_simulator.batch.azurite import Azurite, program

Connect = Callable[[BatchSimulator], BatchClient]
Run = Callable[..., Any]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Returns a function that makes clients for a simulator; they are closed at the end."""
    clients: list[BatchClient] = []

    def make(service: BatchSimulator, **options: Any) -> BatchClient:
        credential = AzureNamedKeyCredential(service.account, service.key)
        client = BatchClient(service.endpoint, credential, **options)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@dataclass(frozen=True)
class Sleep:
    """A unique number of seconds to sleep, by which a test finds its own process: nodes number
    processes differently."""

    seconds: str

    def lives(self, more: str = "") -> bool:
        """Returns True if a process sleeps for this time, with `more` digits."""
        words = b"sleep\0" + f"{self.seconds}{more}".encode("ascii") + b"\0"
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if file.read_bytes() == words:
                    return True
        return False


@pytest.fixture
def sleep() -> Sleep:
    """A sleep that is unique to the test."""
    return Sleep(f"300.{random.randrange(10**9):09}")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[BatchSimulator]:
    """An account with three nodes and no storage."""
    with BatchSimulator(tmp_path / "sim", nodes=3) as simulator:
        yield simulator


@pytest.fixture
def client(service: BatchSimulator, connect: Connect) -> BatchClient:
    """A client for `service`."""
    return connect(service)


@pytest.fixture
def job(client: BatchClient) -> str:
    """The ID of a job on the pool `sim`."""
    client.create_job({"id": "job", "poolInfo": {"poolId": "sim"}})
    return "job"


@pytest.fixture
def run(service: BatchSimulator, client: BatchClient, job: str) -> Run:
    """Runs a bash script as a task and returns the ended task."""

    def run_task(script: str, task_id: str = "1", **spec: Any) -> Any:
        line = f"/bin/bash -c {quote(script)}"
        client.create_task(job, {"id": task_id, "commandLine": line, **spec})
        service.wait_for_task(job, task_id)
        return client.get_task(job, task_id)

    return run_task


@pytest.fixture
def read(client: BatchClient, job: str) -> Callable[..., str]:
    """Reads a file of a task."""

    def read_file(task: str = "1", file: str = "stdout.txt", **options: Any) -> str:
        return b"".join(client.download_task_file(job, task, file, **options)).decode()

    return read_file


@pytest.fixture(scope="session")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageAccess]:
    """A storage account, with the containers of the simulator."""
    if program() is None:
        pytest.skip("Azurite is missing: npm install --prefix .venv/azurite azurite")
    azurite = Azurite(tmp_path_factory.mktemp("azurite"), ("datasets", "outputs", "code"))
    yield azurite.access
    azurite.stop()


@pytest.fixture
def need() -> Callable[[str, str], str]:
    """Returns the path of a program, or skips the test without it."""

    def find(name: str, package: str) -> str:
        found = which(name) or which(name, path="/usr/sbin")
        if found is None:
            pytest.skip(f"{name} is missing; on Debian: apt-get install {package}")
        return found

    return find

"""The Batch account of a target, and the names of runs there: jobs, blobs, keys of metadata.

This is the only module that creates a `BatchClient`. Its methods return the SDK's models, which are
mappings too.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from azure.batch import BatchClient
from azure.core.credentials import AzureNamedKeyCredential, TokenCredential
from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy
from azure.core.rest import HttpRequest

from fairway_core.findings import UserError
from fairway_runner.engines.azure_calls import Calls, ServiceError
from fairway_runner.engines.azure_sdk import token_credential, transport
from fairway_runner.engines.engine import account_address

if TYPE_CHECKING:
    from fairway_core.target import Target

Facts = Mapping[str, Any]
"""A job, a task, a node or the pool, by the names on the wire."""


def state_of(facts: Facts) -> str:
    """Returns the state of one of these, in lower case."""
    return str(facts["state"]).lower()


CONCURRENCY = 32
"""Number of parallel requests when many things are queried."""

NO_JOB = "JobNotFound"
"""The service's error code for a missing job. Any other 404, for example from a proxy, does not end
a run."""

_VERSION = "2025-06-01"
_JSON = "application/json; odata=minimalmetadata"

# It warns, with a traceback, that the error for a missing file has no readable body.
logging.getLogger("azure.batch._utils.model_base").setLevel(logging.CRITICAL)

_HINT = (
    "log in with `az login` as someone with the role Azure Batch Data Contributor on the\n"
    "account, which `access.researchers` in the environment assigns; or set\n"
    "AZURE_BATCH_ACCOUNT, AZURE_BATCH_ENDPOINT and AZURE_BATCH_ACCESS_KEY"
)


class _Dates(SansIOHTTPPolicy[Any, Any]):
    """Dates requests by the service's clock: it refuses signatures of a clock that is far off."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def on_request(self, request: Any) -> None:
        if self._calls.skew:
            when = datetime.now(UTC) + timedelta(seconds=self._calls.skew)
            request.http_request.headers["ocp-date"] = format_datetime(when, usegmt=True)


class Account:
    """The Batch account of one target."""

    def __init__(self, target: Target, deadline: float) -> None:
        assert target.batch is not None, "a target of this engine has its section"
        self.target = target
        self.pool = target.batch.pool
        self.calls = Calls("Azure Batch", deadline, _HINT)

    @property
    def endpoint(self) -> str:
        """The account's address. Raises UserError if neither target nor environment names it."""
        endpoint = account_address(self.target)
        if not endpoint:
            message = f"the address of the Batch account of `{self.target.name}` is not known"
            hint = (
                "set AZURE_BATCH_ENDPOINT, or add `endpoint:` to the target's `batch:`; to "
                "try it on this machine: bin/batch-simulator --background, then source "
                "./sim.env"
            )
            raise UserError.of("no-endpoint", message, hint)
        return endpoint if "://" in endpoint else f"https://{endpoint}"

    @cached_property
    def client(self) -> BatchClient:
        """The SDK's client, with as many connections as there are threads."""
        key = os.environ.get("AZURE_BATCH_ACCESS_KEY", "")
        own = os.environ.get("AZURE_BATCH_ENDPOINT", "")
        host = urlsplit(self.endpoint).netloc
        own_host = urlsplit(own if "://" in own else f"https://{own}").netloc
        credential: AzureNamedKeyCredential | TokenCredential
        if key and (not own or host == own_host):
            account = os.environ.get("AZURE_BATCH_ACCOUNT", "") or host.split(".")[0]
            credential = AzureNamedKeyCredential(account, key)
        elif urlsplit(self.endpoint).scheme == "https":
            credential, self.calls.has_token = token_credential(), True
        else:
            message = f"{self.endpoint} is not https://, so no sign-in is sent there"
            hint = "write https://, or set AZURE_BATCH_ACCESS_KEY; the simulator's is in sim.env"
            raise UserError.of("no-tls", message, hint)
        self.calls.skew, self.calls.address = 0.0, self.endpoint
        return BatchClient(
            self.endpoint,
            credential,
            # `Calls._call` retries instead, and says why.
            retry_policy=RetryPolicy.no_retries(),
            per_call_policies=[_Dates(self.calls)],
            transport=transport(self.target, self.endpoint, self.calls.deadline),
        )

    def create_job(self, job: Facts) -> None:
        """Adds a job. Raises ServiceError with status 409 if the id is taken."""
        self.calls.call("a new job", lambda: self.client.create_job(dict(job)))  # type: ignore[arg-type]

    def job(self, job_id: str) -> Facts:
        """Returns a job's present state."""
        return self.calls.call("a job", lambda: self.client.get_job(job_id))

    def find_job(self, job_id: str) -> Facts | None:
        """Returns a job's present state; None if it does not exist."""
        try:
            return self.job(job_id)
        except ServiceError as error:
            if error.code == NO_JOB:
                return None
            raise

    def jobs(self) -> Iterator[Facts]:
        """Returns every job of the pool, with the properties that identify its run."""
        select = [
            *("id", "state", "creationTime", "executionInfo", "metadata", "poolInfo"),
            *("priority", "previousState", "stateTransitionTime"),
        ]
        jobs = self.client.list_jobs(filter=f"executionInfo/poolId eq '{self.pool}'", select=select)
        return self.calls.pages("the list of jobs", jobs)

    def task_counts(self, job_id: str) -> Mapping[str, int]:
        """Returns how many tasks a job has, by state: active, running, succeeded, failed, …."""
        counts = self.calls.call("counts", lambda: self.client.get_job_task_counts(job_id))
        return dict(counts["taskCounts"])

    def end_when_done(self, job_id: str) -> None:
        """Has a job end once all its tasks have ended."""
        change = {"onAllTasksComplete": "terminatejob"}
        self.calls.call("the job's end", lambda: self.client.update_job(job_id, change))  # type: ignore[arg-type]

    def order(self, what: str, method: str, path: str, **body: Any) -> None:
        """Starts a long-running operation. The SDK's own methods start a thread for each, which
        polls every five seconds, hides errors, and fails on an empty body (ValueError)."""
        request = self._request(method, path, body or None)
        self.calls.call(what, lambda: self.client.send_request(request).raise_for_status())

    def _request(self, method: str, path: str, body: Facts | None) -> HttpRequest:
        url = f"{self.endpoint.rstrip('/')}{quote(path)}?api-version={_VERSION}"
        headers = {"Accept": "application/json"}
        if body is None:
            return HttpRequest(method, url, headers=headers)
        headers["Content-Type"] = _JSON
        return HttpRequest(method, url, headers=headers, content=json.dumps(body).encode())

    def preparation(self, job_id: str) -> Iterator[Facts]:
        """Lists the state of the job's preparation on each node."""
        items = self.client.list_job_preparation_and_release_task_status(job_id)
        return self.calls.pages("the nodes' preparation", items)

    def add_tasks(self, job_id: str, tasks: Sequence[Facts]) -> list[Facts]:
        """Adds up to 100 tasks; returns an answer for each. Raises ServiceError 413 for more."""
        # The SDK's own method makes a model object of each answer, which takes as long as
        # everything else together.
        request = self._request("POST", f"/jobs/{job_id}/addtaskcollection", {"value": tasks})

        def ask() -> list[Facts]:
            answer = self.client.send_request(request)
            answer.raise_for_status()
            return list(answer.json()["value"])

        return self.calls.call("new tasks", ask)

    def tasks(self, job_id: str, select: Sequence[str]) -> Iterator[Facts]:
        """Returns every task of a job, with the requested properties."""
        return self.calls.pages("tasks", self.client.list_tasks(job_id, select=list(select)))

    def running_tasks(self, job_id: str) -> list[Facts]:
        """Returns a job's running tasks, each with its id and the facts of its attempt."""
        select = ["id", "executionInfo"]
        tasks = self.client.list_tasks(job_id, filter="state eq 'running'", select=select)
        return list(self.calls.pages("tasks", tasks))

    def task(self, job_id: str, task_id: str) -> Facts:
        """Returns a task's present state. Raises ServiceError 404 if it does not exist."""
        return self.calls.call("a task", lambda: self.client.get_task(job_id, task_id))

    def subtasks(self, job_id: str, task_id: str) -> Iterator[Facts]:
        """Returns the instances of a task on nodes other than its main one."""
        return self.calls.pages("subtasks", self.client.list_subtasks(job_id, task_id))

    def task_file(self, job_id: str, task_id: str, name: str, first: int, last: int) -> bytes:
        """Returns these bytes of a task's file. Raises ServiceError 404 if it is gone."""
        return self._read(
            lambda span: self.client.download_task_file(job_id, task_id, name, ocp_range=span),
            *(first, last),
        )

    def delete_task_file(self, job_id: str, task_id: str, name: str) -> None:
        """Removes a file from the folder of a task. Raises ServiceError if it does not exist."""
        self.calls.call(
            "a file's removal", lambda: self.client.delete_task_file(job_id, task_id, name)
        )

    def node_file(self, node: str, name: str, first: int, last: int) -> bytes:
        """Reads a file by its path below the node's root folder."""
        return self._read(
            lambda span: self.client.download_node_file(self.pool, node, name, ocp_range=span),
            *(first, last),
        )

    def _read(self, download: Callable[[str], Iterator[bytes]], first: int, last: int) -> bytes:
        # A file download has no parsed error: `Calls` looks only at the status.
        span = f"bytes={first}-{last}"
        return self.calls.call("a file", lambda: b"".join(download(span)), brief=False)

    def pool_facts(self) -> Facts:
        """Returns the pool's present state. Raises ServiceError 404 if it does not exist."""
        return self.calls.call("the pool", lambda: self.client.get_pool(self.pool))

    def nodes(self) -> Iterator[Facts]:
        """Returns every node of the pool."""
        return self.calls.pages("the pool's nodes", self.client.list_nodes(self.pool))


_LONGEST = 64  # characters of a job ID

RUN = "fairway_run"
SUBMISSION = "fairway_submission"
CREATED = "fairway_created"
SCHEDULE = "fairway_schedule"
"""Metadata of a job: the run's ID, the submission's number, the time at which the run was created,
which tells it from another of the same ID, and the name of the schedule that created the job. The
jobs of a schedule have its ID instead of a run ID."""


def job_id(run: str, submission: int = 0) -> str:
    """Returns the Batch job of a run: its id, and for a retry the number of the submission.

    >>> job_id("digits-abcdef"), job_id("digits-abcdef", 2)
    ('digits-abcdef', 'digits-abcdef-again2')
    """
    ending = f"-again{submission}" if submission else ""
    if len(run) + len(ending) <= _LONGEST:
        return run + ending
    digest = hashlib.sha256(run.encode()).hexdigest()[:8]
    return f"{run[: _LONGEST - 9 - len(ending)]}-{digest}{ending}"


def run_of(job: str) -> str:
    """Returns the run that a job belongs to, by its id.

    >>> run_of("digits-abcdef-again2"), run_of("nightly:job-7")
    ('digits-abcdef', 'nightly-7')
    """
    return re.sub(r"-again\d+$", "", scheduled_run(job))


def scheduled_run(job: str) -> str:
    """Returns the run that a schedule's job is; any other id as it is."""
    return re.sub(r":job-(\d+)$", r"-\1", job)


def private_folder(run: str) -> str:
    """Returns the path of the run's key and its copied inputs in the container `code`."""
    return f"runs/{run}/"


def record_blob(run: str) -> str:
    """Returns the archive of the run's record, in the container `outputs`."""
    return f"{run}/record.tar.gz"


def exit_reports_folder(run: str, submission: int) -> str:
    """Returns the path in the container `outputs` with the exit reports of a run's tasks."""
    return f"{run}/exit-reports/{submission}/"


def task_folder(run: str, task: int | str) -> str:
    """Returns the path of a task's logs and outputs in the container `outputs`."""
    return f"{run}/{task}/"


def cancelled_folder(run: str, submission: int) -> str:
    """Returns the path in `outputs` with an empty blob for each task cancelled by itself."""
    return f"{run}/cancelled/{submission}/"

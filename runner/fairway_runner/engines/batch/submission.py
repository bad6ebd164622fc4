"""Sends a run to Batch so that a crash at any point loses nothing and duplicates nothing.

First a job is created that takes no action when it is empty, which makes the run's id this run's
own; then the files for nodes are uploaded; then the tasks are added, whose ids are their numbers;
then the job is set to end when all are done. Each step that was done before is recognised and left
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.spec import RECORD
from fairway_boot.files import NO_ANSWER
from fairway_core import archives
from fairway_core.findings import Finding, UserError
from fairway_runner.engines import engine
from fairway_runner.engines.azure_calls import ServiceAway, ServiceError
from fairway_runner.engines.azure_storage import CODE, OUTPUTS, Storage
from fairway_runner.engines.batch import client, outputs
from fairway_runner.engines.batch.client import state_of
from fairway_runner.engines.batch.request_builder import Blobs, RequestBuilder
from fairway_runner.engines.outage import RunRefused, Tries, Unavailable
from fairway_runner.engines.remote import submission_state
from fairway_runner.runs.records import read_job, read_last, read_plan, read_specs

if TYPE_CHECKING:
    from fairway_agent.records import Fields
    from fairway_runner.engines.batch.client import Account, Facts
    from fairway_runner.runs.folder import RunFolder

_THREADS = 16
_AT_ONCE = 100  # tasks in one request, the maximum of Batch


@dataclass
class State(submission_state.SubmissionRecord, label="the submission"):
    """State of the submission as the folder records it; it is complete if its job has all tasks. Of
    a retry `only` are the numbers of the tasks that run again, `first` has the number of the next
    attempt of each by name, and `done` counts how the others ended."""

    first: dict[str, int] = field(default_factory=dict)
    only: tuple[int, ...] | None = None
    done: dict[str, int] = field(default_factory=dict)

    @property
    def job(self) -> str:
        """Id of its job."""
        return self.jobs[0]

    def check(self, found: Fields) -> None:
        if not self.jobs:
            raise found.invalid("jobs")


@dataclass
class BatchSubmission:
    """Submission of one run on the code of a snapshot."""

    run: RunFolder
    account: Account
    storage: Storage
    state: State
    snapshot: Path
    accepted: int = 0

    def new_key(self) -> bytes:
        """Returns a private key for its nodes, which is used if the run has none there yet."""
        return engine.new_key(f"fairway {self.run.id}")[0]

    @cached_property
    def requests(self) -> RequestBuilder:
        """The builder of its job and tasks."""
        folder, run = self.run.folder, self.run.id
        blobs = Blobs(
            code=f"archives/{self.snapshot.name}.tar.gz",
            node=f"fairway/{archives.agent_digest()}.tar.gz",
            record=client.record_blob(run),
            key=f"{client.private_folder(run)}key",
        )
        return RequestBuilder(
            *(run, read_plan(folder), read_job(folder), self.account.target, self.storage, blobs),
            submission=self.state.submission,
            first=self.state.first,
            done=self.state.done,
        )

    def job(self) -> dict[str, Any]:
        """Returns its job in the form of a request."""
        metadata = {
            client.RUN: self.run.id,
            client.SUBMISSION: str(self.state.submission),
            client.CREATED: str(self.run.record.created),
        }
        return self.requests.job_spec(self.run.record.name, metadata)

    def tasks(self) -> Iterator[dict[str, Any]]:
        """Yields the tasks to add, each built on demand: 100,000 have some kilobytes each."""
        only = None if self.state.only is None else frozenset(self.state.only)
        numbers = []
        for spec in read_specs(self.run.folder / "tasks.jsonl"):
            if only is None or int(spec.index) in only:
                numbers.append(int(spec.index))
                yield self.requests.task(spec)
        for spec in read_last(self.run.folder):
            yield self.requests.last_task(spec, numbers)

    def send(self) -> None:
        """Sends what is missing there. Raises UserError that says what was accepted."""
        # First, while this process is small: forking doubles its memory for a moment.
        key, job, job_id = self.new_key(), self.job(), self.state.job
        try:
            inputs = outputs.missing_inputs(self.run, self.storage)
            known: set[str] = set()
            if not self._create_job(job):
                known = {str(task["id"]) for task in self.account.tasks(job_id, ["id"])}
            self.upload(inputs, key)
            self.accepted = len(known)
            self._add((task for task in self.tasks() if task["id"] not in known), job_id)
            try:
                self.account.end_when_done(job_id)
            except ServiceError as error:
                state = state_of(self.account.job(job_id)) if error.exists_already else ""
                if state not in ("completed", "terminating"):
                    raise  # otherwise it was terminated before, and has ended since
        except ServiceError as error:
            raise self._incomplete_submission(error) from None
        self.state.complete = True
        self.state.write(self.run)

    def upload(self, inputs: Mapping[str, Path], key: bytes) -> None:
        """Uploads the files for nodes, unless they exist, and these inputs. The run's id must be
        its own: another run of the same id has its files at the same names."""
        blobs, storage, folder = self.requests.blobs, self.storage, self.run.folder
        record = archives.pack(
            (name, folder / name, False) for name in RECORD if (folder / name).exists()
        )
        outputs.upload_inputs(inputs, storage)

        def send(name: str, data: Callable[[], bytes]) -> None:
            if not storage.exists(CODE, name):
                storage.upload(CODE, name, data())

        with ThreadPoolExecutor(4) as pool:
            for done in (
                pool.submit(send, blobs.code, lambda: archives.pack_folder(self.snapshot)),
                pool.submit(send, blobs.node, lambda: archives.agent()[1]),
                pool.submit(send, blobs.key, lambda: key),
                pool.submit(storage.upload, OUTPUTS, blobs.record, record),
            ):
                done.result()

    def _create_job(self, job: Facts) -> bool:
        """Creates the job, or returns False if it exists. Raises RunRefused for a taken id."""
        tries = Tries(self.account.calls.deadline)
        while True:
            try:
                self.account.create_job(job)
                return True
            except ServiceError as error:
                if error.code == "JobBeingDeleted" and tries.pause():
                    continue
                if error.code == "JobScheduleWithSameIdExists":
                    raise self._taken(f"a schedule with the id `{job['id']}`") from None
                if error.code == "ActiveJobAndScheduleQuotaReached":
                    known = self.account.find_job(str(job["id"]))
                    if known is None:  # no earlier try has created it
                        findings = self._incomplete_submission(error).findings
                        raise Unavailable(findings, exit_code=error.exit_code) from None
                elif error.code == "JobExists":
                    known = self.account.job(str(job["id"]))
                else:
                    raise
            if not is_job_of(known, self.run):
                raise self._taken(f"another job with the id `{job['id']}`")
            return False

    def _add(self, specs: Iterable[Facts], job_id: str) -> None:
        """Adds tasks, many requests in parallel, with no more tasks in memory than these need."""
        stopped = self.account.calls.stopped
        sent: deque[Future[None]] = deque()
        with ThreadPoolExecutor(_THREADS) as pool:
            try:
                rest = iter(specs)
                while chunk := list(islice(rest, _AT_ONCE)):
                    sent.append(pool.submit(self._add_chunk, job_id, chunk))
                    if len(sent) > 2 * _THREADS:
                        sent.popleft().result()
                for done in sent:
                    done.result()
            except BaseException:
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                stopped.clear()  # later requests to this account are independent

    def _add_chunk(self, job_id: str, chunk: Sequence[Facts]) -> None:
        """Adds up to 100 tasks, and retries those that the service could not take."""
        tries = Tries(self.account.calls.deadline, self.account.calls.stopped)
        while chunk:
            try:
                answers = self.account.add_tasks(job_id, chunk)
            except ServiceError as error:
                if error.status != 413:
                    raise
                if len(chunk) == 1:
                    message = f"task {chunk[0]['id']} is larger than Azure Batch accepts"
                    hint = "give it fewer outputs and shorter environment variables: data goes "
                    finding = Finding("refused", message, f"{hint}through `inputs`")
                    raise ServiceError(finding, status=413, code="", exit_code=2) from None
                middle = len(chunk) // 2
                self._add_chunk(job_id, chunk[:middle])
                chunk = chunk[middle:]
                continue
            again = _refused(answers)
            self.accepted += len(chunk) - len(again)
            chunk = [spec for spec in chunk if spec["id"] in again]
            if chunk and not tries.pause():
                message = f"Azure Batch could not take {len(chunk)} tasks: {again[chunk[0]['id']]}"
                finding = Finding(NO_ANSWER, message, "try again later")
                raise ServiceAway(finding, status=503, code="")

    def _taken(self, what: str) -> UserError:
        hint = "choose another ID"
        if self.state.submission:
            hint = f"fairway cancel {self.run.id}, and retry it again: its job is another then"
        return RunRefused.of("taken-run-id", f"the account has {what}", hint)

    def _incomplete_submission(self, error: ServiceError) -> UserError:
        only = self.state.only
        total = self.run.record.tasks if only is None else len(only) + self.run.has_last
        message = f"{self.accepted:,} of {total:,} tasks were accepted, and nothing is lost"
        hint = f"resume it with: fairway submit --resume {self.run.id}"
        return error.with_findings([*error.findings, Finding("cut-off-submission", message, hint)])


def _refused(answers: Iterable[Facts]) -> dict[str, str]:
    """Returns the tasks to send again, with reasons. Raises UserError for one never taken."""
    again = {}
    for answer in answers:
        status = str(answer["status"]).lower()
        error = answer.get("error") or {}
        code = str(error.get("code", ""))
        if status == "success" or code == "TaskExists":
            continue
        text = str((error.get("message") or {}).get("value", code))
        if status != "servererror":
            message = f"Azure Batch refuses task {answer['taskId']}: {code}: {text}"
            finding = Finding(
                "refused", message, "change the job, and submit it again from its file"
            )
            raise ServiceError(finding, status=400, code=code)
        again[str(answer["taskId"])] = f"{code}: {text}"
    return again


def job_id_of(run: RunFolder) -> str:
    """Returns the job of a run, which is the first one's before any submission."""
    state = State.read(run)
    return state.job if state else client.job_id(run.id)


def metadata_of(job: Facts) -> dict[str, str]:
    """Returns a job's metadata by name."""
    return {str(each["name"]): str(each["value"]) for each in job.get("metadata") or ()}


def is_job_of(job: Facts, run: RunFolder) -> bool:
    """Returns True if a job, or a schedule, is this run's own, and not that of another run with the
    same id. The run of a schedule's job has no other sign than the job's id."""
    job_id, created = str(job["id"]), str(run.record.created)
    by_schedule = client.scheduled_run(job_id) == run.id != job_id
    return by_schedule or metadata_of(job).get(client.CREATED) == created


def find_own_job(account: Account, run: RunFolder, job_id: str) -> Facts | None:
    """Returns the job of that id; None if it does not exist, or is another run's."""
    job = account.find_job(job_id)
    return job if job is not None and is_job_of(job, run) else None

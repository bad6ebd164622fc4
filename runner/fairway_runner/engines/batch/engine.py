"""Runs on an Azure Batch pool; `engines.engine.Engine` documents the methods."""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.state_files import RunState
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.azure_calls import ServiceError
from fairway_runner.engines.azure_storage import Storage
from fairway_runner.engines.batch import adoption, client, outputs, pools, states
from fairway_runner.engines.batch.client import Account
from fairway_runner.engines.batch.poller import Poller
from fairway_runner.engines.batch.submission import State, Submission, job_id_of
from fairway_runner.engines.batch.task_files import TaskFiles, bring_figures, reopen_logs
from fairway_runner.engines.engine import (
    Engine,
    Node,
    Progress,
    Secrets,
    inside_words,
    new_key,
    no_progress,
)
from fairway_runner.engines.remote import bastion
from fairway_runner.engines.remote.connection import ended_as_by_ctrl_c, on_terminal
from fairway_runner.engines.remote.submission_state import queue_tasks_again
from fairway_runner.runs.records import FINAL_STATES, read_plan, read_retry

if TYPE_CHECKING:
    from fairway_agent.spec import Staged
    from fairway_runner.engines.batch.schedules import BatchSchedules
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder, RunFolders
    from fairway_runner.runs.results import KeptOutput

# A killed program cannot remove its user from a node, so the user expires.
_LIFE = timedelta(hours=1)
_RENEWAL = 20 * 60.0  # seconds
_SSH_PORT = 22


def shell(account: Account, node: str | None, command: Sequence[str], *, forward: str) -> int:
    """Opens a shell on a node of the pool, or runs the command there, as a user created for this
    connection. Raises UserError for an unknown node, or a pool without access."""
    name = node or _any_node(account)
    host, port, way = _address(account, name)
    user = f"fairway-{os.urandom(4).hex()}"
    private, public = new_key(user)
    with ended_as_by_ctrl_c(), tempfile.TemporaryDirectory(prefix="fairway-login-") as folder:
        key = Path(folder, "key")
        key.touch(mode=0o600)
        key.write_bytes(private)
        options: Any = {"name": user, "isAdmin": True, **_access(public)}
        with ExitStack() as ends:
            ends.callback(_delete_user, account, name, user)
            try:
                account.calls.call(
                    f"a user on {name}",
                    lambda: account.client.create_node_user(account.pool, name, options),
                )
            except ServiceError:
                ends.pop_all()  # unknown or expired: report the original refusal
                raise
            with _renewed(account, name, user, public):
                return on_terminal(_words(key, user, host, port, command, forward, way))


@contextmanager
def _renewed(account: Account, node: str, user: str, public: str) -> Iterator[None]:
    """Extends the user's expiry for as long as the connection lasts."""
    done = threading.Event()

    def again() -> None:
        options: Any = _access(public)
        account.client.replace_node_user(account.pool, node, user, options)

    def renew() -> None:
        while not done.wait(_RENEWAL):
            # The next renewal makes up for a failed one: there are three within a lifetime.
            with suppress(UserError):
                account.calls.call(f"a user on {node}", again)

    threading.Thread(target=renew, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _words(
    key: Path,
    user: str,
    host: str,
    port: int,
    command: Sequence[str],
    forward: str,
    way: dict[str, str],
) -> list[str]:
    options = {
        "IdentityFile": str(key),
        "IdentitiesOnly": "yes",
        # Nodes come and go with their host keys; the account itself supplies their addresses.
        "StrictHostKeyChecking": "accept-new",
        "UserKnownHostsFile": str(key.with_name("known_hosts")),
        "LogLevel": "ERROR",
        "ConnectTimeout": "20",
        "ServerAliveInterval": "30",
        **way,
    }
    words = ["ssh", *(word for each in options.items() for word in ("-o", "=".join(each)))]
    words += ["-p", str(port), "-l", user]
    if forward:
        words += ["-N", "-o", "ExitOnForwardFailure=yes", "-L", forward]
    elif not command:
        words.append("-t")
    return [*words, "--", host, *([shlex.join(command)] if command else [])]


def _any_node(account: Account) -> str:
    for node in account.nodes():
        if str(node["state"]).lower() in pools.USABLE:
            return str(node["id"])
    message = f"the pool `{account.pool}` has no nodes now"
    hint = f"start one: fairway pool resize {account.target.name} 1"
    raise UserError.of("no-node", message, hint)


def _address(account: Account, node: str) -> tuple[str, int, dict[str, str]]:
    """Returns host and port of the node's ssh server, and ssh's settings for the way there."""
    client = account.client
    try:
        facts = account.calls.call(f"the node {node}", lambda: client.get_node(account.pool, node))
    except ServiceError as error:
        if error.is_missing:
            raise pools.unknown_node(account, node) from None
        raise
    try:
        settings: Any = account.calls.call(
            f"the way to {node}", lambda: client.get_node_remote_login_settings(account.pool, node)
        )
        mapped, port = settings.get("remoteLoginIPAddress"), settings.get("remoteLoginPort")
    except ServiceError as error:
        if error.status not in (400, 404, 409):
            raise
        mapped, port = None, None
    if mapped and port:
        return str(mapped), int(port), {}
    host = str(facts.get("ipAddress") or "")
    if not host:
        message = f"the node `{node}` has no address now; it is {str(facts['state']).lower()}"
        raise UserError.of("no-node", message, f"see: fairway nodes list {account.target.name}")
    bastion.require_tools(account.target.reach)
    return host, _SSH_PORT, bastion.settings(account.target.reach, host)


def _access(public: str) -> dict[str, str]:
    """Returns the key of a user, and the time of expiry."""
    expiry = (datetime.now(UTC) + _LIFE).isoformat().replace("+00:00", "Z")
    return {"sshPublicKey": public, "expiryTime": expiry}


def _delete_user(account: Account, node: str, user: str) -> None:
    try:
        account.calls.call(
            f"the end of a user on {node}",
            lambda: account.client.delete_node_user(account.pool, node, user),
        )
    except ServiceError as error:
        if not error.is_missing:
            raise


@dataclass
class BatchEngine(Engine):
    """One pool."""

    @cached_property
    def account(self) -> Account:
        """The Batch account, connected on first use."""
        return Account(self.target, self.deadline)

    @cached_property
    def storage(self) -> Storage:
        """The storage account."""
        return Storage(self.target, self.deadline)

    @cached_property
    def _poller(self) -> Poller:
        return Poller(self.account, self.storage)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        services = self.account.calls, self.storage.calls
        with super().within(seconds), services[0].within(seconds), services[1].within(seconds):
            yield

    def require(self, job: Job, needs: Sequence[str]) -> None:
        """Raises UserError if the pool can never run the job. The launcher's programs are left to
        the node, as this machine is not one."""
        pools.require_pool(self.account, job)

    def input_from(self, run_id: str, name: str, kept: KeptOutput) -> Staged:
        """Stages the input from the storage account, to which `start` uploads it if it is
        missing."""
        return outputs.staged_input(run_id, name, kept, self.target)

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Sends the run, or the rest of an interrupted submission."""
        try:
            state = State.read(run)
            if state is None:
                self.account.pool_facts()  # if the service does not answer, the run stays unsent
            if retry:
                if state is not None:
                    adoption.require_latest(run, state, self.account, self.storage)
                # The next submission overwrites some of the logs.
                self._poller.refresh([run], logs=True)
                reopen_logs(run)
            elif state is not None and state.complete:
                return
            with run.mirroring():
                if retry:
                    state = _again(run, state)
                state = state or State(client.job_id(run.id), 0)
                # Written first: an ended run would not be continued.
                state_files.write(run.folder, RunState())
                (run.folder / "setup" / "state.json").unlink(missing_ok=True)
                state.write(run)
            submission = Submission(run, self.account, self.storage, state)
            submission.send(submission.pack(snapshot), snapshot)
        finally:
            os.close(lock)

    def refresh(
        self, runs: Sequence[RunFolder], *, logs: bool = False, samples: bool = False
    ) -> None:
        """Asks Batch, and gives up soon if it does not answer."""
        self._poller.refresh(runs, logs=logs, patient=False)
        for run in runs if samples else ():
            state = State.read(run)
            if state is not None and state.complete:
                bring_figures(TaskFiles(run, self.account, self.storage, state.job))

    def collect(
        self, run: RunFolder, tasks: Sequence[int], arrived: Progress = no_progress
    ) -> None:
        self._poller.refresh([run], logs=True)
        outputs.collect(run, self.storage, tasks, arrived)

    def cancel(self, run: RunFolder) -> None:
        self.refresh([run])
        if run.state in FINAL_STATES:
            return
        state = State.read(run)
        if not states.end_early(self.account, job_id_of(run), read_plan(run.folder).grace):
            counts = {"cancelled": run.record.tasks}
            state_files.write(run.folder, RunState("cancelled", ended=time.time(), tasks=counts))
            return
        if state is not None and not state.complete:
            state.complete = True
            state.write(run)
        self.wait(run)

    def cancel_task(self, run: RunFolder, task: int) -> None:
        state = State.read(run)
        if state is None or not state.complete:
            message = f"{run.id} is not fully submitted yet, and can only be ended as a whole"
            raise UserError.of("cut-off-submission", message, f"fairway submit --resume {run.id}")
        name = run.task_name(task)
        states.note_cancelled(run.id, state.submission, name, self.storage)
        states.end_task(self.account, state.job, name, read_plan(run.folder).grace)
        self.refresh([run])

    def remove(self, run: RunFolder) -> None:
        state = State.read(run) or State(client.job_id(run.id), 0)
        jobs = {client.job_id(run.id, i) for i in range(state.submission + 1)}
        for job in sorted(jobs | {state.job}):
            try:
                self.account.order("the removal of a job", "DELETE", f"/jobs/{job}")
            except ServiceError as error:
                if not error.is_missing and error.code != "JobBeingDeleted":
                    raise
        outputs.delete_stored(run.id, self.storage)

    def adopt(self, store: RunFolders) -> Sequence[Finding]:
        with self.account.calls.soon(), self.storage.calls.soon():
            return adoption.adopt(store, self.account, self.storage)

    def no_capacity(self, job: Job) -> str:
        """Returns why the pool could not grow at the last attempt; "" if it could."""
        errors = pools.resize_errors(self.account.pool_facts())
        return f"the pool cannot grow: {errors[0]}" if errors else ""

    def nodes(self) -> list[Node]:
        with self.account.calls.soon():
            return pools.nodes(self.account)

    def order(self, action: str, node: str) -> None:
        """Carries out one of Batch's own four actions."""
        with self.account.calls.soon():
            pools.act(self.account, action, node)

    def resize(self, nodes: int) -> None:
        """Changes the number of nodes of a pool without autoscaling."""
        with self.account.calls.soon():
            pools.resize(self.account, nodes)

    def schedules(self) -> BatchSchedules:
        from fairway_runner.engines.batch.schedules import BatchSchedules

        return BatchSchedules(self.account, self.storage, self.target)

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        return shell(self.account, node, command, forward=forward)

    def main_host(self, run: RunFolder) -> str:
        self.refresh([run])
        return super().main_host(run)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        """Enters as `Engine.enter` describes; the nodes after the main one are in the order of the
        subtasks."""
        hosts = [run.task_status(task).node or ""]
        if node:
            found = self.account.subtasks(job_id_of(run), run.task_name(task))
            infos = [each.get("nodeInfo") or {} for each in found]
            hosts += [str(each.get("nodeId") or "") for each in infos]
        if node >= len(hosts) or not hosts[node]:
            raise self.no_node_yet(run, task)
        return self.shell(hosts[node], inside_words(run.id, run.task_name(task), command))

    def doctor(self) -> list[Finding]:
        with self.account.calls.soon(), self.storage.calls.soon():
            return pools.examine(self.account, self.storage)


ENGINE = BatchEngine


def _again(run: RunFolder, before: State | None) -> State:
    """Queues the tasks of a retry, and returns the state of the next submission: a job that has
    ended takes no tasks, so a retry gets another."""
    wanted = read_retry(run.folder)
    first = queue_tasks_again(run)
    submission = (before.submission if before else 0) + 1
    job = client.job_id(run.id, submission)
    only = tuple(sorted(wanted.only))
    return State(job, submission, first=first, only=only, done=dict(wanted.done))

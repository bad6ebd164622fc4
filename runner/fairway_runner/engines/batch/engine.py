"""Runs on an Azure Batch pool; `engines.engine.Engine` documents the methods."""

from __future__ import annotations

import os
import re
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
from fairway_runner.engines.azure_calls import ServiceError, ignore_missing
from fairway_runner.engines.azure_storage import Storage
from fairway_runner.engines.batch import adoption, client, outputs, pools, states
from fairway_runner.engines.batch.client import Account, state_of
from fairway_runner.engines.batch.poller import Poller
from fairway_runner.engines.batch.submission import (
    BatchSubmission,
    State,
    find_own_job,
    is_job_of,
    job_id_of,
    metadata_of,
)
from fairway_runner.engines.batch.task_files import TaskFiles, copy_figures, reopen_logs
from fairway_runner.engines.engine import (
    Engine,
    Node,
    Progress,
    Secrets,
    inside_command,
    new_key,
    no_progress,
)
from fairway_runner.engines.outage import no_refusal
from fairway_runner.engines.remote import bastion
from fairway_runner.engines.remote.connection import interrupt_on_signals, run_on_terminal
from fairway_runner.engines.remote.submission_state import queue_tasks_again
from fairway_runner.runs.records import FINAL_STATES, known_grace, read_retry

if TYPE_CHECKING:
    from fairway_agent.spec import Staged
    from fairway_runner.engines.batch.schedules import BatchSchedules
    from fairway_runner.engines.engine import Runs
    from fairway_runner.jobs.job import Job
    from fairway_runner.runs.folder import RunFolder, RunFolders
    from fairway_runner.runs.output_files import RunOutput

# A killed program cannot remove its user from a node, so the user expires.
_LIFE = timedelta(hours=1)
_RENEWAL = 20 * 60.0  # seconds


@contextmanager
def _user(account: Account, node: str, name: str, public: str) -> Iterator[None]:
    """Has a user on a node, whose expiry is extended for as long as the connection lasts."""
    client, pool, done = account.client, account.pool, threading.Event()
    call, what = account.calls.call, f"a user on {node}"

    def access(**more: object) -> Any:
        expiry = (datetime.now(UTC) + _LIFE).isoformat().replace("+00:00", "Z")
        return {**more, "sshPublicKey": public, "expiryTime": expiry}

    def renew() -> None:
        while not done.wait(_RENEWAL):
            # The next renewal makes up for a failed one: there are three within a lifetime.
            with suppress(UserError):
                call(what, lambda: client.replace_node_user(pool, node, name, access()))

    def delete() -> None:
        with ignore_missing():
            call(f"the end of {what}", lambda: client.delete_node_user(pool, node, name))

    with ExitStack() as ends:
        ends.callback(delete)
        try:
            new = {"name": name, "isAdmin": True}
            call(what, lambda: client.create_node_user(pool, node, access(**new)))
        except ServiceError as error:
            # Its name is random: a user that exists is of an earlier try, whose answer was lost.
            if error.code != "NodeUserExists":
                ends.pop_all()  # unknown or expired: report the original refusal
                raise
        threading.Thread(target=renew, daemon=True).start()
        ends.callback(done.set)
        yield


# Batch's verb and body for each action. Running tasks start again elsewhere (requeue).
_ACTIONS: dict[str, tuple[str, dict[str, str]]] = {
    "reboot": ("reboot", {"nodeRebootOption": "requeue"}),
    "reimage": ("reimage", {"nodeReimageOption": "requeue"}),
    "drain": ("disablescheduling", {"nodeDisableSchedulingOption": "taskcompletion"}),
    "resume": ("enablescheduling", {}),
}


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
        """Raises UserError if the pool can never run the job. Programs are left to its nodes."""
        pools.require_pool(self.account, job)

    def input_from(self, run_id: str, name: str, kept: RunOutput) -> Staged:
        """Stages it from the storage account, to which `start` uploads it if missing."""
        return outputs.staged_input(run_id, name, kept, self.target)

    def start(
        self, run: RunFolder, lock: int, snapshot: Path, secrets: Secrets, *, retry: bool = False
    ) -> None:
        """Sends the run, or the rest of an interrupted submission."""
        try:
            state = before = State.read(run)
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
                    # A job that has ended takes no tasks, so a retry gets another.
                    wanted, number = read_retry(run.folder), (state.submission if state else 0) + 1
                    state = State(
                        number,
                        jobs=(client.job_id(run.id, number),),
                        first=queue_tasks_again(run),
                        only=tuple(sorted(wanted.only)),
                        done=dict(wanted.done),
                    )
                state = state or State(0, jobs=(client.job_id(run.id),))
                # Written first: an ended run would not be continued.
                state_files.write(run.folder, RunState())
                (run.folder / "setup" / "state.json").unlink(missing_ok=True)
                state.write(run)
            with no_refusal(before):
                BatchSubmission(run, self.account, self.storage, state, snapshot).send()
        finally:
            os.close(lock)

    def refresh(self, runs: Runs, *, logs: bool = False, samples: bool = False) -> None:
        """Asks Batch, and gives up soon if it does not answer."""
        with self.account.calls.soon():
            self._poller.refresh(runs, logs=logs)
        for run in runs if samples else ():
            state = State.read(run)
            if state is not None and state.complete:
                copy_figures(TaskFiles(run, self.account, self.storage, state.job))

    def collect(
        self, run: RunFolder, tasks: Sequence[int], arrived: Progress = no_progress
    ) -> None:
        self._poller.refresh([run], logs=True)
        outputs.collect(run, self.storage, tasks, arrived)

    def cancel(self, run: RunFolder) -> None:
        self.refresh([run])
        if run.state in FINAL_STATES:
            return
        state, job = State.read(run), job_id_of(run)
        is_there = find_own_job(self.account, run, job) is not None
        if not (is_there and states.end_early(self.account, job, known_grace(run.folder))):
            counts = {"cancelled": run.record.tasks}
            state_files.write(run.folder, RunState("cancelled", ended=time.time(), tasks=counts))
            return
        if state is not None and not state.complete:
            state.complete = True
            state.write(run)
        self.await_end(run, 0.0)  # its grace is over

    def cancel_task(self, run: RunFolder, task: int) -> None:
        state = State.read(run)
        if state is None or not state.complete:
            message = f"{run.id} is not fully submitted yet, and can only be ended as a whole"
            raise UserError.of("cut-off-submission", message, f"fairway submit --resume {run.id}")
        name = run.task_name(task)
        states.note_cancelled(run.id, state.submission, name, self.storage)
        states.end_task(self.account, state.job, name, known_grace(run.folder))
        self.refresh([run])

    def remove(self, run: RunFolder) -> None:
        """Removes the run's own jobs, and its files unless another run has its id, and theirs."""
        state, is_taken = State.read(run) or State(0, jobs=(client.job_id(run.id),)), False
        jobs = {client.job_id(run.id, i) for i in range(state.submission + 1)}
        for name in sorted(jobs | {state.job}):
            job = self.account.find_job(name)
            if job is not None and is_job_of(job, run):
                with ignore_missing("JobBeingDeleted"):
                    self.account.order("the removal of a job", "DELETE", f"/jobs/{name}")
            elif job is not None:
                is_taken = is_taken or metadata_of(job).get(client.RUN) == run.id
        if not is_taken:
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
            found = [pools.node_of(self.account, node) for node in self.account.nodes()]
        return sorted(found, key=lambda node: node.name)

    def order(self, action: str, node: str) -> None:
        """Carries out one of Batch's own four actions; the node's tasks move elsewhere. Raises
        UserError for an unknown node."""
        self._require_name(node)
        verb, body = _ACTIONS[action]
        path = f"/pools/{self.account.pool}/nodes/{node}/{verb}"
        try:
            with self.account.calls.soon():
                self.account.order(f"to {action} {node}", "POST", path, **body)
        except ServiceError as error:
            if error.code == "NodeAlreadyInTargetSchedulingState":
                return  # already done by someone
            if not error.is_missing:
                raise
            raise self._unknown(node) from None

    def resize(self, nodes: int) -> None:
        """Requests that many nodes, Spot ones if the target's are. Raises UserError for too many,
        or a pool that scales by a formula."""
        target, pool = self.target, self.account.pool
        if nodes > target.nodes.max:
            message = f"`{target.name}` has at most {target.nodes.max} nodes"
            hint = "raise `nodes:` of the cluster in the environment file, and deploy it"
            raise UserError.of("too-many-nodes", message, hint)
        with self.account.calls.soon():
            if self.account.pool_facts().get("enableAutoScale"):
                message = f"the pool `{pool}` scales by its formula"
                hint = "change the limits in the environment file, and deploy it"
                raise UserError.of("autoscaled-pool", message, hint)
            kind = "targetLowPriorityNodes" if target.spot else "targetDedicatedNodes"
            options = {kind: nodes, "nodeDeallocationOption": "taskcompletion"}
            self.account.order(f"{nodes} nodes", "POST", f"/pools/{pool}/resize", **options)

    def schedules(self) -> BatchSchedules:
        from fairway_runner.engines.batch.schedules import BatchSchedules

        return BatchSchedules(self.account, self.storage, self.target)

    def shell(self, node: str | None, command: Sequence[str] = (), *, forward: str = "") -> int:
        """Opens a shell on a node of the pool, or runs the command there, as a user created for
        this connection. Raises UserError for an unknown node, or a pool without access."""
        name = node or self._any_node()
        host, way = self._way_to(name)
        user = f"fairway-{os.urandom(4).hex()}"
        private, public = new_key(user)
        with interrupt_on_signals(), tempfile.TemporaryDirectory(prefix="fairway-login-") as folder:
            key = Path(folder, "key")
            key.touch(mode=0o600)
            key.write_bytes(private)
            options = {
                "Port": 22,
                "IdentityFile": key,
                "IdentitiesOnly": "yes",
                # Nodes come and go with their host keys; the account supplies their addresses.
                "StrictHostKeyChecking": "accept-new",
                "UserKnownHostsFile": key.with_name("known_hosts"),
                "LogLevel": "ERROR",
                "ConnectTimeout": 20,
                "ServerAliveInterval": 30,
                **way,
            }
            words = ["ssh", *bastion.options(options), "-l", user]
            if forward:
                words += ["-N", "-o", "ExitOnForwardFailure=yes", "-L", forward]
            elif not command:
                words.append("-t")
            words += ["--", host, *([shlex.join(command)] if command else [])]
            with _user(self.account, name, user, public):
                return run_on_terminal(words)

    def _any_node(self) -> str:
        states = {str(node["id"]): state_of(node) for node in self.account.nodes()}
        for wanted in (("idle", "running"), pools.USABLE):
            if found := [node for node, state in states.items() if state in wanted]:
                return found[0]
        message = f"the pool `{self.account.pool}` has no nodes now"
        hint = f"start one: fairway pool resize {self.target.name} 1"
        raise UserError.of("no-node", message, hint)

    def _way_to(self, node: str) -> tuple[str, dict[str, str]]:
        """Returns the host of the node's ssh server, and ssh's settings for the way there."""
        self._require_name(node)
        client, pool, call = self.account.client, self.account.pool, self.account.calls.call
        try:
            facts = call(f"the node {node}", lambda: client.get_node(pool, node))
        except ServiceError as error:
            if error.is_missing:
                raise self._unknown(node) from None
            raise
        settings: Any = {}
        try:
            settings = call(
                f"the way to {node}", lambda: client.get_node_remote_login_settings(pool, node)
            )
        except ServiceError as error:
            if error.status not in (400, 404, 409):
                raise
        mapped, port = settings.get("remoteLoginIPAddress"), settings.get("remoteLoginPort")
        if mapped and port:
            return str(mapped), {"Port": str(port)}
        host = str(facts.get("ipAddress") or "")
        if not host:
            message = f"the node `{node}` has no address now; it is {state_of(facts)}"
            raise UserError.of("no-node", message, f"see: fairway nodes list {self.target.name}")
        bastion.require_tools(self.target.ssh_route)
        return host, bastion.settings(self.target.ssh_route, host)

    def _require_name(self, node: str) -> None:
        """Raises UserError for what is no node's name, and would lead to another address."""
        if not re.fullmatch(r"[\w-]+", node, re.ASCII):
            raise self._unknown(node)

    def _unknown(self, node: str) -> UserError:
        hint = f"its nodes: fairway nodes list {self.target.name}"
        return UserError.of("unknown-node", f"the pool has no node `{node}`", hint)

    def main_host(self, run: RunFolder) -> str:
        self.refresh([run])
        return super().main_host(run)

    def enter(self, run: RunFolder, task: int, node: int, command: Sequence[str]) -> int:
        """Enters as `Engine.enter` describes; nodes after the main one are those of subtasks."""
        hosts = [run.task_status(task).node or ""]
        if node:
            found = self.account.subtasks(job_id_of(run), run.task_name(task))
            infos = [each.get("nodeInfo") or {} for each in found]
            hosts += [str(each.get("nodeId") or "") for each in infos]
        if node >= len(hosts) or not hosts[node]:
            raise self.no_node_yet(run, task)
        return self.shell(hosts[node], inside_command(run.id, run.task_name(task), command))

    def doctor(self) -> list[Finding]:
        with self.account.calls.soon(), self.storage.calls.soon():
            return pools.examine(self.account, self.storage)


ENGINE = BatchEngine

"""Folders of runs at a cluster, mirrored on this machine."""

from __future__ import annotations

import base64
import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent import state_files
from fairway_agent.quick import dataclass
from fairway_agent.records import OTHER_RELEASE, Fields, InvalidRecord, OtherVersion, excerpt
from fairway_agent.shared.reports import (
    MOST,
    InputsReport,
    InputsRequest,
    ReceiveReport,
    ReceiveRequest,
    RunReport,
    RunRequest,
    RunsReport,
    RunsRequest,
    StatesReport,
    StatesRequest,
)
from fairway_agent.spec import FIGURES, RECORD, RunPlan, TaskSpec
from fairway_core import archives
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.engines.outage import RunRefused, gone_input
from fairway_runner.engines.remote.connection import UNEXPECTED_ANSWER
from fairway_runner.engines.remote.submission_state import (
    SubmissionRecord,
    end_cancelled,
    note_incomplete_submission,
)
from fairway_runner.runs.figures import is_node_name
from fairway_runner.runs.folder import MIRROR_LOCK, RunFolder, RunFolders, TakenId
from fairway_runner.runs.output_files import files_of
from fairway_runner.runs.records import (
    GONE,
    RunRecord,
    is_run_id,
    known_state,
    known_task,
    read_plan,
)

if TYPE_CHECKING:
    from fairway_core.target import Target
    from fairway_runner.engines.remote.remote_host import RemoteHost

_DIGEST = re.compile(r"[0-9a-f]{64}")


def adopted_record(run_id: str, files: Any, target: Target) -> tuple[RunRecord, dict[str, str]]:
    """Returns the record of a run on a target, and its other files by name, with the target as this
    machine has it: the one that submitted the run may reach it another way. Raises InvalidRecord
    for anything that no submission writes."""
    if not is_run_id(run_id):
        raise InvalidRecord("its name is not one that runs have")
    for name, text in Fields(files, "what it has").facts.items():
        if name not in RECORD or not isinstance(text, str):
            raise InvalidRecord(f"runs have no file `{excerpt(name)}`")
    record = RunRecord.from_json(_json(files, "run.json"))
    if record.id != run_id:
        raise InvalidRecord(f"it is a copy of {excerpt(record.id)}")
    _json(files, "job.json")
    RunPlan.from_json(_json(files, "plan.json"))
    if not _DIGEST.fullmatch(str(_json(files, "provenance.json").get("code"))):
        raise InvalidRecord("`provenance.json` does not name its code")
    tasks, last = _lines(files, "tasks.jsonl"), _lines(files, "finally.jsonl")
    numbers = [task.index for task in tasks]
    is_known = len(last) <= 1 and all(task.is_last for task in last)
    if not is_known or numbers != list(range(record.tasks - len(last))):
        raise InvalidRecord("its tasks are not those of its record")
    if record.engine != target.engine:
        raise InvalidRecord(f"its engine is {record.engine}")
    kept = {name: text for name, text in files.items() if name != "run.json"}
    return record, {**kept, "target.json": json.dumps(target.record(), indent=1)}


def unreadable(run_id: str, target: Target, error: InvalidRecord, hint: str) -> Finding:
    """Returns the warning of a run on a target that cannot be adopted."""
    message = f"`{run_id[:70]}` on `{target.name}` is a run that cannot be read: {error}"
    id_ = OTHER_RELEASE if isinstance(error, OtherVersion) else "damaged-run"
    return Finding(id_, message, hint, severity=Severity.WARNING)


def _json(files: Mapping[str, str], name: str) -> dict[str, Any]:
    if name not in files:
        raise InvalidRecord(f"`{name}` is missing")
    return _parsed(files[name], name)


def _lines(files: Mapping[str, str], name: str) -> list[TaskSpec]:
    lines = files.get(name, "").split("\n")
    return [TaskSpec.from_json(_parsed(line, name)) for line in lines if line]


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        return dict(Fields(json.loads(text), f"`{name}`").facts)
    except (ValueError, RecursionError):
        raise InvalidRecord(f"`{name}` is not JSON") from None


def known_logs(run: RunFolder, *, final: bool) -> dict[str, int]:
    """Returns how many bytes are here of each log that may still grow."""
    known = {}
    for name, folder in _folders(run):
        log = folder / "log.txt"
        size = log.stat().st_size if log.exists() else 0
        state = known_task(folder)
        full = None if state is None else state.log_size
        if (full is None and not final) or (full is not None and size < full):
            known[name] = size
    return known


def add_pieces(run: RunFolder, report: RunReport) -> None:
    """Appends pieces to logs and samples, each without bytes that another command has written
    meanwhile. The caller holds the lock."""
    folders = dict(_folders(run))
    files = [(folders[name] / "log.txt", piece) for name, piece in report.logs.items()]
    samples = run.folder / FIGURES
    files += [(samples / f"{node}.jsonl", piece) for node, piece in report.samples.items()]
    for file, piece in files:
        data = unpack_piece(piece.data, run)
        with run.own_file(file).open("ab") as opened:
            known = opened.tell() - piece.offset
            if known >= 0:
                opened.write(data[known:])


def unpack_piece(data: str, run: RunFolder) -> bytes:
    """Returns the bytes of a run's piece, without those beyond what a host may send at once."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(data), MOST)
    except (ValueError, zlib.error):
        message = f"the host of `{run.record.target}` sent a piece of a file that cannot be read"
        raise UserError.of("host-failed", message, UNEXPECTED_ANSWER, exit_code=5) from None


def _folders(run: RunFolder) -> Iterator[tuple[str, Path]]:
    if (run.folder / "setup.jsonl").exists():
        yield "setup", run.folder / "setup"
    for index in range(run.record.tasks):
        yield run.task_name(index), run.task_folder(index)


SHARED = "fairway_agent.shared.runs"

# Files of this machine alone: its knowledge of the run, and files that nobody reads there.
_OWN = ("state.json", "engine.json", "lock", MIRROR_LOCK, "labels.json", "labels.lock")


@dataclass
class Mirror:
    """Runs on a host; `states` is the function there that reports their states."""

    remote: RemoteHost
    states: str = f"{SHARED}.states"

    def publish(self, run: RunFolder, snapshot: Path) -> None:
        """Uploads the run's files, its code and its inputs of other runs, unless they are there.
        Raises RunRefused if such an input is gone, or another run there has the run's id.

        The code is left at the snapshot's name under `code/`; see `shared.runs.copy_code`.
        """
        inputs = self._inputs(run)
        files = archives.pack(
            (path.name, path, False)
            for path in run.folder.iterdir()
            if path.is_file() and path.name not in _OWN and not path.name.startswith(".")
        )
        request = ReceiveRequest(run.id, snapshot.name)
        try:
            found = self.remote.call(f"{SHARED}.receive", request, ReceiveReport, files)
        except UserError as error:
            if error.findings[0].id != "taken-run-id":
                raise
            raise RunRefused(error.findings, exit_code=2) from None
        for folder, to in inputs.values():
            if to is not None:
                self.remote.connection.upload(folder, to, deadline=self.remote.deadline)
        if inputs:
            self._ask_inputs(run, inputs, adopt=True)
        if not found.has_code:
            if not snapshot.is_dir():
                message = f"the code of {run.id} is neither here nor at {self.remote.shared}"
                raise UserError.of("no-code", message, "submit the job again from its file")
            self.remote.connection.upload(snapshot, found.draft, deadline=self.remote.deadline)

    def _inputs(self, run: RunFolder) -> dict[str, tuple[Path, str | None]]:
        """Returns the run's inputs that are copied from here, by their path there: the folder here,
        and the missing folder there to copy it into. Outputs of runs that it waits for are not
        among them. Asks the host only if there are any. Raises RunRefused if one is gone."""
        plan = read_plan(run.folder)
        entries = [each for each in plan.run_inputs if not plan.awaits(each)]
        if not entries:
            return {}
        missing = self._ask_inputs(run, [each.path for each in entries])
        found = {}
        for each in entries:
            here = None if each.source is None else run.folder.parents[1] / each.source
            if each.path in missing and (here is None or next(files_of(here), None) is None):
                raise gone_input(each.name, each.source or each.path)
            if here is not None:
                found[each.path] = here, missing.get(each.path)
        return found

    def _ask_inputs(
        self, run: RunFolder, paths: Iterable[str], *, adopt: bool = False
    ) -> Mapping[str, str]:
        """Returns missing paths, and where to copy each; with `adopt` the run uses them now."""
        request = InputsRequest(run.id, tuple(paths), adopt=adopt)
        return self.remote.call(f"{SHARED}.inputs", request, InputsReport).missing

    def refresh(
        self, runs: Sequence[RunFolder], *, logs: bool = False, samples: bool = False
    ) -> str:
        """Refreshes as `Engine.refresh` documents; with one command on the host, or more if logs
        are very long. Returns who did not answer it, or "". Raises UserError for damaged runs,
        after updating the others."""
        wanted, silent = {run.id: run for run in runs}, ""
        damaged: list[Finding] = []
        before: dict[str, RunRequest] = {}
        while wanted:
            asked, unread = _requests(wanted.values(), logs=logs, samples=samples)
            damaged += unread
            # A request that was already sent gets no better answer, whatever the host reports.
            asked = {run: each for run, each in asked.items() if each != before.get(run)}
            before = asked
            if not asked:
                break
            wanted = {run_id: wanted[run_id] for run_id in asked}
            last = {run_id: SubmissionRecord.read(run) for run_id, run in wanted.items()}
            answer = self._states(asked, wanted)
            silent, more = answer.silent, {}
            damaged += _damaged(answer.runs.values())
            for run_id, run in wanted.items():
                report = answer.runs.get(run_id)
                if report is not None and report.damaged:
                    continue
                _apply(run, report, last[run_id], samples=samples)
                if not silent:
                    run.note_answer()
                if report is not None and report.more:
                    more[run_id] = run
            wanted = more
        if damaged:
            raise UserError(damaged, exit_code=5)
        return silent

    def cancel_unknown(self, run: RunFolder) -> None:
        """Writes the end of a run that the cluster has not begun and must not begin."""
        found = self._state(run)
        is_incomplete = (
            found is not None
            and found.state is None
            and not found.damaged
            and run.incomplete_submission_reason
        )
        if found is None or is_incomplete:
            end_cancelled(run)

    def require_latest(self, run: RunFolder) -> bool:
        """Raises UserError if the run was retried on another machine, and records that retry here.
        Returns False if its folder there is gone."""
        last = SubmissionRecord.read(run)
        if last is None:
            return True
        found = self._state(run)
        if damaged := _damaged([found]):
            raise UserError(damaged, exit_code=5)
        if found is None or found.state is None or found.state.submission <= last.submission:
            return found is not None
        with run.mirroring():
            SubmissionRecord(found.state.submission, complete=True).write(run)
            _write(run, found)
        hint = f"see its state: fairway show {run.id}"
        raise UserError.of("retried-run", f"{run.id} was retried from elsewhere", hint)

    def adopt(self, store: RunFolders, target: Target) -> list[Finding]:
        """Adopts runs as `Engine.adopt` documents."""
        request = RunsRequest(target.name, tuple(run.id for run in store.unsorted()))
        answer = self.remote.call(f"{SHARED}.runs", request, RunsReport)
        findings = []
        for run_id, files in answer.runs.items():
            try:
                record, kept = adopted_record(run_id, files, target)
            except InvalidRecord as error:
                hint = f"it is in {self.remote.shared}/runs there"
                findings.append(unreadable(run_id, target, error, hint))
                continue
            last = SubmissionRecord(answer.submissions.get(run_id, 0), complete=True)
            kept["engine.json"] = json.dumps(last.to_json())
            with suppress(TakenId):
                _, lock = store.create(record, kept)
                os.close(lock)
        return findings

    def _states(
        self, asked: Mapping[str, RunRequest], runs: Mapping[str, RunFolder]
    ) -> StatesReport:
        """Asks for the states of these runs. Raises UserError for an implausible answer."""
        answer = self.remote.call(self.states, StatesRequest(asked), StatesReport)
        try:
            for run_id, run in runs.items():
                if (report := answer.runs.get(run_id)) is not None:
                    for name in (*report.tasks, *report.logs):
                        if name != "setup" and run.index_of(name) is None:
                            raise InvalidRecord(f"{run.id} has no task `{excerpt(name)}`")
                    if not all(map(is_node_name, report.samples)):
                        raise InvalidRecord("a node has an invalid name")
        except InvalidRecord as error:
            raise self.remote.unexpected_answer(error) from None
        return answer

    def _state(self, run: RunFolder) -> RunReport | None:
        """Asks the host for the state of one run; returns None if the host has never seen it."""
        request = RunRequest(created=run.record.created)
        return self._states({run.id: request}, {run.id: run}).runs.get(run.id)


def _requests(
    runs: Iterable[RunFolder], *, logs: bool, samples: bool
) -> tuple[dict[str, RunRequest], list[Finding]]:
    """Returns the requests for incompletely known runs, by id, and faults of damaged ones."""
    asked: dict[str, RunRequest] = {}
    damaged: list[Finding] = []
    for run in runs:
        try:
            last = SubmissionRecord.read(run)
            if last is None:
                note_incomplete_submission(run)
                continue
            final = known_state(run.folder).is_final
            sampled = samples and not last.sampled
            numbers = range(run.record.tasks)
            done = [run.task_name(index) for index in numbers if run.task_status(index).is_final]
            known = known_logs(run, final=final) if logs else {}
            if known or sampled or not final:
                files = (run.folder / FIGURES).glob("*.jsonl") if sampled else ()
                sizes = {file.stem: file.stat().st_size for file in files}
                samples_of = sizes if sampled else None
                asked[run.id] = RunRequest(tuple(done), known, samples_of, run.record.created)
        except UserError as error:
            damaged += error.findings
    return asked, damaged


def _damaged(reports: Iterable[RunReport | None]) -> list[Finding]:
    return [Finding(*each.damaged) for each in reports if each and each.damaged]


def _apply(
    run: RunFolder, found: RunReport | None, last: SubmissionRecord | None, *, samples: bool
) -> None:
    """Writes a report into the run's folder, its own state last; nothing if `last`, its submission
    when the host was asked, is no longer the last."""
    with run.mirroring():
        now = SubmissionRecord.read(run)
        if last is None or now is None or now != replace(last, sampled=now.sampled):
            return
        if found is None and last.complete:
            lost = replace(known_state(run.folder), state="lost", reason=GONE, ended=time.time())
            state_files.write(run.folder, lost)
        elif found is None or found.state is None or found.state.submission < last.submission:
            note_incomplete_submission(
                run
            )  # the cluster has its files, or knows only an earlier submission
        elif known_state(run.folder).is_final:
            add_pieces(run, found)
        else:
            _write(run, found)
        # An incomplete submission is written by the command that submits it, at any time.
        is_new = samples and now.complete and not now.sampled
        if not is_new or found is None or found.state is None or found.more:
            return
        # Nodes of a lost run may still be sampled.
        is_over = found.state.is_final and found.state.state != "lost"
        if is_over and found.state.submission == now.submission:
            replace(now, sampled=True).write(run)


def _write(run: RunFolder, found: RunReport) -> None:
    """Updates the run's folder; the caller holds the lock."""
    for name, status in found.tasks.items():
        folder = run.folder / ("setup" if name == "setup" else f"tasks/{name}")
        folder.mkdir(parents=True, exist_ok=True)
        if known_task(folder) != status:
            state_files.write(folder, status)
    add_pieces(run, found)
    if found.state is not None and known_state(run.folder) != found.state:
        state_files.write(run.folder, found.state)

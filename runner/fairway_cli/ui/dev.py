"""Output and work of a session's client while it stays connected."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_cli.ending import warn
from fairway_cli.ui.follow import Remarks, Shape, copy_logs
from fairway_cli.ui.progress import print_ended
from fairway_core.findings import UserError
from fairway_runner.dev_sessions import INCLUDE, has_jupyter, look, remove_host, write_host
from fairway_runner.dev_sync import Known, SessionExec, SessionFailed, Sync, take_turn
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.engines.outage import OutageTolerance
from fairway_runner.engines.remote.connection import die_with_parent
from fairway_runner.runs.log_lines import Selection, logs_of
from fairway_runner.runs.store import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_runner.dev_sessions import SessionAccess
    from fairway_runner.runs.store import Run

_PAUSE = 1.0  # seconds between two scans of the code
_LONG_PAUSE = 10.0  # seconds before all changes that could not be copied are sent again
_SHORT_PAUSE = 0.2  # seconds between two polls of a session that is starting


def follow_session(run: Run, program: Sequence[str], *, sync: bool) -> int:
    """Prints how to reach a session, and with `sync` copies changes of its code, until it has
    ended; returns its exit code, or 130 if the user disconnected."""
    session = SessionExec(run, program)
    try:
        print(f"{run.id} is a session on {run.record.target}", flush=True)
        tolerance = OutageTolerance(run, run.engine.deadline)
        if (access := _await_start(session, tolerance)) is not None:
            with _tunnel(session, access):
                _print_ways(run, access, program)
                _keep_in_step(run, tolerance, _sync_of(session, access.folder) if sync else None)
    except KeyboardInterrupt:
        target = run.record.target
        print(f"\n{run.id} keeps running; attach again: fairway dev {target}", file=sys.stderr)
        print(f"to end it: fairway dev stop {run.id}", file=sys.stderr)
        return 130
    remove_host(run)
    if run.exit_code and not run.task_status(0).timed_out:
        selection = Selection(logs_of(run), tail=5)
        copy_logs(run, selection, sys.stdout.buffer, Shape(terminated=True), follow=False)
    print_ended(run)
    return run.exit_code


def _await_start(session: SessionExec, tolerance: OutageTolerance) -> SessionAccess | None:
    """Waits until a session has started; returns None if it has ended. Raises UserError if it runs,
    and does not answer until the deadline."""
    run, remarks = session.run, Remarks(session.run)
    silent: float | None = None  # time of the first failure
    while True:
        tolerance.call(run.refresh)
        if run.state in FINAL_STATES:
            tolerance.call(lambda: run.refresh(logs=True))
            return None
        if run.task_status(0).state == "running":
            try:
                access = look(session)
                if access is not None and (access.port is not None or not has_jupyter(run)):
                    return access
                silent = None
            except SessionFailed:
                # It is about to start, or has just ended: the next poll shows which.
                silent = silent or time.monotonic()
                if time.monotonic() > silent + tolerance.deadline:
                    raise
        remarks.look()
        time.sleep(max(_SHORT_PAUSE, run.engine.pause))


def _print_ways(run: Run, access: SessionAccess, program: Sequence[str]) -> None:
    print(f"  a shell:   fairway exec {run.id} -- bash")
    print(f"  its code:  {access.folder}")
    if capabilities(run.record.engine).shell:
        try:
            host = write_host(run, access, program)
        except UserError as error:
            warn(*error.findings)
        else:
            print(f"  ssh:       ssh {host.name}")
            print(f"  VS Code:   {host.vscode}")
            print(f"             {host.code_command}")
            if not host.included:
                print(f"  once, as the first line of ~/.ssh/config: {INCLUDE}")
    print(f"  end it:    fairway dev stop {run.id}", flush=True)


def _sync_of(session: SessionExec, there: str) -> Sync | None:
    """Returns the sync of the session's code; None, after a message, if there is none here."""
    run = session.run
    known = Known.read(run)
    if known is None or not known.folder.is_dir():
        why = "it was started elsewhere" if known is None else f"{known.folder} is gone"
        print(f"its code is not kept in sync from here: {why}", file=sys.stderr)
        return None
    if take_turn(run) is None:
        print("its code is kept in sync by another `fairway dev`", file=sys.stderr)
        return None
    print(f"changes in {known.folder} are copied there, and none are copied back", flush=True)
    return Sync(session, known, there)


def _keep_in_step(run: Run, tolerance: OutageTolerance, sync: Sync | None) -> None:
    """Refreshes the run until it has ended, and with `sync` copies changes of its code."""
    warned = ""
    while True:
        tolerance.call(run.refresh)
        if run.state in FINAL_STATES:
            tolerance.call(lambda: run.refresh(logs=True))
            return
        if sync is not None:
            try:
                if changes := sync.send():
                    kinds = {"copied": changes.written, "removed": changes.removed}
                    parts = [f"{len(some)} {kind}" for kind, some in kinds.items() if some]
                    print(f"code: {', '.join(parts)}", flush=True)
                warned = ""
            except UserError as error:
                if str(error) != warned:
                    warn(*error.findings)
                warned = str(error)
        # Scanning many files takes at most a tenth of the time; copying them may take longer.
        looked = 0.0 if sync is None else sync.took
        time.sleep(max(_LONG_PAUSE if warned else _PAUSE, run.engine.pause, 9 * looked))


@contextmanager
def _tunnel(session: SessionExec, access: SessionAccess) -> Iterator[None]:
    """Forwards a port to Jupyter for as long as this program stays, and prints the address."""
    run, process = session.run, None
    if not has_jupyter(run) or access.port is None:
        yield
        return
    here = access.port
    if capabilities(run.record.engine).shell:
        here = _free_port(access.port)
        words = ["tunnel", run.id, str(access.port), "--local-port", str(here)]
        process = subprocess.Popen(
            die_with_parent([*session.program, *words]),
            env=session.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        print(f"  Jupyter:   http://localhost:{here}/lab")
        # Only on a terminal: saved output of this program must not contain the token.
        if os.isatty(1):
            print(f"  its token: {access.token}")
        else:
            shown = "sh -c 'cat \"$FAIRWAY_SCRATCH_DIR/jupyter-token\"'"
            print(f"  its token: fairway exec {run.id} -- {shown}")
        yield
    finally:
        if process is not None:
            process.terminate()
            process.wait()


def _free_port(wanted: int) -> int:
    """Returns that port, or another one if it is in use here. Raises UserError if all are."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise UserError.of("port-in-use", "this machine has no free port", "close what listens on some")

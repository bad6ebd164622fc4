"""Preparation and release of a node for a job: the programs of its preparation and release tasks.

The command line before this has unpacked its archives. It never fails, because a node whose
preparation fails gets no task and the job would wait for ever: the result of the setup is written
down, and each task looks there.
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import job_facts
from fairway_agent.batch.folders import Folders, fail, say
from fairway_agent.batch.nodes import batch_nodes, own_address
from fairway_agent.fanout import sshd_mesh
from fairway_agent.outputs import draft_of
from fairway_agent.state_files import NO_START
from fairway_agent.task_logs import LAST_OUTPUT, pump
from fairway_boot.files import AgentError, write_json

if TYPE_CHECKING:
    from fairway_agent.spec import TaskSpec


def prepare() -> int:
    """Prepares the node's inputs, and runs the job's setup if it has one; returns 0."""
    folders = Folders()
    if folders.job_facts.setup_is_admin:  # tasks run as another user, and need these files
        os.umask(0)
    job_facts.write_index(folders.record / "tasks.jsonl", folders.index)
    code, what = 0, "the inputs could not be shared"
    try:
        share_inputs(folders)
        what = "the setup could not be started"
        if (folders.record / "setup.jsonl").exists():
            code = _run(folders, folders.spec(), "setup")
    except (OSError, AgentError) as error:
        say(f"{what}: {error}")
        code = 126
    if folders.job_facts.setup_is_admin:
        # Every user of the node may read and change the files; links stay unchanged.
        for base, _, files in os.walk(folders.job):
            for path in (Path(base), *(Path(base, name) for name in files)):
                mode = path.lstat().st_mode
                if not stat.S_ISLNK(mode):
                    path.chmod(mode | (0o777 if mode & 0o111 else 0o666))
    write_json(folders.setup_file, {"exit_code": code})
    return 0


def release() -> int:
    """Runs the job's release command after the end of the run, and returns its exit code."""
    folders = Folders()
    try:
        return _run(folders, job_facts.read_spec(folders.record / "release.jsonl"), "release")
    except OSError as error:
        say(f"the release could not be started: {error}")
        return 126


def share_inputs(folders: Folders) -> None:
    """Moves the inputs for all nodes into the folder that they share, except those already there
    and unchanged. One node at a time does so."""
    root = folders.shared_root
    for each in folders.plan.staged:
        if each.stage != "shared" or root is None:
            continue
        source = folders.job / "inputs" / each.name
        target = Path(each.to) if each.to else root / "inputs" / each.container
        # If the input has its own folder, the path in the container is omitted.
        base = source / each.path if each.to else source
        target.mkdir(parents=True, exist_ok=True)
        with (target / ".fairway.lock").open("w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            for file in sorted(path for path in source.rglob("*") if path.is_file()):
                new = target / (file.relative_to(base) if file != base else file.name)
                if not new.is_file() or not filecmp.cmp(file, new, shallow=False):
                    new.parent.mkdir(parents=True, exist_ok=True)
                    draft = draft_of(new, f".{os.getpid()}")
                    shutil.copyfile(file, draft)
                    draft.replace(new)
        shutil.rmtree(source, ignore_errors=True)


def _run(folders: Folders, spec: TaskSpec, name: str) -> int:
    """Runs the job's `setup` or its `release` and returns the exit code."""
    secrets = folders.secret_values()
    folders.make_directories(spec)
    if folders.job_facts.setup_is_admin:  # root's installations are not writable for everybody
        os.umask(0o022)
    environment = {
        **os.environ,
        **folders.plan.environment,
        **folders.inputs(),
        "FAIRWAY_RUN": folders.run,
        "FAIRWAY_TASK": name,
        "FAIRWAY_NODES": "1",
        "FAIRWAY_SHARED_DIR": str(folders.shared),
        "FAIRWAY_SCRATCH_DIR": str(folders.scratch),
        **secrets,
    }
    script = folders.job / f"{name}.sh"
    script.write_text(spec.script, encoding="utf-8")
    sys.stdout.flush()
    process = subprocess.Popen(
        ["bash", str(script)],
        cwd=folders.code,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if secrets else None,
        stderr=subprocess.STDOUT,
    )
    if process.stdout is not None:
        copying = pump(process.stdout, os.fdopen(os.dup(1), "wb"), secrets.values())
        process.wait()
        copying.join(LAST_OUTPUT)
    code = process.wait()
    if code:
        say(f"the {name} failed with exit code {code}")
    return 128 - code if code < 0 else code


def coordinate() -> int:
    """Creates the directories, starts the server, and on all nodes but the main one the watch for
    events; returns the exit code at once."""
    os.dup2(1, 2)
    folders = Folders()
    if code := folders.setup_code():
        return fail(f"the setup failed here with exit code {code}", code)
    folders.make_directories(folders.spec())
    (folders.base / "event").unlink(missing_ok=True)
    try:
        address = own_address(batch_nodes())
        sshd_mesh.open_node(folders.mesh, address, folders.base, folders.code)
    except (OSError, subprocess.CalledProcessError) as error:
        return fail(f"this node cannot be reached by the others: {error}", NO_START)
    if os.environ.get("AZ_BATCH_IS_CURRENT_NODE_MASTER") != "true":
        with (folders.base / "events.log").open("ab") as log:
            subprocess.Popen(
                [str(folders.programs / "fairway-node"), "watch"],
                env={**os.environ, sshd_mesh.SERVICE: "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    return 0

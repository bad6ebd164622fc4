"""Runs a command next to a running task on this node: with its environment, directory, container
and user.

    python3 -c SOURCE RUN TASK RANK COMMAND…

SOURCE is the text of this file, which therefore imports nothing of Fairway: a node needs no more
than Python 3.10. RUN is the run's ID, or its folder where the runs of several shared folders may
have the same ID. RANK is a number, or `-` for the lowest on this node. The command finds the id of
the task's process in FAIRWAY_PID.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

_NOT_FOUND, _NO_PROGRAM, _NOT_HERE = 127, 4, 5
# Rank of a process: Open MPI, MVAPICH, MPICH and Intel MPI, torchrun and Horovod.
_RANKS = (*("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "RANK", "HOROVOD_RANK"),)
# These wait for a task's programs, but are not among them.
_WAITING = {"srun", "ssh", "prted", "orted", "hydra_pmi_proxy"}
_CLIENT = b"_FAIRWAY_CONTAINER"  # see fairway_agent.container
# Services of a task on its node, not its programs: see fairway_agent.batch.preparation.
_SERVICE = b"_FAIRWAY_SERVICE"
_NAMESPACES = {"mnt": "-m", "pid": "-p", "ipc": "-i", "net": "-n", "uts": "-u"}


@dataclass(frozen=True)
class Process:
    """A process of a task, with the environment that it was started with."""

    pid: int
    parent: int
    began: int
    name: str
    environment: dict[bytes, bytes]

    @property
    def rank(self) -> int | None:
        """Rank that the process is or belongs to; None if its environment does not say."""
        for name in _RANKS:
            value = self.environment.get(name.encode(), b"")
            if value.isdigit():
                return int(value)
        return None


def processes_of_task(run: str, task: str, proc: Path = Path("/proc")) -> list[Process]:
    """Returns the processes of a task on this node, the oldest first."""
    name = run.rpartition("/")[2]
    wanted = {b"FAIRWAY_RUN": name.encode(), b"FAIRWAY_TASK": task.encode()}
    found = []
    for entry in os.scandir(proc):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            text = Path(entry.path, "environ").read_bytes()
            variables = dict(each.split(b"=", 1) for each in text.split(b"\0") if b"=" in each)
            if not wanted.items() <= variables.items() or _SERVICE in variables:
                continue
            if "/" in run and not _is_in(run, variables):
                continue
            stat = Path(entry.path, "stat").read_text(errors="replace")
        except OSError:
            continue  # it has ended, or is another user's
        head, _, rest = stat.rpartition(")")
        fields = rest.split()
        name = head.partition("(")[2]
        found.append(Process(int(entry.name), int(fields[1]), int(fields[19]), name, variables))
    # Without those that wait outside for a container started by a daemon.
    clients = {each.pid for each in found if _CLIENT in each.environment}
    outside, parents = set(clients), {each.pid: each.parent for each in found}
    for pid in clients:
        while (pid := parents.get(pid, 0)) and pid not in outside:
            outside.add(pid)
    inside = [each for each in found if each.pid not in outside]
    return sorted(inside, key=lambda each: (each.began, each.pid))


def _is_in(run: str, variables: dict[bytes, bytes]) -> bool:
    """Returns False if the variables are those of a run in another folder."""
    there = os.fsdecode(variables.get(b"FAIRWAY_SHARED_DIR", b""))
    return not there or os.path.realpath(f"{run}/shared") == os.path.realpath(there)


def chosen(processes: list[Process], rank: int | None) -> list[Process]:
    """Returns the process of a rank, or of the lowest one, and its ancestors, the innermost first;
    nothing if the rank is not on this node.

    The innermost has all variables: those of the job's `env:` are set on the way to it. Processes
    next to the task itself, with variables for ranks of their own, are avoided if possible.
    """
    own = [each for each in processes if b"FAIRWAY_PID" not in each.environment]
    processes = own if own and rank is None else processes
    known = {each.rank for each in processes if each.rank is not None}
    if rank is not None and rank not in known and (known or rank != 0):
        return []
    wanted = rank if rank is not None else min(known, default=None)
    way = [each for each in processes if wanted is None or not known or each.rank == wanted][:1]
    while way:
        below = [one for one in processes if one.parent == way[0].pid and one.name not in _WAITING]
        if not below:
            break
        way.insert(0, below[0])
    return way


def enter(process: Process, command: list[str]) -> None:
    """Becomes the command next to the process; returns if that has ended meanwhile."""
    root = Path("/proc", str(process.pid))
    # Without the variables that mark the run's processes, so that its end does not wait for this.
    environment = {
        name: value
        for name, value in process.environment.items()
        if not name.startswith(b"_FAIRWAY")
    }
    environment[b"FAIRWAY_PID"] = str(process.pid).encode()
    try:
        user, group, groups = _owner(root)
        words = _namespaces(process.pid)
        if not words:
            os.chdir(root / "cwd")
    except OSError:
        return
    is_other = os.geteuid() == 0 and user != 0
    if words:
        words += ["--wd", *(["-S", str(user), "-G", str(group)] if is_other else [])]
        # The task's loader settings are only for the command: nsenter may run as root.
        loaded = [name for name in environment if name.startswith(b"LD_")]
        inner = [os.fsdecode(name + b"=" + environment.pop(name)) for name in loaded]
        command = [*words, "--", *(["env", *inner] if inner else []), *command]
    elif is_other:
        os.setgroups(groups)
        os.setgid(group)
        os.setuid(user)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - it takes this one's place
    except OSError as error:
        _end(f"{command[0]}: {error.strerror}", _NOT_FOUND)


def _owner(root: Path) -> tuple[int, int, list[int]]:
    """Returns a process's user, group and further groups. The owner of its /proc folder will not
    do: that is root if the process is not "dumpable". Source: proc(5), /proc/pid."""
    lines = (root / "status").read_text(errors="replace").splitlines()
    ids = dict(line.split(":", 1) for line in lines if line.startswith(("Uid:", "Gid:", "Groups:")))
    user, group = (int(ids[name].split()[1]) for name in ("Uid", "Gid"))  # the effective ones
    return user, group, [int(each) for each in ids["Groups"].split()]


def _namespaces(pid: int) -> list[str]:
    """Returns the command prefix that enters a process's container; empty if it is in none."""

    def differs(name: str) -> bool:
        there, here = (Path(f"/proc/{each}/ns/{name}") for each in (pid, "self"))
        return there.readlink() != here.readlink()

    if not differs("mnt"):
        return []
    program = shutil.which("nsenter")
    if program is None:
        _end("the task runs in a container, and `nsenter` is not on this node", _NO_PROGRAM)
    flags = [flag for name, flag in _NAMESPACES.items() if differs(name)]
    if differs("user"):
        flags += ["-U", "--preserve-credentials"]
    return [program, "-t", str(pid), *flags]


def _end(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"fairway: {message}\n")
    sys.exit(code)


def main() -> None:
    run, task, rank, *command = sys.argv[1:]
    run = str(Path(run).expanduser())
    name = run.rpartition("/")[2]
    found = processes_of_task(run, task)
    if not found:
        sudo = shutil.which("sudo") if os.geteuid() != 0 else None
        if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True).returncode == 0:
            # Looks again as root: Batch's tasks run as another user.
            start = sys.orig_argv[: 1 - len(sys.argv)]
            again = [sudo, "-n", *start, run, *sys.argv[2:]]
            os.execv(sudo, again)  # noqa: S606 - as above
        _end(f"no process of task {task} of {name} is on this node", _NOT_HERE)
    way = chosen(found, None if rank == "-" else int(rank))
    if not way:
        here = sorted({each.rank for each in found if each.rank is not None})
        known = f"its ranks here are {', '.join(map(str, here))}" if here else "it names no ranks"
        _end(f"rank {rank} of {name} is not on this node: {known}", _NOT_HERE)
    for process in way:
        enter(process, command)
    _end(f"task {task} of {name} has just ended", _NOT_HERE)


if __name__ == "__main__":
    main()

"""Starts an attempt of a task: the contract that its script relies on, with its directories and the
inputs that other runs have kept, and its program."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from fairway_agent import outputs, processes, task_logs
from fairway_agent.fanout import launchers
from fairway_agent.resources import ports_of
from fairway_agent.spec import LAST
from fairway_boot.files import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_agent.figures.idle import IdleWatch
    from fairway_agent.task.task import Task

# Of the last task of its own run alone: one that such a task submits has it not.
_OTHERS = "FAIRWAY_TASKS_DIR"


def start(task: Task) -> None:
    """Starts the task's next attempt."""
    task.nodes.prepare(task)
    task.attempt += 1
    environment = contract(task)
    script = task.folder / "launch.sh"
    script.write_text(task.spec.script, encoding="utf-8")
    if task.attempt > 0 and task.before:
        checkpoint = environment["FAIRWAY_CHECKPOINT_DIR"]
        line = task_logs.attempt_line(task.attempt, task.before, checkpoint)
        task.nodes.append_log_line(task, line)
        task.before = ""  # said once, though it may not start yet
    task.kill_at, task.timed_out, task.stopped_for = None, False, ""
    task.process = program(task, script, environment)
    task.sampling = task.nodes.sampling(task, environment)
    task.started = time.time()
    task.idle = idle_watch(task)
    task.record(replace(task.status("running"), session=task.session))


def program(task: Task, script: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Starts the script, with what it prints in the task's log."""
    secrets = [os.environ.get(name, "") for name in task.plan.secrets]
    log = task.nodes.open_log(task)
    share = task.share if task.nodes.IS_HERE else None
    try:
        with share.pinned() if share is not None else nullcontext():
            process = subprocess.Popen(
                task.nodes.command(task, script),
                cwd=task.plan.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if secrets else log,
                stderr=subprocess.STDOUT,
                # Its share is its own until all of it has ended, no matter what else is killed.
                pass_fds=(share.lock,) if share is not None else (),
                start_new_session=True,
            )
    except BaseException:
        log.close()
        raise
    if process.stdout is None:
        log.close()
    else:
        task.pump = task_logs.Pump(process.stdout, log, secrets)
    return process


def idle_watch(task: Task) -> IdleWatch | None:
    """The watch for idle GPUs; None if the job has no such limit, or nothing is sampled."""
    limit, seconds = task.plan.idle_gpu, task.plan.sample_every
    if limit is None or seconds is None or task.name in ("setup", LAST):
        return None
    from fairway_agent.figures import FOLDER, idle, sampler  # most runs need none

    is_here = task.nodes.IS_HERE  # as often as it wants nodes
    names = [sampler.node_name()] if is_here else [host.name for host in task.hosts]
    gpus, folder = task.share.gpus if task.share else None, task.run_folder / FOLDER
    watch = idle.IdleWatch(limit, folder, names, gpus, seconds, time.monotonic())
    return task.nodes.idle_watch(task, watch)


def contract(task: Task) -> dict[str, str]:
    """The environment of the task's script; its directories exist when it starts."""
    plan, spec = task.plan, task.spec
    ranks, hosts = task.ranks, task.addresses()
    own = {**plan.environment, **spec.environment}
    machine = {name: value for name, value in os.environ.items() if name != _OTHERS}
    environment = {
        **machine,
        **processes.NESTED,
        **own,
        "FAIRWAY_RUN": plan.run,
        "FAIRWAY_TASK": task.name,
        "FAIRWAY_ATTEMPT": str(task.attempt),
        "FAIRWAY_GRACE": f"{plan.grace:g}",
        "FAIRWAY_NODES": str(spec.nodes),
        "FAIRWAY_PROCESSES_PER_NODE": str(spec.processes_per_node),
        "FAIRWAY_WORLD_SIZE": str(ranks),
        "FAIRWAY_HOSTS": ",".join(hosts),
        "FAIRWAY_MAIN_HOST": hosts[0],
        **_directories(task),
        **_inputs(task),
        task.nodes.MARK: task.nodes.mark(task),
        **(task.share.environment() if task.share is not None else {}),
    }
    hostfile = task.folder / "hosts"
    hostfile.write_text("".join(f"{host}\n" for host in hosts), encoding="ascii")
    environment["FAIRWAY_HOSTFILE"] = str(hostfile)
    if spec.is_last:
        laid_out = task.folder / "tasks"
        outputs.lay_out(task.nodes.kept(task), laid_out)
        environment[_OTHERS] = str(laid_out)
    port = launchers.free_port(ranks, ports_of(environment))
    environment["FAIRWAY_MAIN_PORT"] = str(port)
    task.session_folder = task.nodes.session_folder(task)
    environment |= launchers.session(task.session_folder, environment)
    if task.hosts:
        direct = {name: value for name, value in machine.items() if name not in own}
        environment |= launchers.past_proxy(hosts, direct)
    environment |= task.nodes.reach(task, environment.get("PATH", os.defpath))
    return environment | task.nodes.contract(task)


def _directories(task: Task) -> dict[str, str]:
    found = task.nodes.directories(task)
    for name in task.spec.outputs:
        found[f"FAIRWAY_OUTPUT_{name.upper()}"] = task.nodes.written(task) / name
    for directory in (task.folder, *found.values()):
        directory.mkdir(parents=True, exist_ok=True)
    return {name: str(directory) for name, directory in found.items()}


def _inputs(task: Task) -> dict[str, str]:
    """The variables of the inputs that another run has kept."""
    if not task.plan.chained:
        return {}
    base, known = task.run_folder.parents[1], outputs.decide_best(task.run_folder, task.plan)
    return {
        f"FAIRWAY_INPUT_{each.name.upper()}": str(base / each.path_for(known))
        for each in task.plan.chained
    }


def missing_input(task: Task) -> str:
    """Names an input that should come from another run and is missing; "" if all are there."""
    if not task.plan.chained:
        return ""
    base = task.run_folder.parents[1]
    try:
        known = outputs.decide_best(task.run_folder, task.plan)
    except (Fault, OSError) as error:
        return str(error)
    for each in task.plan.chained:
        path = each.path_for(known)
        if not _is_there(base / path):
            _, other, _, number, _, output = (*path.split("/"), *[""] * 5)[:6]
            if not output:
                return f"the input `{each.name}` no longer exists: {base / path}"
            return f"task {number} of {other} has kept no file in `{output}`"
    return ""


def _is_there(folder: Path) -> bool:
    """A node that shares the folder believes for a while that what it did not find there before is
    not there, until it lists it."""
    for parent in (folder.parents[1], folder.parent):
        with suppress(OSError):
            list(parent.iterdir())
    return folder.is_dir()

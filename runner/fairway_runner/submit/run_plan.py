"""Plan of a run from its job: lines and paths of its tasks, its budget and its secrets."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_agent.spec import Budget, Mail, Output, Receiver, RunOutputInput, Staged, TaskSpec
from fairway_core.findings import Finding, UserError
from fairway_core.suggestions import did_you_mean
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.jobs.job_fields import BestInput, RunInput
from fairway_runner.jobs.project_files import is_uploaded, require_lasting

if TYPE_CHECKING:
    from fairway_core.notifications import Notify
    from fairway_core.target import Target
    from fairway_core.yaml_text import DataPath
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job import Output as JobOutput
    from fairway_runner.jobs.job_file import JobFile

_MOST = 2 << 30  # bytes of all lines, which are stored on disk here and on the target
_PIECE = 1 << 18  # bytes that are compressed, and held in memory, at once
_LEVEL = 1  # similar lines compress nearly as well as with 9, in much less time


class TaskLines:
    """Lines in order, whose bytes may be read repeatedly."""

    def __init__(self) -> None:
        self.first = ""
        self._count = 0
        self._size = 0
        self._pieces: list[bytes] = []
        self._rest = bytearray()

    def __len__(self) -> int:
        return self._count

    def append(self, line: str) -> None:
        """Adds a line and its end. Raises UserError if all lines together are too long."""
        self.first = self.first or line
        encoded = line.encode()
        self._count += 1
        self._size += len(encoded)
        if self._size > _MOST:
            message = f"the scripts of the tasks come to more than {_MOST >> 20:,} MiB"
            hint = "shorten what each task has, or submit fewer at once"
            raise UserError.of("heavy-job", message, hint)
        self._rest += encoded
        if len(self._rest) >= _PIECE:
            self._pieces.append(zlib.compress(self._rest, _LEVEL))
            self._rest.clear()

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes of all lines, in pieces."""
        yield from map(zlib.decompress, self._pieces)
        yield bytes(self._rest)


def task_line(
    index: int | str, job: Job, engine: Engine, script: str, checkpoint: str | None = None
) -> str:
    """Returns a line of `tasks.jsonl`, or of the setup, the release or `finally:`."""
    spec = TaskSpec(
        index=index,
        nodes=job.nodes,
        processes_per_node=job.processes_per_node,
        script=script,
        params=job.params,
        outputs={name: _kept(name, output) for name, output in job.outputs.items()},
        checkpoint=checkpoint,
        environment=engine.task_environment(job.world_size),
        wanted=job.wanted,
    )
    return spec.line()


def receiver_of(notify: Notify | None) -> Receiver | None:
    """Returns the receiver of the run's notifications for the plan; None if there is none."""
    if notify is None:
        return None
    by_mail = None
    if mail := notify.mail:
        by_mail = Mail(mail.to, mail.server, mail.from_, mail.user or "", mail.secret)
    return Receiver(notify.webhook or "", notify.on, notify.form, notify.secret, by_mail)


def _kept(name: str, output: JobOutput) -> Output:
    given = output.pattern or f"{name}/**"
    first, *others = (given,) if isinstance(given, str) else given
    return Output(first, output.when, tuple(others), output.exclude, output.required)


def budget_of(job: Job, target: Target) -> Budget | None:
    """Returns a job's limit on its cost on a target. Raises UserError if no price is known."""
    if job.max_cost is None:
        return None
    from fairway_core.cost.cache import cached_prices

    instead = "limit the time: -s max_cost=null -s max_duration=SPAN"
    hourly = hourly_price(target, "max_cost", instead)
    return Budget(job.max_cost, cached_prices().currency, hourly)


def hourly_price(target: Target, path: str, instead: str) -> float:
    """Returns the hourly price of a node of the target, as known here or from Azure. Raises
    UserError at the field `path` if it is unknown, with advice on what to write `instead`."""
    from fairway_core.cost.cache import CachedPrices, cached_prices
    from fairway_core.cost.prices import price_of
    from fairway_core.cost.service import PriceService

    hourly = price_of(target, cached_prices()) or None
    if hourly is None and target.vm_size and target.region:
        with suppress(UserError):
            hourly = price_of(target, CachedPrices(PriceService()))
    if hourly is not None:
        return hourly
    message = f"`{path}`: the price of a node of `{target.name}` is not known"
    hint = "give the target its price per node hour in fairway.yaml, for example price: 12.5"
    if target.environment and not target.region:
        hint = "read the targets again, with their region: fairway targets sync"
    elif target.environment:
        hint = f"Azure's price service has no price for it; {instead}"
    raise UserError([Finding("no-price", message, hint, path)])


# Shorter secrets occur by chance in any log, and masking them would make it unreadable.
_SHORTEST = 4


def secret_values(sources: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the value of each `env:` secret, from the variable of the `environment` that it
    names. Raises UserError for each without a value, or with one too short to keep out of logs."""
    values, findings = {}, []
    for name, source in sources.items():
        if not source.startswith("env:"):
            continue
        variable = source.removeprefix("env:")
        value = environment.get(variable, "")
        path = f"secrets.{name}"
        if not value:
            message = f"`{path}`: the environment variable {variable} is not set"
            hint = f"read it in with: read -rs {variable} && export {variable}"
            if is_uploaded():
                message += " on the server, and those of your shell are not sent"
                hint = "use keyvault:NAME, or have it set before `fairway serve` starts there"
            findings.append(Finding("no-secret", message, hint, path))
        elif len(value.strip()) < _SHORTEST:
            message = f"`{path}`: what {variable} holds is too short to be masked in logs"
            hint = f"a secret has at least {_SHORTEST} characters; put anything else under `env:`"
            findings.append(Finding("short-secret", message, hint, path))
        values[name] = value
    if findings:
        raise UserError(findings)
    return values


def require_readable(sources: Mapping[str, str], target: Target) -> None:
    """Refuses secrets that the target cannot read: on `local` a vault, elsewhere this environment,
    whose values would travel to nodes and be stored by a service; nodes read vaults themselves."""
    here, findings = runs_here(target.engine), []
    for name, source in sources.items():
        path, hint = f"secrets.{name}", ""
        if here and source.startswith("keyvault:"):
            message = f"`{path}`: `local` has no identity that could read a vault"
            hint = f"read it from a variable of your environment here: -s secrets.{name}=env:{name}"
        elif not here and source.startswith("env:"):
            message = f"`{path}`: a secret of this machine is not sent to `{target.name}`"
            hint = "put it into the environment's vault, and use keyvault:NAME"
        elif not here and not target.vault_url:
            message = f"`{path}`: the target `{target.name}` has no vault"
            hint = "give the environment a `vault:` section, and deploy it"
        if hint:
            findings.append(Finding("no-secret", message, hint, path))
    if findings:
        raise UserError(findings)


@dataclass
class Inputs:
    """A job's inputs: FAIRWAY_INPUT_<ID> of each existing one, those to copy from storage before
    the tasks, and those of other runs, whose origins `facts` has by name."""

    environment: dict[str, str] = field(default_factory=dict)
    staged: list[Staged] = field(default_factory=list)
    run_inputs: list[RunOutputInput] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)


def inputs_of(job_file: JobFile, job: Job, target: Target) -> Inputs:
    """Returns the inputs except those of other runs, which `run_inputs` adds. Raises UserError at
    its line for an unreadable one. On `local` a staged input exists already, as a folder."""
    found, here = Inputs(), runs_here(target.engine)
    for name, source in job.inputs.items():
        key: DataPath = ("inputs", name)
        if isinstance(source, RunInput | BestInput):
            continue
        if not isinstance(source, str) and not here:
            container, path = blobs_of(job_file, name, source.from_, target)
            to = source.to and str(below_mount(job_file, (*key, "to"), source.to, target))
            found.staged.append(Staged(name, container, path, source.stage, to))
            continue
        if not isinstance(source, str):
            key, source = (*key, "from"), source.from_
        folder = below_mount(job_file, key, source, target)
        if here and not folder.exists():
            message = f"`{source}` is {folder}, which does not exist"
            raise job_file.document.error("bad-value", key, message, "")
        found.environment[f"FAIRWAY_INPUT_{name.upper()}"] = str(folder)
    return found


def blobs_of(job_file: JobFile, name: str, source: str, target: Target) -> tuple[str, str]:
    """Returns container and path of a staged input. Raises UserError for an unknown container."""
    container, _, path = source.partition(":")
    known = target.storage.containers if target.storage else ()
    if container not in known:
        message = f"the target `{target.name}` has no storage container `{container}`"
        hint = did_you_mean(container, known) if known else "it has no storage account"
        raise job_file.document.error("bad-value", ("inputs", name, "from"), message, hint)
    return container, path.lstrip("/")


def checkpoint_directory(job_file: JobFile, job: Job, target: Target) -> str | None:
    """Returns the directory of the job's checkpoints, or None if each run has its own. On other
    machines a relative one lies in the engine's shared folder."""
    directory = job.checkpoint.directory
    if directory is None:
        return None
    key = ("checkpoint", "directory")
    path: PurePath
    if re.match(r"[a-z][a-z0-9-]*:", directory):
        path = below_mount(job_file, key, directory, target)
    elif runs_here(target.engine):
        if not Path(directory).is_absolute():
            require_lasting(directory)
        path = job_file.folder / directory
    else:
        path = PurePosixPath(directory)
        if path.is_absolute() or ".." in path.parts:
            message = f"`{directory}` is a folder of this machine"
            hint = "write MOUNT:PATH, or a path below the job's folder"
            raise job_file.document.error("bad-value", key, message, hint)
    if runs_here(target.engine):
        try:
            exists = next(each for each in (Path(path), *Path(path).parents) if each.exists())
            fault = "" if exists.is_dir() else f"{exists} is not a directory"
        except OSError as error:
            fault = str(error.strerror)
        if fault:
            message = f"`{'.'.join(key)}`: no directory can be made there: {fault}"
            raise job_file.document.error("bad-value", key, message, "")
    return str(path)


def below_mount(job_file: JobFile, key: DataPath, source: str, target: Target) -> Path:
    """Returns the path of `MOUNT:PATH` there. Raises UserError at its line for an unknown mount."""
    mount, _, path = source.partition(":")
    if mount not in target.mounts:
        storage = target.storage
        if storage and mount in storage.containers and key[0] == "inputs":
            message = f"`{mount}` is a storage container, whose blobs are staged first"
            hint = f'write {{from: "{source}", stage: scratch}}'
            raise job_file.document.error("bad-value", key, message, hint)
        hints = [did_you_mean(mount, target.mounts)] if target.mounts else []
        if runs_here(target.engine):
            hints.append(_LOCAL_MOUNT.format(mount=mount))
        message = f"the target `{target.name}` has no mount `{mount}`"
        hint = "\n".join(each for each in hints if each)
        raise job_file.document.error("bad-value", key, message, hint)
    return Path(target.mounts[mount], path.lstrip("/"))


_LOCAL_MOUNT = """say in fairway.yaml where it is on this machine:
  targets:
    - {{name: local, mounts: {{{mount}: /path/to/it}}}}"""

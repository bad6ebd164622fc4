"""A run's plan as a job says it: the lines of its tasks, its budget and its secrets."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from fairway_agent.spec import Budget, Mail, Output, Receiver, TaskSpec
from fairway_core.findings import Finding, UserError
from fairway_runner.engines.capabilities import runs_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fairway_core.findings import Location
    from fairway_core.notifications import Notify
    from fairway_core.target import Target
    from fairway_runner.engines.engine import Engine
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job import Output as JobOutput


_MOST = 2 << 30  # bytes of all lines: they lie on a disk, here and on the target
_PIECE = 1 << 18  # bytes that are compressed together, and at hand at once
_LEVEL = 1  # lines that differ in a number shrink nearly as much as with 9, in a part of the time


class TaskLines:
    """Lines in their order, whose bytes may be read again and again."""

    def __init__(self) -> None:
        self.first = ""
        self._count = 0
        self._size = 0
        self._pieces: list[bytes] = []
        self._rest = bytearray()

    def __len__(self) -> int:
        return self._count

    def append(self, line: str) -> None:
        """Adds the next one, with its end; UserError where they come to too much."""
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
        """The bytes of all of them, in pieces."""
        yield from map(zlib.decompress, self._pieces)
        yield bytes(self._rest)


def task_line(
    index: int | str, job: Job, engine: Engine, script: str, checkpoint: str | None = None
) -> str:
    """A line of `tasks.jsonl`, or of what runs before and after the tasks."""
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


def once_a_node(job: Job) -> Job:
    """The job of what runs once a node, and takes it whole."""
    return job.model_copy(update={"outputs": {}, "nodes": 1, "gpus": None, "cores": None})


def receiver_of(notify: Notify | None) -> Receiver | None:
    """The receiver of the run's notifications, as the plan has it; None if there is none."""
    if notify is None:
        return None
    by_mail = None
    if mail := notify.mail:
        by_mail = Mail(mail.to, mail.server, mail.from_, mail.user or "", mail.secret)
    return Receiver(notify.webhook or "", notify.on, notify.form, notify.secret, by_mail)


def _kept(name: str, output: JobOutput) -> Output:
    """An output as the task's line has it."""
    given = output.pattern or f"{name}/**"
    first, *others = (given,) if isinstance(given, str) else given
    return Output(first, output.when, tuple(others), output.exclude, output.required)


def budget_of(job: Job, target: Target) -> Budget | None:
    """The limit that a job sets to its cost on a target; UserError where no price is known."""
    if job.max_cost is None:
        return None
    from fairway_core.cost.cache import prices_at_hand

    instead = "limit the time: -s max_cost=null -s max_duration=SPAN"
    hourly = hourly_price(target, "max_cost", instead)
    return Budget(job.max_cost, prices_at_hand().currency, hourly)


def hourly_price(target: Target, path: str, instead: str) -> float:
    """Returns the hourly price of a node of the target, as known here or from Azure. Raises
    UserError at the field `path` if it is unknown, with advice on what to write `instead`."""
    from fairway_core.cost.cache import CachedPrices, prices_at_hand
    from fairway_core.cost.node_price import price_of
    from fairway_core.cost.service import PriceService

    hourly = price_of(target, prices_at_hand()) or None
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


# What is shorter stands in any log by chance, and masking it would blot out the rest.
_SHORTEST = 4


def secret_values(
    sources: Mapping[str, str],
    environment: Mapping[str, str],
    locate: Callable[[str], Location | None] = lambda _: None,
) -> dict[str, str]:
    """The value of each secret, from the variable of the `environment` that its source names.
    UserError, located by `locate`, for each without a value, or with one too short to keep out of
    logs."""
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
            findings.append(Finding("no-secret", message, hint, path, location=locate(name)))
        elif len(value.strip()) < _SHORTEST:
            message = f"`{path}`: what {variable} holds is too short to be masked in logs"
            hint = f"a secret has at least {_SHORTEST} characters; put anything else under `env:`"
            findings.append(Finding("short-secret", message, hint, path, location=locate(name)))
        values[name] = value
    if findings:
        raise UserError(findings)
    return values


def require_readable(
    sources: Mapping[str, str],
    target: Target,
    locate: Callable[[str], Location | None] = lambda _: None,
) -> None:
    """Refuses what the target cannot read: on `local` a vault, elsewhere this environment, whose
    values would travel to nodes and lie in what a service keeps; nodes read vaults themselves."""
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
            findings.append(Finding("no-secret", message, hint, path, location=locate(name)))
    if findings:
        raise UserError(findings)

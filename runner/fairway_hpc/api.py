"""What the commands do, for Python programs."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.cost.cache import prices_at_hand
from fairway_core.documents import Document
from fairway_core.findings import UserError, format_finding
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.moments import moment, span
from fairway_runner.runs.accounting import BY, grouped
from fairway_runner.runs.compare import compare as _compare
from fairway_runner.runs.query import Wanted, select
from fairway_runner.runs.refresh import refresh_all
from fairway_runner.runs.spending import spending
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.ready import make_ready
from fairway_runner.submit.rerun import rerun as _rerun
from fairway_runner.targets.lookup import all_targets, find_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.runs.store import Run


def submit(
    job: Job | str | Path,
    target: str | Sequence[str] | None = None,
    *,
    patience: str | None = None,
    set: Sequence[str] = (),  # noqa: A002 - the option's own name
    folder: str | Path = ".",
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
) -> Run:
    """Starts a job and returns its run, which is recorded in the current project.

    `target` is where it runs, by default what the job says, or `local`; of several a run goes to
    the first that has room, and `run.wait()` takes it to the next one where it waits longer than
    `patience`, such as "30m", or where there is no capacity.
    `job` is a job file, or a job made here, whose code lies in `folder`. Its strings are
    templates, as in a file. `run_id` is one of your choice: called again with it, this goes on
    where it was cut off. `set` holds `KEY=VALUE` as the option `--set` does, `tags` and `note` what
    `--tag` and `--note` do. `run.wait()` begins those steps of a file that do not wait on their
    targets. Raises UserError as soon as anything is wrong with the job.

    >>> run = submit("examples/digits/job.yaml", set=["params.epochs=2"])  # doctest: +SKIP
    """
    job_file = _job_file(job, Path(folder), set) if isinstance(job, Job) else load_job(job, set)
    store = RunStore.here()
    names = [target] if isinstance(target, str) else target or ()
    longest = None if patience is None else span("patience", patience)
    ready = make_ready(
        job_file, store, names, patience=longest, run_id=run_id, tags=tags, note=note
    )
    return ready.start(store)


def rerun(
    run: Run | str,
    target: str | None = None,
    *,
    set: Sequence[str] = (),  # noqa: A002 - the option's own name
    tags: Sequence[str] = (),
    note: str | None = None,
    folder: str | Path | None = None,
) -> Run:
    """Starts a new run with the job and the code of an earlier one, given as such or by its id.

    `set` holds further `KEY=VALUE`, and `target` is another place where one is given. Raises
    UserError where the earlier run's record is incomplete.

    >>> run = rerun("digits-4k2mzp", set=["params.lr=0.5"])  # doctest: +SKIP
    """
    earlier = _store(folder).find(run) if isinstance(run, str) else run
    there = None if target is None else find_target(target)
    return _rerun(earlier, set, there, tags=tags, note=note).run


def _job_file(job: Job, folder: Path, overrides: Sequence[str]) -> JobFile:
    # JSON is YAML: what is wrong with the job is shown at its lines.
    text = json.dumps(job.model_dump(mode="json", by_alias=True, exclude_unset=True), indent=1)
    parsed = parse_yaml(text, f"<{job.name}>")
    document = Document(parsed, parsed.data, by_hand=False).override(overrides, Job)
    return JobFile(document, folder.resolve(), assignments=tuple(overrides))


def compare(
    runs: Sequence[Run | str],
    folder: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Runs side by side, given as such or by their ids: a record for each task.

    Each has `run_id`, `task`, `state`, `seconds`, `params`, `metrics` (the `last`, `lowest` and
    `highest` value of each), `commit`, and in `differs` what was not set alike in all of them.
    Raises UserError for a run that is not there.

    >>> compare(["digits-4k2mzp", "digits-x7q2ca"])[0]["differs"]  # doctest: +SKIP
    {'lr': 0.1}
    """
    store = _store(folder)
    found = [store.find(run) if isinstance(run, str) else run for run in runs]
    if findings := refresh_all(found, logs=True):
        raise UserError(findings, exit_code=5)
    return _compare(found)


def runs(
    folder: str | Path | None = None,
    *,
    tags: Sequence[str] = (),
    states: Sequence[str] = (),
    name: str | None = None,
    target: str | None = None,
    since: str | None = None,
    text: str = "",
) -> list[Run]:
    """The runs of the project that a folder is in, by default the current one; the newest last.

    Of those the ones for which all that is given holds, as with `fairway list`. Raises UserError
    where a record cannot be read.

    >>> [run.id for run in runs(tags=["baseline"], since="7d")]  # doctest: +SKIP
    ['digits-4k2mzp']
    """
    first = None if since is None else moment("since", since)
    wanted = Wanted(states, name, target, tags, first, text)
    listing = select(_store(folder), wanted)
    if listing.findings:
        raise UserError(listing.findings)
    return [run for run, _ in listing.runs]


def costs(
    folder: str | Path | None = None,
    *,
    by: str | None = None,
    environment: str | Path | None = None,
    since: str | None = None,
    others: bool = False,
    region: str | None = None,
    prices: str | Path | None = None,
) -> list[dict[str, Any]]:
    """What the runs of a project have held and cost, as `fairway cost --runs --json` says it.

    A record for each run, or for each `name`, `tag`, `user`, `target` or `month`: its `key`,
    `runs`, `node_hours`, `cost` in `currency`, `unpriced` runs and `sizes`. Of those submitted
    `since` then, on targets of the `environment`, where these are given. With `others` the
    project's targets are asked as the command asks them, and runs count that other machines and
    other people have submitted there; a target that does not tell is a Python warning. Nobody is
    asked for prices: they are those of the file, or the kept ones and the snapshot. Raises
    UserError for another `by`, and for a run that cannot be read.

    >>> costs(by="tag")[-1]  # doctest: +SKIP
    {'key': 'baseline', 'runs': 4, 'node_hours': 12.5, 'cost': 1125.0, …}
    """
    if by is not None and by not in BY:
        raise UserError.of(
            "bad-value", f"by: runs cannot be grouped by `{by}`", f"one of: {', '.join(BY)}"
        )
    known = prices_at_hand(None if prices is None else Path(prices))
    held = spending(
        _store(folder),
        known,
        ask=[each.target for each in all_targets(folder).values()] if others else None,
        environment=None if environment is None else _environment_name(environment),
        since=None if since is None else moment("since", since),
        region=region,
    )
    if held.damaged:
        raise UserError(held.damaged)
    for finding in held.unanswered:
        warnings.warn(format_finding(finding), stacklevel=2)
    groups = grouped(held.uses, by)
    return [{**group.facts, "currency": known.currency} for group in groups]


def _environment_name(choice: str | Path) -> str:
    from fairway_core.environment import load_environment
    from fairway_core.environment.selection import environment_file

    return load_environment(environment_file(str(choice))).name


def _store(folder: str | Path | None) -> RunStore:
    return RunStore.of(None if folder is None else Path(folder))

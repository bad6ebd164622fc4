"""Python API with the functions of the commands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.cost.cache import cached_prices
from fairway_core.documents import BY_HAND, Document
from fairway_core.findings import UserError
from fairway_core.validation import describe, require_list
from fairway_core.yaml_text import parse_yaml
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.quantities import parse_moment
from fairway_runner.runs.query import RunFilter, require_states, select, usage_of_runs
from fairway_runner.runs.report.data import compare as _compare
from fairway_runner.runs.store import RunStore, refresh_all
from fairway_runner.runs.usage import grouped, require_group
from fairway_runner.submit.rerun import rerun as _rerun
from fairway_runner.submit.submission import prepare_submission
from fairway_runner.submit.submission import submit as _submit
from fairway_runner.targets.lookup import find_target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from fairway_runner.runs.store import Run


def submit(
    job: Job | str | Path,
    target: str | Sequence[str] | None = None,
    *,
    set: Sequence[str] = (),  # noqa: A002 - the option's own name
    folder: str | Path = ".",
    run_id: str | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
) -> Run:
    """Submits a job and returns its run, which is recorded in the current project.

    `job` is the path of a job file, or a `Job` whose code is in `folder`; its strings are
    templates, as in a file. `target` is the name of a target, by default the job's own, or `local`.
    Of several targets the run uses the first that has room.

    `run_id` is an ID of your choice; the same call with the same ID resumes an interrupted
    submission. `set` holds assignments `KEY=VALUE`, and `tags` and `note` label the run, like the
    options `--set`, `--tag` and `--note`. Of a job with steps, `run.wait()` also starts those that
    their targets cannot start.

    Raises UserError if anything is wrong with the job or the target.

    >>> run = submit("examples/digits/job.yaml", set=["params.epochs=2"])  # doctest: +SKIP
    """
    require_list("set", set)
    if isinstance(job, Job):
        # JSON is YAML: what is wrong with the job is shown at its lines.
        given: dict[str, Any] = {"by_alias": True, "exclude_unset": True}
        facts = job.model_dump(mode="json", context={BY_HAND: True}, **given)
        parsed = parse_yaml(_json_of(facts), f"<{job.name}>")
        document = Document(parsed, parsed.data).override(set, Job)
        job_file = JobFile(document, Path(folder).resolve(), assignments=tuple(set))
    elif isinstance(job, str | os.PathLike):
        job_file = load_job(job, set)
    else:
        message = f"`job`: expected a `Job` or the path of a job file, found {describe(job)}"
        raise UserError.of("wrong-type", message, "Job(**fields) makes one of a mapping")
    store = RunStore.here()
    names = [target] if isinstance(target, str) else target or ()
    options: dict[str, Any] = {"run_id": run_id, "tags": tags, "note": note}
    return _submit(prepare_submission(job_file, store, names, **options), store)


def _json_of(facts: dict[str, Any]) -> str:
    """Returns the job as JSON. Raises UserError for a number that a job file cannot hold."""
    try:
        return json.dumps(facts, indent=1, allow_nan=False)
    except ValueError as error:  # nan, or an integer of more digits than Python prints
        message = f"the job holds a number that is not finite or too large: {error}"
        raise UserError.of("wrong-type", message, "write it as text") from None


def rerun(
    run: Run | str,
    target: str | None = None,
    *,
    set: Sequence[str] = (),  # noqa: A002 - the option's own name
    tags: Sequence[str] = (),
    note: str | None = None,
    folder: str | Path | None = None,
) -> Run:
    """Starts a new run with the job and the code of an earlier one, a `Run` or its ID.

    `set` holds assignments `KEY=VALUE` that change the job; `target` is another target to run on.
    Raises UserError if the record of the earlier run is incomplete.

    >>> run = rerun("digits-4k2mzp", set=["params.lr=0.5"])  # doctest: +SKIP
    """
    require_list("set", set)
    require_list("tags", tags)
    earlier = _store(folder).find(run) if isinstance(run, str) else run
    there = None if target is None else find_target(target)
    return _rerun(earlier, set, there, tags=tags, note=note).run


def compare(runs: Sequence[Run | str], folder: str | Path | None = None) -> list[dict[str, Any]]:
    """Compares runs, each a `Run` or its ID: one record per task.

    A record has `run_id`, `task`, `state`, `seconds`, `params`, `metrics` (the `last`, `lowest` and
    `highest` value of each), `commit`, and in `differs` the settings that are not the same in all
    of them. Raises UserError for a run that does not exist.

    >>> compare(["digits-4k2mzp", "digits-x7q2ca"])[0]["differs"]  # doctest: +SKIP
    {'lr': 0.1}
    """
    require_list("runs", runs)
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
    since: str | date | None = None,
    text: str = "",
) -> list[Run]:
    """Lists the runs of the project that `folder` is in, by default the current one; newest last.

    The other arguments filter them like the options of `fairway list`: a run must match all of
    them. `since` may be a `datetime` or a `date` too, which without a zone is this machine's.
    Raises UserError for an unknown state, and if a record cannot be read.

    >>> [run.id for run in runs(tags=["baseline"], since="7d")]  # doctest: +SKIP
    ['digits-4k2mzp']
    """
    require_list("states", states)
    require_list("tags", tags)
    require_states(states)
    first = None if since is None else parse_moment("since", str(since))
    wanted = RunFilter(states, name, target, tags, first, text)
    listing = select(_store(folder), wanted)
    if listing.findings:
        raise UserError(listing.findings)
    return [run for run, _ in listing.runs]


def costs(
    folder: str | Path | None = None,
    *,
    by: str | None = None,
    environment: str | Path | None = None,
    since: str | date | None = None,
    region: str | None = None,
    prices: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Tells the node hours and the cost of a project's runs, like `fairway cost --runs --json`.

    Returns one record per run, or `by` `name`, `tag`, `user`, `target` or `month`: its `key`,
    `runs`, `node_hours`, `cost` in `currency`, `unpriced` runs and `sizes`. `since`, as for `runs`,
    and `environment` leave out older runs and those on other targets. Prices are those of the file
    `prices`, or the cached ones and the snapshot; no service and no target is asked. Raises
    UserError for an unknown `by`, and for a run that cannot be read.

    >>> costs(by="tag")[-1]  # doctest: +SKIP
    {'key': 'baseline', 'runs': 4, 'node_hours': 12.5, 'cost': 1125.0, …}
    """
    require_group("by", by)
    known = cached_prices(None if prices is None else Path(prices))
    store, name = _store(folder), None
    if environment is not None:
        from fairway_core.environment import load_environment
        from fairway_core.environment.selection import environment_file

        name = load_environment(environment_file(str(environment))).name
    first = None if since is None else parse_moment("since", str(since))
    held = usage_of_runs(store, known, environment=name, since=first, region=region)
    if held.damaged:
        raise UserError(held.damaged)
    groups = grouped(held.usages, by)
    return [{**group.facts, "currency": known.currency} for group in groups]


def _store(folder: str | Path | None) -> RunStore:
    return RunStore.of(None if folder is None else Path(folder))

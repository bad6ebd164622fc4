"""What is wrong with the inputs of a step that another step of the same file keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding
from fairway_core.suggestions import did_you_mean
from fairway_runner.jobs.job import Metric
from fairway_runner.jobs.steps import inputs_of_runs, step_run
from fairway_runner.runs.metrics import setting_of
from fairway_runner.submit.kept_input import WHICH_BETTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.steps import NamedStep


def unkept(step: NamedStep, whole: str, jobs: Mapping[str, Job]) -> Iterator[Finding]:
    """That another step keeps no such output, or that it is not clear which task's is meant; `jobs`
    are those of all steps, by their names."""
    runs = {step_run(whole, name): name for name in jobs}
    for name, value in inputs_of_runs(step.document):
        wanted = value.get("best", value)
        other = runs.get(str(wanted.get("run")))
        said = _wrong(name, value, other, jobs[other]) if other is not None else None
        if said is not None:
            location = step.document.location(("inputs", name))
            path = f"steps.{step.name}.inputs.{name}"
            yield Finding("bad-steps", *said, path, location=location)


def _wrong(name: str, value: Mapping[str, Any], other: str, job: Job) -> tuple[str, str] | None:
    """What is wrong with one, and what to do."""
    wanted = value.get("best", value)
    last = wanted.get("task") == "finally"
    outputs = (job.finally_.outputs if job.finally_ else {}) if last else job.outputs
    output = str(wanted.get("output") or name)
    if output not in outputs:
        hint = did_you_mean(output, outputs) or f"give it one: outputs: {{{output}: {{}}}}"
        return f"the step `{other}` keeps no output `{output}`", hint
    return _unmeasured(wanted, other, job) if "best" in value else None


def _unmeasured(best: Mapping[str, Any], other: str, job: Job) -> tuple[str, str] | None:
    """What keeps the best task of a step from being known."""
    metric = best.get("metric")
    if metric is not None and metric not in job.metrics:
        hint = did_you_mean(str(metric), job.metrics) or "give it one, under `metrics`"
        return f"the step `{other}` has no metric `{metric}`", hint
    if not job.metrics:
        return f"the step `{other}` has no metrics", "give it one, under `metrics`"
    if metric is None and len(job.metrics) > 1:
        hint = f"add metric: {' or '.join(job.metrics)}"
        return f"the step `{other}` has {len(job.metrics)} metrics", hint
    [name] = [metric] if metric is not None else job.metrics
    given = job.metrics[name]
    said = {"better": given.better} if isinstance(given, Metric) else None
    if best.get("better") is None and setting_of(name, said).lower is None:
        return f"it is not known whether lower or higher `{name}` is better", WHICH_BETTER
    return None

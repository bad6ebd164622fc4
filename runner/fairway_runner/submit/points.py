"""Steps whose tasks each wait for the task of an earlier step that has the same point."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_core.findings import Finding, UserError
from fairway_runner.engines.capabilities import capabilities, engines_with
from fairway_runner.jobs.steps import by_point, inputs_of_runs, step_run
from fairway_runner.submit.plan import EqualPoints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.jobs.steps import NamedStep
    from fairway_runner.submit.submission import Prepared

Point = dict[str, Any]


def equal_points(step: NamedStep, jobs: Mapping[str, JobFile], whole: str) -> EqualPoints:
    """Which task waits for which; `jobs` are those of all steps, by their names. UserError at its
    line where a task does not have exactly one."""
    names, tasks = {}, {}
    for other in by_point(step.after):
        points = [_points(step, other, name, jobs[name]) for name in (step.name, other)]
        try:
            numbers = _equals(*points)
        except _NoneEqualError as error:
            message = f"`{step.name}` cannot wait for `{other}` by equal point: {error}"
            raise UserError([_finding(step, other, message, error.hint)]) from None
        run = step_run(whole, other)
        names[run], tasks[run] = other, numbers
    return EqualPoints(names, tasks)


def refusals(
    step: NamedStep, found: Mapping[str, Prepared], whole: str, *, waits: bool
) -> Iterator[Finding]:
    """What keeps the tasks of a step from waiting by equal point; `waits` is whether its target can
    wait for the steps before it."""
    target = found[step.name].plan.engine.target
    for other in by_point(step.after):
        instead = f"wait for the whole step: after: {other}"
        theirs = found[other].plan.engine.target
        if not capabilities(target.engine).begins_points:
            message = (
                f"`{target.name}` cannot start a task when that of its point has ended: its "
                f"engine is `{target.engine}`"
            )
            hint = f"{instead}; or use a target with {engines_with('begins_points')}"
        elif not found[step.name].plan.engine.waits_for(theirs):
            message = (
                f"`{step.name}` cannot wait for `{other}` by equal point: it runs on "
                f"`{target.name}`, which does not see the tasks of `{theirs.name}`"
            )
            hint = f"give both the same target, or {instead}"
        elif not waits:
            message = (
                f"`{step.name}` cannot wait by equal point: a command starts it, because it "
                "needs what its target cannot see"
            )
            hint = f"add the step to its `after`, or {instead}"
        elif _in_turn(found[step.name]) and not capabilities(target.engine).points_in_turn:
            message = (
                f"`{target.name}` has no `max_parallel` for tasks that wait by equal point: "
                "a waiting task would keep others from starting"
            )
            hint = f"leave it out (-s steps.{step.name}.sweep.max_parallel=null), or {instead}"
        else:
            yield from _about_inputs(step, other, whole)
            continue
        yield _finding(step, other, message, hint)


def too_many(
    step: NamedStep, found: Mapping[str, Prepared], points: EqualPoints
) -> Iterator[Finding]:
    """That its tasks wait for more different ones of others than its target takes: those that wait
    for the same are a job of their own there."""
    target = found[step.name].plan.engine.target
    most = capabilities(target.engine).most_points
    count = len(set(zip(*points.tasks.values(), strict=True)))
    if most and count > most:
        other = next(iter(by_point(step.after)))
        message = (
            f"`{step.name}` cannot wait for {count:,} tasks by equal point: `{target.name}` takes "
            f"{most:,}, each as a job of its own"
        )
        hint = f"give `{other}` fewer points, or wait for the whole step: after: {other}"
        yield _finding(step, other, message, hint)


def _in_turn(prepared: Prepared) -> bool:
    """Whether no more than some tasks of a step run at a time."""
    sweep = prepared.job.sweep
    return sweep is not None and sweep.max_parallel is not None


def _about_inputs(step: NamedStep, other: str, whole: str) -> Iterator[Finding]:
    """What is wrong with inputs of the step whose tasks are awaited: each is its equal task's."""
    for name, value in inputs_of_runs(step.document):
        if value.get("best", value).get("run") != step_run(whole, other):
            continue
        if "best" in value or value.get("task") is not None:
            message = f"the input `{name}` must be that of its equal task of `{other}`"
            hint = f"write {name}: {{from: step, step: {other}}}, or wait for the whole step: "
            hint += f"after: {other}"
            location = step.document.location(("inputs", name))
            path = f"steps.{step.name}.inputs.{name}"
            yield Finding("bad-steps", message, hint, path, location=location)


class _NoneEqualError(Exception):
    """Why tasks have no equal ones, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _points(step: NamedStep, other: str, name: str, job: JobFile) -> list[Point]:
    sweep = job.sweep()
    if sweep is None:
        message = f"`{step.name}` waits for `{other}` by equal point, and `{name}` has no sweep"
        hint = f"give `{name}` a sweep of the same parameters, or write after: {other}"
        raise UserError([_finding(step, other, message, hint)])
    return list(sweep.points())


def _equals(own: Sequence[Point], earlier: Sequence[Point]) -> list[int]:
    """For each own point the number of the one that has equal values of all that it names."""
    known: dict[tuple[str, ...], dict[str, int]] = {}
    for number, point in enumerate(earlier):
        names = tuple(sorted(point))
        same = known.setdefault(names, {})
        first = same.setdefault(_key(point, names), number)
        if first != number:
            message = f"its tasks {first} and {number} have the same point, {_shown(point)}"
            raise _NoneEqualError(message, "leave one of the two out, or make them differ")
    numbers = []
    for index, point in enumerate(own):
        matching = [
            same[key]
            for names, same in known.items()
            if set(names) <= set(point) and (key := _key(point, names)) in same
        ]
        if len(matching) == 1:
            numbers.append(matching[0])
        elif matching:
            first, second, *_ = sorted(matching)
            message = f"its tasks {first} and {second} both equal task {index}, {_shown(point)}"
            raise _NoneEqualError(message, "let all points of that step set the same parameters")
        else:
            raise _no_equal(index, point, known)
    return numbers


def _no_equal(index: int, point: Point, known: Mapping[tuple[str, ...], object]) -> _NoneEqualError:
    foreign = sorted({each for names in known for each in names} - set(point))
    if foreign and not any(set(names) <= set(point) for names in known):
        listed = ", ".join(f"`{each}`" for each in foreign)
        message = f"its points have {listed}, and task {index} does not"
        return _NoneEqualError(message, "set these in the points of both, or of neither")
    message = f"none of its points equals that of task {index}, {_shown(point)}"
    return _NoneEqualError(message, "give both the same values; `fairway sweep` shows them")


def _key(point: Point, names: Sequence[str]) -> str:
    return json.dumps([_plain(point[name]) for name in names])


def _plain(value: Any) -> Any:
    """A value by which equal numbers are equal, however they are written."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())[:120] or "without a value"


def _finding(step: NamedStep, other: str, message: str, hint: str) -> Finding:
    location = step.document.location(("after", other), of_key=True)
    return Finding(
        "bad-steps", message, hint, f"steps.{step.name}.after.{other}", location=location
    )

"""Evaluation of Azure Batch's autoscale formulas over samples of a pool.

Implements the part of the language that formulas use in practice, as documented in "automatic
scaling formula for Batch": doubles, vectors, intervals and timestamps; assignment, arithmetic,
comparison, `&&`, `||`, `!`, `?:`; min, max, avg, sum, len, val and time(); GetSample and
GetSamplePercent. A sample covers 30 seconds and is available about a minute later.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fairway_simulator.batch.model import pool as model
    from fairway_simulator.batch.model.account import Account

PERIOD = timedelta(seconds=30)
DELAY = timedelta(seconds=60)

_TOKEN = re.compile(
    r"\s*(?:(?P<skip>//[^\n]*|/\*.*?\*/)|(?P<number>\d+(?:\.\d+)?)|(?P<text>\"[^\"]*\")"
    r"|(?P<name>\$?[A-Za-z_]\w*)|(?P<sign>&&|\|\||[<>=!]=|[-+*/<>=!?:;,.()]))",
    re.DOTALL,
)
_UNITS = {
    "Zero": timedelta(0),
    "Second": timedelta(seconds=1),
    "Minute": timedelta(minutes=1),
    "Hour": timedelta(hours=1),
    "Day": timedelta(days=1),
}
_OPTIONS = ("requeue", "terminate", "taskcompletion", "retaineddata")
_BINARY: list[dict[str, Callable[[Any, Any], Any]]] = [
    {"||": lambda a, b: float(bool(a) or bool(b))},
    {"&&": lambda a, b: float(bool(a) and bool(b))},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.truediv},
]
_WRITABLE = ("$TargetDedicatedNodes", "$TargetLowPriorityNodes", "$NodeDeallocationOption")
_REMEMBERED = timedelta(hours=4)
"""History of a simulated pool; all its samples are the current values."""


def evaluate(text: str, account: Account, pool: model.Pool, now: datetime) -> dict[str, int]:
    """Returns the target numbers of `dedicated` and `spot` nodes that a formula sets for a pool.
    Raises FormulaError if the formula is invalid."""
    jobs = [job for job in account.jobs.values() if job.pool_id.lower() == pool.key]
    active = sum(job.counts["active"] for job in jobs)
    running = sum(job.counts["running"] for job in jobs)
    preempted = sum(node.state == "preempted" for node in pool.nodes.values())
    counts = {"Active": active, "Running": running, "Pending": active + running}
    values = {f"${name}Tasks": float(count) for name, count in counts.items()}
    values["$PreemptedNodeCount"] = float(preempted)
    times = [now - PERIOD * back for back in range(_REMEMBERED // PERIOD)][::-1]
    seen = Pool(
        now=now,
        history={name: [(when, value) for when in times] for name, value in values.items()},
        dedicated=float(pool.target_dedicated),
        spot=float(pool.target_spot),
        delay=timedelta(0),
        current=(len(pool.members(dedicated=True)), len(pool.members(dedicated=False))),
        slots=pool.slots,
    )
    targets = seen.evaluate(text)
    return {kind: max(0, targets[kind]) for kind in ("dedicated", "spot")}


class FormulaError(Exception):
    """Error on which the service stops evaluating a formula, and leaves the pool unchanged."""


@dataclass
class Metric:
    """A variable with a history of (time, value), in order; used bare, it is its last value."""

    samples: Sequence[tuple[datetime, float]]
    now: datetime
    delay: timedelta = DELAY

    def known(self) -> list[tuple[datetime, float]]:
        return [one for one in self.samples if one[0] <= self.now - self.delay]

    def between(self, start: timedelta, end: timedelta | None) -> list[float]:
        """Returns the samples between two ages, given in any order."""
        oldest, newest = max(start, end or timedelta(0)), min(start, end or timedelta(0))
        limits = (self.now - oldest, self.now - newest)
        return [value for when, value in self.known() if limits[0] < when <= limits[1]]

    def call(self, method: str, arguments: list[Any]) -> Any:
        """Evaluates GetSample or GetSamplePercent."""
        if method == "GetSample" and arguments and isinstance(arguments[0], float):
            return [value for _, value in self.known()[-int(arguments[0]) :]]
        spans = [one for one in arguments if isinstance(one, timedelta)]
        if not spans or method not in ("GetSample", "GetSamplePercent"):
            raise FormulaError(f"{method}{arguments}")
        start, end = spans[0], spans[1] if len(spans) > 1 else None
        found = self.between(start, end)
        possible = abs(start - (end or timedelta(0))) / PERIOD
        percent = 100.0 * len(found) / possible
        if method == "GetSamplePercent":
            return percent
        wanted = [one for one in arguments if isinstance(one, float)]
        if wanted and percent < wanted[0]:
            raise FormulaError(f"{percent:.0f} % of the samples are there, not {wanted[0]}")
        return found


@dataclass
class Pool:
    """Values that a formula reads and sets; `weekday_of_sunday` is 0 or 7, as the documentation
    does not say which."""

    now: datetime
    history: Mapping[str, Sequence[tuple[datetime, float]]] = field(default_factory=dict)
    dedicated: float = 0.0
    spot: float = 0.0
    current: tuple[float, float] | None = None
    slots: int = 1
    delay: timedelta = DELAY
    weekday_of_sunday: int = 7
    eager: bool = False
    assigned: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, formula: str) -> dict[str, Any]:
        """Returns the targets and the option that the formula sets; fractions are truncated."""
        variables = self.assigned = _Evaluation(formula, self).run()
        return {
            "dedicated": int(variables.get("$TargetDedicatedNodes", self.dedicated)),
            "spot": int(variables.get("$TargetLowPriorityNodes", self.spot)),
            "option": variables.get("$NodeDeallocationOption"),
        }


class _Evaluation:
    """One pass over the text: each rule of the grammar is a method that parses and computes.

    With `live` False it parses without computing, as in a branch that is not taken.
    """

    def __init__(self, formula: str, pool: Pool) -> None:
        self._pool = pool
        self._tokens = _tokens(formula)
        self._at = 0
        self._variables: dict[str, Any] = {
            "$TargetDedicatedNodes": float(pool.dedicated),
            "$TargetLowPriorityNodes": float(pool.spot),
            **{name: name for name in _OPTIONS},
            **{f"TimeInterval_{name}": span for name, span in _UNITS.items()},
        }
        dedicated, spot = pool.current or (pool.dedicated, pool.spot)
        counts = {"$CurrentDedicatedNodes": float(dedicated)}
        counts |= {"$CurrentLowPriorityNodes": float(spot), "$TaskSlotsPerNode": float(pool.slots)}
        for name in ("$ActiveTasks", "$RunningTasks", "$PendingTasks", "$PreemptedNodeCount"):
            self._variables[name] = Metric(pool.history.get(name, ()), pool.now, pool.delay)
        self._variables.update(counts)

    def run(self) -> dict[str, Any]:
        assigned: dict[str, Any] = {}
        while self._peek():
            name = self._next()
            if name.startswith("$Current") or not re.match(r"\$?[A-Za-z_]", name):
                raise FormulaError(f"cannot assign to {name}")
            if name.startswith("$") and name[1].isupper() and name not in _WRITABLE:
                raise FormulaError(f"cannot assign to {name}")
            self._expect("=")
            assigned[name] = self._variables[name] = self._ternary(True)
            self._expect(";")
        return assigned

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise FormulaError(f"expected {sign} before {self._tokens[self._at - 1 :][:3]}")

    def _ternary(self, live: bool) -> Any:
        condition = self._binary(0, live)
        if self._peek() != "?":
            return condition
        self._next()
        both = live and self._pool.eager
        taken = live and bool(condition)
        first = self._ternary(taken or both)
        self._expect(":")
        second = self._ternary((live and not condition) or both)
        return first if taken else second

    def _binary(self, level: int, live: bool) -> Any:
        if level == len(_BINARY):
            return self._unary(live)
        value = self._binary(level + 1, live)
        while self._peek() in _BINARY[level]:
            operation = _BINARY[level][self._next()]
            other = self._binary(level + 1, live)
            if live:
                try:
                    value = operation(_bare(value), _bare(other))
                    value = float(value) if isinstance(value, bool | int) else value
                except (TypeError, ZeroDivisionError) as error:
                    raise FormulaError(str(error)) from None
        return value

    def _unary(self, live: bool) -> Any:
        if self._peek() in ("-", "!"):
            sign = self._next()
            value = _bare(self._unary(live))
            if not live:
                return None
            return -value if sign == "-" else float(not value)
        return self._member(self._primary(live), live)

    def _primary(self, live: bool) -> Any:
        word = self._next()
        if word == "(":
            value = self._ternary(live)
            self._expect(")")
            return value
        if word[:1].isdigit():
            return float(word)
        if self._peek() == "(":
            return self._function(word, self._arguments(live), live)
        if live and word not in self._variables:
            raise FormulaError(f"no such variable: {word}")
        return self._variables.get(word)

    def _member(self, value: Any, live: bool) -> Any:
        while self._peek() == ".":
            self._next()
            name = self._next()
            if self._peek() == "(":
                arguments = self._arguments(live)
                if live and not isinstance(value, Metric):
                    raise FormulaError(f"{name} of a value without samples")
                value = value.call(name, arguments) if live else None
            elif live:
                value = self._part_of_time(value, name)
        return value

    def _part_of_time(self, when: Any, name: str) -> float:
        if not isinstance(when, datetime):
            raise FormulaError(f"{name} of a value that is no time")
        if name == "weekday":
            day = when.isoweekday()
            return float(self._pool.weekday_of_sunday if day == 7 else day)
        if name not in ("year", "month", "day", "hour", "minute", "second"):
            raise FormulaError(f"a time has no {name}")
        return float(getattr(when, name))

    def _arguments(self, live: bool) -> list[Any]:
        self._expect("(")
        arguments = []
        while self._peek() != ")":
            arguments.append(self._ternary(live))
            if self._peek() == ",":
                self._next()
        self._expect(")")
        return arguments

    def _function(self, name: str, arguments: list[Any], live: bool) -> Any:
        if not live:
            return None
        if name == "time" and not arguments:
            return self._pool.now
        if name == "val":
            vector, index = arguments
            if not 0 <= int(index) < len(vector):
                raise FormulaError(f"no element {index:g} in {vector}")
            return vector[int(index)]
        numbers: list[float] = []
        for argument in arguments:
            numbers += argument if isinstance(argument, list) else [_bare(argument)]
        functions: dict[str, Callable[[list[float]], float]] = {
            "min": min,
            "max": max,
            "sum": sum,
            "len": lambda them: float(len(them)),
            "avg": lambda them: sum(them) / len(them),
        }
        if name not in functions:
            raise FormulaError(f"no such function: {name}")
        if not numbers and name != "len":
            raise FormulaError(f"{name} of nothing")
        return functions[name](numbers)


def _tokens(formula: str) -> list[str]:
    tokens, at = [], 0
    text = formula.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise FormulaError(f"cannot read {text[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup != "skip":
            tokens.append(match[match.lastgroup or 0])
    return tokens


def _bare(value: Any) -> Any:
    """Returns a value for arithmetic: the last known one of a metric."""
    if isinstance(value, Metric):
        known = value.known()
        if not known:
            raise FormulaError("no sample yet")
        return known[-1][1]
    return value

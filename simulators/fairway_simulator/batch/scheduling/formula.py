"""Autoscale formulas as far as a simulated pool can follow them.

Assignments of arithmetic over the current values of the service's variables: `min`, `max`,
`+ - * /`, comparisons, `? :`, numbers, `GetSample` and `GetSamplePercent` of a variable
(every sample is the current value, and none is missing), and the node deallocation options.
What else the service's language has is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_simulator.batch.model.account import Account
    from fairway_simulator.batch.model.pool import Pool

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>\$?[A-Za-z_][\w.]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/<>?:=(),;!]))"
)
_OPTIONS = {"requeue", "terminate", "taskcompletion", "retaineddata"}
_LEVELS: list[dict[str, Callable[[Any, Any], Any]]] = [
    {"||": lambda a, b: float(bool(a) or bool(b))},
    {"&&": lambda a, b: float(bool(a) and bool(b))},
    {"==": lambda a, b: float(a == b), "!=": lambda a, b: float(a != b)},
    {
        "<": lambda a, b: float(a < b),
        "<=": lambda a, b: float(a <= b),
        ">": lambda a, b: float(a > b),
        ">=": lambda a, b: float(a >= b),
    },
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: a / b},
]


class FormulaError(Exception):
    """A formula that cannot be evaluated."""


@dataclass(frozen=True)
class Result:
    """What a formula chose."""

    dedicated: int
    spot: int
    variables: dict[str, Any]

    def text(self) -> str:
        """As the service writes it: every variable with its value."""
        return ";".join(f"{name}={_number(value)}" for name, value in self.variables.items())


def evaluate(text: str, account: Account, pool: Pool) -> Result:
    """Evaluates a formula for a pool; FormulaError says what is not understood."""
    current: dict[str, Any] = {
        "$TargetDedicatedNodes": float(pool.target_dedicated),
        "$TargetLowPriorityNodes": float(pool.target_spot),
        "$NodeDeallocationOption": "requeue",
    }
    parser = _Parser(_tokens(text), current | _readable(account, pool))
    assigned = current | parser.statements()
    dedicated = max(0, round(assigned["$TargetDedicatedNodes"]))
    return Result(dedicated, max(0, round(assigned["$TargetLowPriorityNodes"])), assigned)


def _readable(account: Account, pool: Pool) -> dict[str, float]:
    jobs = [job for job in account.jobs.values() if job.pool_id.lower() == pool.key]
    active = sum(job.counts["active"] for job in jobs)
    running = sum(job.counts["running"] for job in jobs)
    preempted = sum(node.state == "preempted" for node in pool.nodes.values())
    return {
        "$ActiveTasks": float(active),
        "$RunningTasks": float(running),
        "$PendingTasks": float(active + running),
        "$CurrentDedicatedNodes": float(len(pool.members(dedicated=True))),
        "$CurrentLowPriorityNodes": float(len(pool.members(dedicated=False))),
        "$PreemptedNodeCount": float(preempted),
        "$TaskSlotsPerNode": float(pool.slots),
    }


def _tokens(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).rstrip()
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"not understood: {text[position : position + 20].strip()!r}")
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    return tokens


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]], variables: dict[str, Any]) -> None:
        self._tokens = tokens
        self._variables = variables
        self._position = 0

    def statements(self) -> dict[str, Any]:
        assigned: dict[str, Any] = {}
        while self._position < len(self._tokens):
            name = self._take("name")
            self._expect("=")
            value = self._conditional()
            assigned[name] = self._variables[name] = value
            if self._position < len(self._tokens):
                self._expect(";")
        return assigned

    def _conditional(self) -> Any:
        value = self._binary(0)
        if not self._accept("?"):
            return value
        yes = self._conditional()
        self._expect(":")
        no = self._conditional()
        return yes if value else no

    def _binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while (sign := self._peek()) in _LEVELS[level]:
            self._position += 1
            right = self._binary(level + 1)
            try:
                left = _LEVELS[level][str(sign)](left, right)
            except (TypeError, ZeroDivisionError) as error:
                raise FormulaError(str(error)) from None
        return left

    def _unary(self) -> Any:
        if self._accept("-"):
            return -self._unary()
        if self._accept("!"):
            return float(not self._unary())
        if self._accept("("):
            value = self._conditional()
            self._expect(")")
            return value
        kind, text = self._next()
        if kind == "number":
            return float(text)
        if kind != "name":
            raise FormulaError(f"not expected: {text}")
        return self._call(text) if self._accept("(") else self._value(text)

    def _value(self, name: str) -> Any:
        if name in self._variables:
            return self._variables[name]
        if name.lower() in _OPTIONS:
            return name.lower()
        if name.startswith("TimeInterval_"):
            return 1.0
        raise FormulaError(f"no such variable: {name}")

    def _call(self, name: str) -> Any:
        arguments = []
        while not self._accept(")"):
            arguments.append(self._conditional())
            self._accept(",")
        variable, _, method = name.rpartition(".")
        if method == "GetSamplePercent":
            return 100.0
        if method in {"GetSample", "GetSamples"} and variable:
            return self._value(variable)
        functions: dict[str, Callable[..., Any]] = {
            "min": min,
            "max": max,
            "avg": lambda *v: sum(v) / len(v),
            "round": round,
        }
        if name in functions and arguments:
            return float(functions[name](*arguments))
        raise FormulaError(f"no such function: {name}")

    def _peek(self) -> str | None:
        return self._tokens[self._position][1] if self._position < len(self._tokens) else None

    def _next(self) -> tuple[str, str]:
        if self._position >= len(self._tokens):
            raise FormulaError("it ends too early")
        self._position += 1
        return self._tokens[self._position - 1]

    def _take(self, kind: str) -> str:
        found, text = self._next()
        if found != kind:
            raise FormulaError(f"not expected: {text}")
        return text

    def _accept(self, sign: str) -> bool:
        if self._peek() == sign:
            self._position += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            raise FormulaError(f"{sign} expected, not {self._peek() or 'the end'}")

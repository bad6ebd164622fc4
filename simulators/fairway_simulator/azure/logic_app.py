"""Logic Apps: runs a workflow's definition to its end.

Knows the kinds of actions and expressions that are listed here, and refuses any other. Sources:
Azure documentation, "Schema reference guide for the Workflow Definition Language", "Add loops to
repeat actions in workflows" and "Handle errors and exceptions in Azure Logic Apps".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EQUALS = re.compile(r"@equals\(variables\('(\w+)'\), true\)")
_NOT = re.compile(r"@not\(variables\('(\w+)'\)\)")
# Statuses that a Logic App retries by default; 409 is not among them.
_REPEATED = frozenset({408, 429, *range(500, 600)})
_RETRIES = 4


class _Ended(Exception):
    """A Terminate action: the run ends with this status."""


@dataclass
class LogicApp:
    """One workflow. `send` makes an Http action's request, follows it, and returns its status.

    >>> LogicApp({"actions": {}}, send=lambda inputs: 200).run()
    'Succeeded'
    """

    definition: Mapping[str, Any]
    send: Callable[[Mapping[str, Any]], int]
    minutes: int = 0
    variables: dict[str, Any] = field(default_factory=dict)

    def run(self) -> str:
        """Runs the workflow and returns its last status; adds its pauses to `minutes`."""
        try:
            return self._all(self.definition["actions"])
        except _Ended as end:
            return str(end)

    def _all(self, actions: Mapping[str, Any]) -> str:
        """Runs actions in the order of their `runAfter`. They have failed if the last of a chain
        has, or one whose failure no other action waits for."""
        states: dict[str, str] = {}
        while left := [name for name in actions if name not in states]:
            ready = [n for n in left if set(actions[n].get("runAfter", {})) <= states.keys()]
            assert ready, f"a circle of runAfter: {left}"
            name = ready[0]
            after = actions[name].get("runAfter", {})
            goes = all(states[before] in wanted for before, wanted in after.items())
            states[name] = self._one(actions[name]) if goes else "Skipped"
        handled = {
            before
            for name, action in actions.items()
            for before in action.get("runAfter", {})
            if states[name] == "Succeeded"
        }
        failed = {n for n, state in states.items() if state in ("Failed", "TimedOut")}
        return "Failed" if failed - handled else "Succeeded"

    def _one(self, action: Mapping[str, Any]) -> str:
        inputs = action.get("inputs") or {}
        match action["type"]:
            case "InitializeVariable":
                self.variables |= {each["name"]: each["value"] for each in inputs["variables"]}
            case "SetVariable":
                assert inputs["name"] in self.variables, "not initialized"
                self.variables[inputs["name"]] = inputs["value"]
            case "Wait":
                assert inputs["interval"]["unit"] == "Minute"
                self.minutes += inputs["interval"]["count"]
            case "Http":
                status = self.send(inputs)
                for _ in range(_RETRIES):
                    status = self.send(inputs) if status in _REPEATED else status
                return "Succeeded" if status < 400 else "Failed"
            case "Until":
                return self._until(action)
            case "If":
                return (
                    self._all(action["actions"]) if self._is(action["expression"]) else "Succeeded"
                )
            case "Terminate":
                raise _Ended(inputs["runStatus"])
            case unknown:
                raise NotImplementedError(unknown)
        return "Succeeded"

    def _until(self, action: Mapping[str, Any]) -> str:
        """Runs a loop; its state is that of the last turn, even if the limit ended it."""
        state = "Succeeded"
        for _ in range(action["limit"]["count"]):
            state = self._all(action["actions"])
            if self._is(action["expression"]):
                break
        return state

    def _is(self, expression: str) -> bool:
        if match := _EQUALS.fullmatch(expression):
            return bool(self.variables[match[1]])
        if match := _NOT.fullmatch(expression):
            return not self.variables[match[1]]
        raise NotImplementedError(expression)

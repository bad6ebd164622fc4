"""Which objects a list means: by labels and by fields, in the language of requests and of specs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_simulator.kubernetes.api.errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fairway_simulator.kubernetes.api.store import Object

    Test = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\((.*)\)$")
_FIELDS = re.compile(r"^([\w.\-\[\]'/]+)(==|!=|=)(.*)$")


def by_labels(text: str) -> Test:
    """A selector of requests: `a=b,c!=d,e in (f,g),h,!i`."""
    tests = [_label_test(term.strip()) for term in _terms(text) if term.strip()]
    return lambda labels: all(test(labels) for test in tests)


def by_spec(selector: Mapping[str, Any] | None) -> Test:
    """A selector of specs: `matchLabels` and `matchExpressions`."""
    selector = selector or {}
    wanted = dict(selector.get("matchLabels") or {})
    tests = [_expression_test(each) for each in selector.get("matchExpressions") or ()]
    return lambda labels: (
        all(labels.get(name) == value for name, value in wanted.items())
        and all(test(labels) for test in tests)
    )


def by_fields(text: str) -> Callable[[Object], bool]:
    """A selector of fields: `status.phase=Running,spec.nodeName!=n1`."""
    wanted = []
    for term in filter(None, text.split(",")):
        match = _FIELDS.match(term.strip())
        if match is None:
            raise bad_request(f'unable to parse field selector "{text}"')
        wanted.append((match[1].split("."), match[2] != "!=", match[3]))
    return lambda found: all(
        (str(_field(found, path)) == value) is equal for path, equal, value in wanted
    )


def _field(found: Object, path: list[str]) -> Any:
    value: Any = found
    for name in path:
        value = value.get(name, "") if isinstance(value, dict) else ""
    return value


def _terms(text: str) -> list[str]:
    return re.split(r",(?![^(]*\))", text)


def _label_test(term: str) -> Test:
    if match := _SET.match(term):
        values = {each.strip() for each in match[3].split(",")}
        return _expression_test(
            {"key": match[1], "operator": "In" if match[2] == "in" else "NotIn", "values": values}
        )
    for sign in ("!=", "==", "="):
        if sign in term:
            name, _, value = (part.strip() for part in term.partition(sign))
            equal = sign != "!="
            return lambda labels: (labels.get(name) == value) is equal
    if term.startswith("!"):
        return lambda labels: term[1:].strip() not in labels
    return lambda labels: term in labels


def _expression_test(expression: Mapping[str, Any]) -> Test:
    key, operator = expression["key"], expression["operator"]
    values = set(expression.get("values") or ())
    tests: dict[str, Test] = {
        "In": lambda labels: labels.get(key) in values,
        "NotIn": lambda labels: labels.get(key) not in values,
        "Exists": lambda labels: key in labels,
        "DoesNotExist": lambda labels: key not in labels,
        "Gt": lambda labels: key in labels and int(labels[key]) > int(min(values)),
        "Lt": lambda labels: key in labels and int(labels[key]) < int(min(values)),
    }
    if operator not in tests:
        raise bad_request(f'"{operator}" is not a valid label selector operator')
    return tests[operator]

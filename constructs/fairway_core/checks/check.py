"""A check: one rule about a file, its Terraform or a plan, and the places where it applies.

A rule is a pure function that yields violations. Its arguments are named after the parts of the
subject that it reads, see `Subject`, or are those that the function `select` yields for each place.
The decorator gives the rule an id and a severity. The first line of its docstring is its summary;
the docstring ends in two YAML fragments, one that violates the rule and one that does not.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, Severity

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from fairway_core.environment import Environment
    from fairway_core.yaml_text import DataPath


Match = tuple["DataPath", Mapping[str, Any]]
"""The path of a place where a rule applies, in the subject, and the rule's arguments."""


class Subject(StrEnum):
    """The subject of a check, with the arguments that its rule may take."""

    ENVIRONMENT = "environment"
    """`environment`, and `today`, the date that retirements are compared with."""
    TERRAFORM = "terraform"
    """`resources` and `outputs` of a synthesized stack, without nulls and comments, the name of the
    `stack` and its `subscription`, the names `taken` in stacks before it, and its `context`, the
    settings of the environment."""
    PLAN = "plan"
    """Its `changes`, changes of its `outputs` by name, changes in the plans of `others`, and the
    ids of the environment's `own` identities."""
    JOB = "job"
    """The `job` as plain data, without defaults, and its `target`."""


@dataclass(frozen=True)
class Violation:
    """A violation that a rule has found: `path` leads from the rule's place to the wrong value, and
    `within` is the relevant part of its text."""

    message: str
    hint: str
    path: DataPath = ()
    within: str = ""


@dataclass(frozen=True)
class Explanation:
    """The parts of a rule's docstring; `wrong` and `right` are YAML. Resources, or their changes in
    a plan, are keyed by address there."""

    text: str
    wrong: str
    right: str


_HEADINGS = re.compile(r"^(Wrong|Right):\n", re.MULTILINE)

Rule = TypeVar("Rule", bound=Callable[..., Iterator[Violation]])


@dataclass(frozen=True)
class Check:
    """A rule with its id and severity, which applies once, or at the places that `select`
    yields."""

    id: str
    severity: Severity
    subject: Subject
    rule: Callable[..., Iterator[Violation]]
    select: Callable[..., Iterator[Match]] | None = None

    @property
    def summary(self) -> str:
        """The first line of the rule's docstring."""
        return (self.rule.__doc__ or "").partition("\n")[0]

    @property
    def explanation(self) -> Explanation:
        """The parts of the rule's docstring. Raises ValueError if an example is missing."""
        parts = _HEADINGS.split(inspect.getdoc(self.rule) or "")
        if parts[1::2] != ["Wrong", "Right"]:
            raise ValueError(f"{self.id}: its docstring must end in `Wrong:` and `Right:`")
        text, wrong, right = parts[::2]
        examples = (inspect.cleandoc(f"\n{each}").strip() for each in (wrong, right))
        return Explanation(text.strip(), *examples)

    def findings(self, parts: Mapping[str, Any]) -> Iterator[tuple[DataPath, str, Finding]]:
        """Yields the rule's findings at all places, each with its path in the subject and the
        relevant part of the text there."""
        given = {name: parts[name] for name in parameters(self.select or self.rule)}
        for start, arguments in self.select(**given) if self.select else [((), given)]:
            for violation in self.rule(**arguments):
                path = (*start, *violation.path)
                dotted = ".".join(str(step) for step in path)
                yield (
                    path,
                    violation.within,
                    Finding(self.id, violation.message, violation.hint, dotted, self.severity),
                )


@cache
def parameters(rule: Callable[..., object]) -> tuple[str, ...]:
    """Returns the parts of a subject that a rule takes. Cached, as it is called for each stack."""
    return tuple(inspect.signature(rule).parameters)


REGISTERED: dict[str, Check] = {}
"""All checks by id, in the order of imports; see `all_checks`."""


def check(
    id: str,  # noqa: A002
    severity: Severity,
    subject: Subject,
    select: Callable[..., Iterator[Match]] | None = None,
) -> Callable[[Rule], Rule]:
    """Registers a rule as a check. Raises ValueError if the id is taken."""

    def register(rule: Rule) -> Rule:
        if id in REGISTERED:
            raise ValueError(f"two checks are called {id}")
        REGISTERED[id] = Check(id, severity, subject, rule, select)
        return rule

    return register


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """Settings of the environment file that decide what its Terraform may contain.
    `public_accounts` are the names of storage accounts that may be open to every network. With
    `zoneless` the file says explicitly that nothing is in a zone."""

    protect: bool = True
    allowed: tuple[IPv4Network, ...] = ()
    bastion: bool = False
    private_endpoints: bool = True
    public_accounts: tuple[str, ...] = ()
    zoneless: bool = False

    @classmethod
    def from_environment(cls, environment: Environment) -> CheckContext:
        """Returns the settings of an environment."""
        # Imported here: a review of plans needs no environment, and must start quickly.
        from fairway_core.environment.state import AzurermState

        access, state = environment.access, environment.state
        public: tuple[str, ...] = ()
        if isinstance(state, AzurermState) and state.public_access:
            public = (state.storage_account,)
        return cls(
            protect=environment.protect,
            allowed=access.allowed,
            bastion=access.bastion,
            private_endpoints=environment.network.private_endpoints,
            public_accounts=public,
            zoneless=environment.zone_number is None,
        )

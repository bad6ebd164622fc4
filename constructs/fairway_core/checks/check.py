"""A check: one rule about what was asked for or what would be deployed, and where it applies.

A rule is a pure function that yields faults. It names as its arguments the parts of what is
checked that it looks at, see `Subject`; or those that a function takes out of these, wherever the
rule applies. The decorator beside it gives it an id and a severity. A rule's docstring says in its
first line what it looks at, and ends in two fragments of YAML, one that trips it and one that does
not.
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


Occurrence = tuple["DataPath", Mapping[str, Any]]
"""A place where a rule applies, from the root of what is checked, and the rule's arguments."""


class Subject(StrEnum):
    """The subject of a check, with the arguments that its rule may have."""

    ENVIRONMENT = "environment"
    """`environment`, and `today`, the date against which retirements are set."""
    TERRAFORM = "terraform"
    """`resources` and `outputs` of a synthesized stack, without nulls and comments, and what was
    `asked` for."""
    PLAN = "plan"
    """Its `changes`, those of its `outputs` by their names, those in the plans of `others`, and the
    ids of the environment's `own` identities."""
    JOB = "job"
    """The `job` as plain data, with no more than its file says, and its `target`."""


@dataclass(frozen=True)
class Fault:
    """A fault that a rule has found: `path` leads from where the rule applies to what is wrong,
    and `within` is the part of a text there that is meant."""

    message: str
    hint: str
    path: DataPath = ()
    within: str = ""


@dataclass(frozen=True)
class Explanation:
    """A rule's docstring taken apart; `wrong` and `right` are YAML. Resources, and their changes in
    a plan, stand under their addresses there."""

    text: str
    wrong: str
    right: str


_HEADINGS = re.compile(r"^(Wrong|Right):\n", re.MULTILINE)

Rule = TypeVar("Rule", bound=Callable[..., Iterator[Fault]])


@dataclass(frozen=True)
class Check:
    """A rule with its id, its severity, and where it applies: once, or `at` several places."""

    id: str
    severity: Severity
    subject: Subject
    rule: Callable[..., Iterator[Fault]]
    at: Callable[..., Iterator[Occurrence]] | None = None

    @property
    def summary(self) -> str:
        """The subject of the check: the first line of the rule's docstring."""
        return (self.rule.__doc__ or "").partition("\n")[0]

    @property
    def explanation(self) -> Explanation:
        """The rule's docstring; ValueError where it lacks an example."""
        parts = _HEADINGS.split(inspect.getdoc(self.rule) or "")
        if parts[1::2] != ["Wrong", "Right"]:
            raise ValueError(f"{self.id}: its docstring must end in `Wrong:` and `Right:`")
        text, wrong, right = parts[::2]
        examples = (inspect.cleandoc(f"\n{each}").strip() for each in (wrong, right))
        return Explanation(text.strip(), *examples)

    def findings(self, parts: Mapping[str, Any]) -> Iterator[tuple[DataPath, str, Finding]]:
        """Yields the rule's findings wherever it applies, each with its path in the subject and the
        part of the text there that is meant."""
        given = {name: parts[name] for name in _parameters(self.at or self.rule)}
        for start, arguments in self.at(**given) if self.at else [((), given)]:
            for fault in self.rule(**arguments):
                path = (*start, *fault.path)
                dotted = ".".join(str(step) for step in path)
                yield (
                    path,
                    fault.within,
                    Finding(self.id, fault.message, fault.hint, dotted, self.severity),
                )


@cache
def _parameters(rule: Callable[..., object]) -> tuple[str, ...]:
    """The parts of a subject that a rule takes: asked for each of an environment's stacks."""
    return tuple(inspect.signature(rule).parameters)


REGISTERED: dict[str, Check] = {}
"""Every check by its id, in the order in which they are read; see `all_checks`."""


def check(
    id: str,  # noqa: A002
    severity: Severity,
    subject: Subject,
    at: Callable[..., Iterator[Occurrence]] | None = None,
) -> Callable[[Rule], Rule]:
    """Makes a rule a check; ValueError where another has its id.

    >>> @check("no-owner", Severity.WARNING, Subject.ENVIRONMENT)  # doctest: +SKIP
    ... def no_owner(environment: Environment) -> Iterator[Fault]: ...
    """

    def register(rule: Rule) -> Rule:
        if id in REGISTERED:
            raise ValueError(f"two checks are called {id}")
        REGISTERED[id] = Check(id, severity, subject, rule, at)
        return rule

    return register


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Settings of the environment file that decide what Terraform may hold.

    `public_accounts` are the names of storage accounts that may answer to every network. With
    `zoneless` it is said that nothing is put into a zone, and not merely left open.
    """

    protect: bool = True
    allowed: tuple[IPv4Network, ...] = ()
    bastion: bool = False
    private_endpoints: bool = True
    public_accounts: tuple[str, ...] = ()
    zoneless: bool = False

    @classmethod
    def by(cls, environment: Environment) -> Asked:
        """Settings that an environment asks for."""
        # Imported here: a review of plans needs no environment, and is to start at once.
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

"""Names of all Azure resources, by one rule and within Azure's limits.

By default a name is the environment's name, the abbreviation of Azure's Cloud Adoption Framework
and the resource's own part: `h100-vnet`, `h100-snet-compute`, `h100-vmss-nd`. Another `Naming` has
a pattern or a function instead. Names that must be unique in all of Azure end with a suffix, see
`unique_suffix`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fairway_core.catalog.tables import look_up, table
from fairway_core.findings import UserError, counted
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROLE_TAG, NAME_TAG = "fairway-role", "fairway-name"
"""Tags by which rules and diagrams know a resource's purpose, wherever it is defined."""

OWN_TAGS = ("environment", "managed-by")
"""Tags that Fairway puts on every resource, by which its environment and creator can be found."""

SLURM_TAG = "fairway-slurm"
"""The tag of a scheduler with its version of Slurm, by which rules detect a new version."""

# Digits of the hash that makes a name unique: 16^8 values are enough for all who share a name.
SUFFIX_LENGTH = 8


@dataclass(frozen=True)
class NameRule:
    """Azure's rule for the names of one kind of resource; lengths in characters. `signs` are
    allowed between letters and digits: with `lower` no capitals, with `single` not two signs in a
    row. `room` is the length reserved for the resource's own part."""

    abbreviation: str
    shortest: int
    longest: int
    signs: str
    single: bool = False
    lower: bool = False
    unique: bool = False
    room: int = 24

    def accepts(self, name: str) -> bool:
        """Returns True if Azure accepts all characters of the name."""
        one = "[a-z0-9]" if self.lower else "[A-Za-z0-9]"
        pattern = f"{one}+"
        if self.signs:
            pattern += f"([{re.escape(self.signs)}]{'' if self.single else '+'}{one}+)*"
        return re.fullmatch(pattern, name) is not None

    @property
    def takes(self) -> str:
        """A description of the allowed characters."""
        letters = "lower-case letters" if self.lower else "letters"
        between = [_SIGNS[sign] for sign in self.signs]
        each = "single " if self.single else ""
        return f"{letters} and digits" + (
            f", and {each}{' and '.join(between)} in between" if between else ""
        )

    def fit(self, name: str) -> str:
        """Returns the name with hyphens for disallowed signs, and without disallowed capitals."""
        for sign in _SIGNS:
            if sign not in self.signs:
                name = name.replace(sign, self.signs[:1])
        return name.lower() if self.lower else name


_SIGNS = {"-": "hyphens", "_": "underscores", ".": "periods"}
DEFAULT_PATTERN = "{environment}-{type}-{name}"
TOKENS = ("type", "environment", "name", "region")
# Without one of these, two resources, or resources of two environments, would share a name.
_NEEDED = ("type", "environment", "name")
_TOKEN = re.compile(r"\{([^{}]*)\}")
_PARTS = re.compile(r"([._-]?)([^._-]*)")
_LITERAL = re.compile(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class NameParts:
    """The parts of a resource's name: its kind (Terraform's type without `azurerm_`) and the kind's
    abbreviation, the environment, the region, and its own name. `default` is the name by Fairway's
    own rule. A `unique` name is unique in all of Azure, and a suffix of eight characters follows.

    >>> NameParts("subnet", "snet", "h100", "westeurope", "compute", unique=False).default
    'h100-snet-compute'
    """

    kind: str
    type: str
    environment: str
    region: str
    name: str
    unique: bool

    @property
    def default(self) -> str:
        """The name by Fairway's own rule."""
        return self.fill(DEFAULT_PATTERN)

    def fill(self, pattern: str) -> str:
        """Fills a pattern with these parts, in characters that the kind allows; a sign next to an
        empty part is dropped.

        >>> NameParts("virtual_network", "vnet", "h100", "westeurope", "", unique=False).fill(
        ...     "{type}_{name}_Corp.{environment}")
        'vnet_Corp.h100'
        """
        name, values = "", {token: getattr(self, token) for token in TOKENS}
        for sign, part in _PARTS.findall(pattern):
            if word := _TOKEN.sub(lambda m: look_up(m[1], values, "token"), part):
                name += sign + word if name else word
        return look_up(self.kind, _rules(), "resource-kind").fit(name)


@dataclass(frozen=True)
class Naming:
    """Names of resources: by a pattern, with a second one for names that must be unique in all of
    Azure, or by a function.

    >>> Naming("{type}-{region}-{environment}-{name}").name("subnet", "a", "b", region="westeurope")
    'snet-westeurope-a-b'
    """

    pattern: str = DEFAULT_PATTERN
    unique: str = DEFAULT_PATTERN
    function: Callable[[NameParts], str] | None = None

    def name(
        self, kind: str, environment: str, *parts: str, region: str = "", suffix: str = ""
    ) -> str:
        """Returns the name of a resource of that kind (Terraform's type without `azurerm_`).

        `suffix` is the Terraform expression of `unique_suffix`, required for kinds with unique
        names; it counts as the SUFFIX_LENGTH characters that it will have.

        Raises UserError `name-too-long` if the parts do not fit, `bad-name` if Azure does not
        accept the characters."""
        rule = look_up(kind, _rules(), "resource-kind")
        if rule.unique and not suffix:
            raise ValueError(f"the name of a {kind} is taken in all of Azure: it needs a suffix")
        own = "-".join(filter(None, parts))
        of = NameParts(kind, rule.abbreviation, environment, region, own, unique=rule.unique)
        pattern = self.unique if rule.unique else self.pattern
        name = self.function(of) if self.function else of.fill(pattern)
        check_name(kind, name, SUFFIX_LENGTH if suffix else 0)
        return name + suffix

    def faults(self, environment: str, region: str) -> Iterator[tuple[str, str, str]]:
        """Yields the patterns that leave too little room for names that an environment may have:
        the pattern's field, a message and a hint."""
        for kind, rule in _rules().items():
            pattern = self.unique if rule.unique else self.pattern
            name = "x" * rule.room
            of = NameParts(kind, rule.abbreviation, environment, region, name, unique=rule.unique)
            length = len(of.fill(pattern)) + (SUFFIX_LENGTH if rule.unique else 0)
            if length > rule.longest:
                noun = kind.replace("_", " ")
                room = f"{rule.room} for its own part" if name else "the digits at its end"
                without = ", or leave `{region}` out" if "{region}" in pattern else ""
                yield (
                    "unique" if rule.unique else "pattern",
                    f"`{pattern}` makes a name of {length} characters for a {noun}, with {room}",
                    f"Azure takes {rule.longest}: shorten it{without}",
                )


# Longer than any pattern whose names Azure accepts.
_LONGEST_PATTERN = 200


def check_pattern(pattern: str) -> None:
    """Raises UserError for a pattern that makes invalid names, or one name for two resources.

    >>> check_pattern("{type}-{environment}")
    Traceback (most recent call last):
    ...
    fairway_core.findings.UserError: `{type}-{environment}` gives resources one name...
    """
    if len(pattern) > _LONGEST_PATTERN:
        message = f"a pattern of {len(pattern):,} characters makes names that Azure does not take"
        raise UserError.of("bad-pattern", message, f"at most {_LONGEST_PATTERN} characters")
    used = _TOKEN.findall(pattern)
    for token in used:
        if token not in TOKENS:
            message = f"`{pattern}` has an unknown `{{{token}}}`"
            raise UserError.of("bad-pattern", message, did_you_mean(token, TOKENS))
    if pattern and not _LITERAL.fullmatch(_TOKEN.sub("x", pattern)):
        message = f"`{pattern}` makes names that Azure does not take"
        hint = (
            "letters, digits, hyphens, underscores and periods around tokens such as {name}; "
            "first a letter, last a letter or digit"
        )
        raise UserError.of("bad-pattern", message, hint)
    missing = [f"{{{token}}}" for token in _NEEDED if token not in used]
    if missing:
        of = "of several environments " if missing == ["{environment}"] else ""
        message = f"`{pattern}` gives resources {of}one name"
        raise UserError.of("bad-pattern", message, f"add {' and '.join(missing)}")


def check_name(kind: str, name: str, suffix_length: int = 0) -> None:
    """Raises UserError if Azure would refuse a name, with a suffix of that many characters."""
    rule, noun = look_up(kind, _rules(), "resource-kind"), kind.replace("_", " ")
    length = len(name) + suffix_length
    if not rule.shortest <= length <= rule.longest:
        raise UserError.of(
            "name-too-long" if length > rule.longest else "name-too-short",
            f"the name `{name}` of a {noun} has {counted(length, 'character')}",
            f"Azure takes {rule.shortest} to {rule.longest}: choose a "
            f"{'shorter' if length > rule.longest else 'longer'} one",
        )
    if not rule.accepts(name):
        message = f"`{name}` is not a valid name for a {noun}"
        raise UserError.of("bad-name", message, f"Azure takes {rule.takes}")


def name_rule(kind: str) -> NameRule | None:
    """Returns the rule for that kind of resource, or None if it has none."""
    return _rules().get(kind)


def unique_suffix(subscription_id: str, environment: str) -> str:
    """Returns a Terraform expression of SUFFIX_LENGTH stable characters, unique per subscription.

    Terraform computes it from the subscription's id, which is an expression too: two people may use
    the same environment name, and neither the id nor a random number has to be stored.

    >>> unique_suffix("local.subscription_id", "h100")
    '${substr(sha256(join("-", [local.subscription_id, "h100"])), 0, 8)}'
    """
    text = f'join("-", [{subscription_id}, "{environment}"])'
    return f"${{substr(sha256({text}), 0, {SUFFIX_LENGTH})}}"


@cache
def _rules() -> dict[str, NameRule]:
    return {kind: NameRule(**row) for kind, row in table("names")["names"]["kind"].items()}

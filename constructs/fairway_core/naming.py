"""The names of all Azure resources, by one rule and within Azure's limits.

A name is the environment's name, the abbreviation of Azure's Cloud Adoption Framework and
what tells the resource from its like: `h100-vnet`, `h100-snet-compute`, `h100-vmss-nd`.
Where a name is taken in all of Azure a suffix is put at the end, see `unique_suffix`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from fairway_core.catalog.tables import look_up, table
from fairway_core.findings import UserError

ROLE_TAG, NAME_TAG = "fairway-role", "fairway-name"
"""The tags by which rules and pictures know what a resource is for, wherever it stands."""

SLURM_TAG = "fairway-slurm"
"""The tag of a scheduler with its version of Slurm, by which rules know another one."""

# Of the hash that makes a name unique: 16^8 values are enough for all that share a name.
SUFFIX_LENGTH = 8

_STYLES = {
    "hyphens": re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"),
    "alphanumeric": re.compile(r"[a-z0-9]+"),
}


@dataclass(frozen=True)
class NameRule:
    """Azure's rule for the names of one kind of resource; lengths in characters."""

    abbreviation: str
    shortest: int
    longest: int
    style: str
    unique: bool = False


def resource_name(kind: str, environment: str, *parts: str, suffix: str = "") -> str:
    """The name of a resource of that kind (Terraform's type without `azurerm_`).

    `suffix` is the Terraform expression of `unique_suffix` where the kind needs one; it
    counts as the SUFFIX_LENGTH characters that it will have.

    Raises UserError `name-too-long` where the parts cannot fit, `bad-name` where Azure
    takes none of the characters.

    >>> resource_name("subnet", "h100", "compute")
    'h100-snet-compute'
    >>> resource_name("storage_account", "h100", suffix="${suffix}")
    'h100st${suffix}'
    """
    rule = look_up(kind, _rules(), "resource-kind")
    if rule.unique and not suffix:
        raise ValueError(f"the name of a {kind} is taken in all of Azure: it needs a suffix")
    words = [environment, rule.abbreviation, *parts]
    if rule.style == "alphanumeric":
        name = "".join(words).replace("-", "")
    else:
        name = "-".join(word for word in words if word)
    _check(kind, rule, name, SUFFIX_LENGTH if suffix else 0)
    return name + suffix


def check_name(kind: str, name: str) -> None:
    """Raises UserError where Azure would refuse the whole name, which someone chose."""
    _check(kind, look_up(kind, _rules(), "resource-kind"), name, 0)


def name_rule(kind: str) -> NameRule | None:
    """The rule for that kind of resource, or None where it has none.

    >>> name_rule("storage_account").longest
    24
    """
    return _rules().get(kind)


def unique_suffix(subscription_id: str, environment: str) -> str:
    """A Terraform expression of SUFFIX_LENGTH characters, stable and different for everyone.

    Terraform computes it from the subscription's id, which is an expression too: two people
    may use the same environment name, and neither the id nor a random number is to be kept.

    >>> unique_suffix("local.subscription_id", "h100")
    '${substr(sha256(join("-", [local.subscription_id, "h100"])), 0, 8)}'
    """
    text = f'join("-", [{subscription_id}, "{environment}"])'
    return f"${{substr(sha256({text}), 0, {SUFFIX_LENGTH})}}"


def _check(kind: str, rule: NameRule, name: str, suffix_length: int) -> None:
    noun = kind.replace("_", " ")
    length = len(name) + suffix_length
    if not rule.shortest <= length <= rule.longest:
        raise UserError.of(
            "name-too-long" if length > rule.longest else "name-too-short",
            f"the name `{name}` of a {noun} has {length} characters",
            f"Azure takes {rule.shortest} to {rule.longest}: choose another `name:`",
        )
    if not _STYLES[rule.style].fullmatch(name):
        allowed = "lower-case letters and digits"
        if rule.style == "hyphens":
            allowed += ", and hyphens in between"
        raise UserError.of(
            "bad-name", f"`{name}` is not a valid name for a {noun}", f"Azure takes {allowed}"
        )


@cache
def _rules() -> dict[str, NameRule]:
    return {kind: NameRule(**row) for kind, row in table("names")["names"]["kind"].items()}

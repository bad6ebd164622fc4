"""Tags of an environment's resources, and the patterns of their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from fairway_core.catalog import limit
from fairway_core.documents import Check, FieldError, Model
from fairway_core.naming import DEFAULT_PATTERN, NAME_TAG, OWN_TAGS, ROLE_TAG, check_pattern

_FORBIDDEN = frozenset("<>%&\\?/")
# Azure DNS accepts no tag name with a space or another special character, nor one that begins with
# a digit: private zones drop such a tag, and each plan adds it again. Source: Azure documentation,
# use tags to organize your Azure resources, limitations.
_DNS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
# Machines and what holds data also have these two, see `AzureScope.labelled`.
_ALL_OURS = (*OWN_TAGS, ROLE_TAG, NAME_TAG)
_RESERVED = ("microsoft", "azure", "windows")


def require_valid_tags(tags: Mapping[str, str]) -> None:
    """Raises FieldError for a tag that Azure would refuse."""
    seen: dict[str, str] = {}
    for name, value in tags.items():
        _check_name(name)
        folded = name.lower()
        if folded in seen:
            raise FieldError(
                f"Azure treats `{name}` and `{seen[folded]}` as one tag", "keep one", (name,)
            )
        seen[folded] = name
        most = limit("tag_value_characters")
        if len(value) > most:
            message = f"the value of `{name}` has {len(value)} characters"
            raise FieldError(message, f"Azure allows up to {most}", (name,))


def require_own_tags(tags: Iterable[str]) -> None:
    """Raises FieldError for a tag that Fairway sets."""
    for name in tags:
        if name.lower() in OWN_TAGS:
            raise FieldError(f"Fairway sets the tag `{name.lower()}` itself", "remove it", (name,))


def _check_name(name: str) -> None:
    most = limit("tag_name_characters")
    if not name.strip():
        raise FieldError("a tag without a name", "name it, for example `owner`", (name,))
    if len(name) > most:
        # The name may be of any length: only its beginning is shown.
        raise FieldError(
            f"the name `{name[:40]}…` has {len(name)} characters", f"Azure allows up to {most}", ()
        )
    if wrong := sorted(_FORBIDDEN & set(name)):
        message = f"Azure does not allow `{' '.join(wrong)}` in the name of a tag"
        raise FieldError(message, "leave it out, or use a `-`", (name,))
    if any(character < " " for character in name):
        raise FieldError("a control character in the name of a tag", "leave it out", (name,))
    if name.lower().startswith(_RESERVED):
        raise FieldError(
            f"`{name}` begins like Azure's own tags",
            f"it must not begin with {', '.join(_RESERVED)}",
            (name,),
        )


def check_number(tags: Mapping[str, str], *, of_zone: bool, ours: bool = False) -> None:
    """Raises FieldError if a resource, or a private DNS zone, which takes fewer and restricts their
    names, does not take all of these tags; with `ours` it has Fairway's own beside them."""
    own: tuple[str, ...] = _ALL_OURS if ours else ()
    most, where = limit("tags_of_resource"), "a resource"
    if of_zone:
        most, where = limit("tags_of_private_dns_zone"), "the DNS zone of a private endpoint"
        own = OWN_TAGS if ours else ()
    if len(tags) + len(own) > most:
        more = f" and {len(own)} of Fairway's own" if ours else ""
        raise FieldError(
            f"{len(tags)} tags{more} are too many for {where}",
            f"Azure allows {most} there: keep {most - len(own)}",
            ("tags",),
        )
    for name in tags if of_zone else ():
        if not _DNS_NAME.fullmatch(name):
            raise FieldError(
                f"the DNS zones of private endpoints do not keep the tag `{name}`",
                "begin with a letter and use letters, digits, `-`, `_` and `.`; or see "
                "`network.dns.zones` for zones that are not the environment's",
                ("tags", name),
            )


Tags = Annotated[dict[str, str], Check(require_own_tags), Check(require_valid_tags)]
TagArgument = Annotated[Mapping[str, str], Check(require_own_tags), Check(require_valid_tags)]


NamePattern = Annotated[str, Check(check_pattern)]


class NamePatterns(Model):
    """Patterns of the names of Azure resources. Their tokens are `{type}`, the abbreviation of
    Azure's Cloud Adoption Framework, `{environment}`, `{name}`, which tells a resource from its
    like, and `{region}`, with letters, digits, hyphens, underscores and periods around them. Where
    a type takes no capitals a name has none, and a hyphen in place of a sign that it does not take.
    """

    pattern: NamePattern = DEFAULT_PATTERN
    """Names of resources, for example `"{type}-{environment}-{region}-{name}"`. Where a resource
    has no name of its own, or a type no abbreviation, a hyphen goes with it."""
    unique: NamePattern = DEFAULT_PATTERN
    """Names that are taken in all of Azure: storage accounts, vaults, registries, Batch accounts
    and roles. Most have 24 characters, the last 8 of them from the subscription's id; storage and
    Batch accounts and registries have no hyphens."""

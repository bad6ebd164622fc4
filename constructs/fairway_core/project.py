"""The file `fairway.yaml` of a project: its default environment, and targets written by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag, field_validator

from fairway_core.documents import FieldError, Later, Model, matching, rule
from fairway_core.light_fields import DEAREST
from fairway_core.resource_ids import GUID
from fairway_core.target import Target

if TYPE_CHECKING:
    from fairway_core.notifications import Notify
else:  # most projects need none
    Notify = Later.of("fairway_core.notifications", "Notify")

_URL = re.compile(r"(https://[a-z0-9.-]+(?::[0-9]{1,5})?)/?")
_TENANT = matching(GUID, "write the tenant's ID: az account show --query tenantId -o tsv", "")
_AUDIENCE = matching(r"[\x21-\x7e]{1,200}", "write the application's client ID", "")


class LocalTarget(Model):
    """The target of this machine: for each mount that jobs name, its path here; and its price."""

    FOREIGN: ClassVar[Mapping[str, str]] = MappingProxyType(
        dict.fromkeys(("engine", "nodes"), "leave it out: `local` is always this machine")
    )

    name: Literal["local"]
    mounts: dict[str, str] = Field(default_factory=dict)
    price: float | None = Field(default=None, gt=0, le=DEAREST, allow_inf_nan=False)


def _kind(target: Any) -> str:
    """Returns the kind of an entry, so that it is validated as that kind alone."""
    name = target.get("name") if isinstance(target, dict) else getattr(target, "name", "")
    return "local" if name == "local" else "target"


AnyTarget = Annotated[
    Annotated[LocalTarget, Tag("local")] | Annotated[Target, Tag("target")], Discriminator(_kind)
]


class Serve(Model):
    """Settings of `fairway serve --behind-proxy`: its URL, who may use it, and what for. They hold
    no secret."""

    url: str | None = None
    """The URL that people open: https://NAME, without a path."""
    tenant: Annotated[str, _TENANT, StringConstraints(to_lower=True)] | None = None
    """The ID of the Entra ID tenant in which they sign in."""
    audience: Annotated[str, _AUDIENCE] | None = None
    """The ID of the application that they sign in to."""
    targets: tuple[str, ...] = ()
    """The names of the targets that Submitters may use; Operators may use all."""

    @field_validator("url")
    @classmethod
    def _is_https(cls, url: str | None) -> str | None:
        if url is None:
            return None
        found = _URL.fullmatch(url.lower())
        if not found:
            raise ValueError("write https:// and the name that people open, without a path")
        return found[1].removesuffix(":443")  # browsers leave that out

    @field_validator("targets")
    @classmethod
    def _are_elsewhere(cls, targets: tuple[str, ...]) -> tuple[str, ...]:
        if "local" in targets:
            raise FieldError(
                "`local` is the machine of the server, which Submitters may not use", "leave it out"
            )
        return targets


class Project(Model):
    """The file `fairway.yaml`; relative paths in it are relative to its folder."""

    environment: str | None = None
    """The environment that commands use if none is named: a file, or the name of one."""
    extend: str | None = None
    """A Python file whose function `extend` adds resources to the stacks of environments."""
    targets: tuple[AnyTarget, ...] = ()
    """Targets that are not part of an environment, and the mounts of `local`."""

    notify: Notify | None = None
    """Who is notified about runs whose job has no `notify:`, on targets that can send
    notifications."""
    serve: Serve = Field(default_factory=Serve)
    """URL, sign-in and targets of `fairway serve --behind-proxy`."""

    @rule
    def _hosts_are_named(self) -> None:
        for position, target in enumerate(self.targets):
            if isinstance(target, LocalTarget) or target.access is None:
                continue
            if not target.access.host:
                raise FieldError(
                    "no host is named",
                    "write its name or address, or localhost where jobs run on this machine",
                    path=("targets", position, target.engine, "host"),
                )

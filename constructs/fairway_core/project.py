"""The file `fairway.yaml` of a project: its usual environment, and targets written by hand."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from fairway_core.documents import FieldError, Model
from fairway_core.notifications import Notify
from fairway_core.target import Target


class LocalTarget(Model):
    """What this machine offers: for each mount that jobs name, its path here; and its price."""

    name: Literal["local"]
    mounts: dict[str, str] = Field(default_factory=dict)
    price: float | None = Field(default=None, gt=0, allow_inf_nan=False)


def _kind(target: Any) -> str:
    """Which of the two an entry is, so that only what is wrong with it as that is told."""
    name = target.get("name") if isinstance(target, dict) else getattr(target, "name", "")
    return "local" if name == "local" else "target"


AnyTarget = Annotated[
    Annotated[LocalTarget, Tag("local")] | Annotated[Target, Tag("target")], Discriminator(_kind)
]


class Project(Model):
    """The file `fairway.yaml`; relative paths in it are relative to its folder."""

    environment: str | None = None
    """The environment that commands take where none is named: a file, or the name of one."""
    targets: tuple[AnyTarget, ...] = ()
    """Targets that no environment has, and what `local` mounts."""

    notify: Notify | None = None
    """Who hears of runs whose job does not say it, on targets that can send word."""

    @model_validator(mode="after")
    def _hosts_are_named(self) -> Self:
        for position, target in enumerate(self.targets):
            if isinstance(target, LocalTarget) or target.access is None:
                continue
            if not target.access.host:
                raise FieldError(
                    "no host is named",
                    "write its name or address, or localhost where jobs run on this machine",
                    path=("targets", position, target.engine, "host"),
                )
        return self

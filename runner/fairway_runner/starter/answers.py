"""What a new environment is made with: what each answer may be, and the usual ones."""

from __future__ import annotations

import configparser
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.emails import PLACEHOLDER
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

ENGINES = ("ssh", "slurm", "batch")
_ENGINE = "ssh"
LOCATION, BUDGET, EMAIL = "southcentralus", 1500, PLACEHOLDER
_SIZES = {
    "ssh": "Standard_NC40ads_H100_v5",
    "slurm": "Standard_ND96isr_H100_v5",
    "batch": "Standard_ND96asr_v4",
}
_NODES = {"ssh": 1, "slurm": 4, "batch": 4}
_EMAIL = re.compile(
    r"[^@\s\"'{}\[\],#*&!?|>%`-][^@\s\"'{}\[\],#]*@[^@\s\"'{}\[\],#]+\.[^@\s\"'{}\[\],#]+"
)


@dataclass(frozen=True)
class Answers:
    """The region, the cluster, what it may cost a month in USD, and who hears of that.

    `nodes` is the number of nodes, or the largest where they come and go.
    """

    location: str = LOCATION
    engine: str = _ENGINE
    size: str = _SIZES[_ENGINE]
    nodes: int = 1
    budget: int = BUDGET
    email: str = EMAIL

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Answers:
        """The answers that were given, by the names of the options, and the usual ones.

        Raises UserError where Azure would refuse one.
        """
        engine = checked("engine", given.get("engine") or _ENGINE)
        found = {
            name: checked(name, usual(name, engine) if given.get(name) is None else given[name])
            for name in ("location", "size", "nodes", "budget", "email")
        }
        return cls(engine=engine, **found)

    @property
    def cluster(self) -> str:
        """What the cluster is called."""
        from fairway_core.catalog import vm_size

        return "gpu" if vm_size(self.size).gpu else "cpu"


def usual(name: str, engine: str | None = None) -> Any:
    """What is taken for an option that was not given, beside that engine or the usual one."""
    engine = engine or _ENGINE
    return {
        "engine": _ENGINE,
        "location": LOCATION,
        "size": _SIZES[engine],
        "nodes": _NODES[engine],
        "budget": BUDGET,
        "email": EMAIL,
    }[name]


def of_account() -> dict[str, str]:
    """The region and the address that the Azure CLI keeps for its user, where it has them; no
    service is asked."""
    folder = Path(os.environ.get("AZURE_CONFIG_DIR") or Path.home() / ".azure")
    found = {}
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read(folder / "config", encoding="utf-8")
        found["location"] = checked("location", settings["defaults"]["location"])
    except (OSError, ValueError, KeyError, configparser.Error, UserError):
        pass
    try:
        profile = json.loads((folder / "azureProfile.json").read_text("utf-8-sig"))
        (name,) = [each["user"]["name"] for each in profile["subscriptions"] if each["isDefault"]]
        found["email"] = checked("email", name)
    except (OSError, ValueError, KeyError, TypeError, UserError):
        pass
    return found


def checked(name: str, value: Any) -> Any:
    """An answer as it is kept; UserError where Azure, or a cluster, could not have it."""
    return _CHECKS[name](value)


def validated(option: str, kind: Any, value: str) -> Any:
    """The value, as a field of that type takes it; UserError that names the option."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        fault = error.errors()[0]["ctx"]["error"]
        raise UserError.of("bad-value", f"{option}: {fault}", getattr(fault, "hint", "")) from None


def _region(text: str) -> str:
    from fairway_core.catalog.regions import require_region
    from fairway_core.environment.values import Location

    location: str = validated("--location", Location, text)
    more = "use another one here, and change `location:` in the environment file"
    require_region("--location", location, f"is it a new one? {more}")
    return location


def _engine(text: str) -> str:
    from fairway_core.suggestions import did_you_mean

    if text not in ENGINES:
        message = f"--engine: there is no engine `{text}` for clusters"
        raise UserError.of("bad-value", message, did_you_mean(text, ENGINES))
    return text


def _size(text: str) -> str:
    from fairway_core.catalog import default_image
    from fairway_core.documents import FieldError
    from fairway_core.environment.values import as_field_error, offered_size

    try:
        size = offered_size(text)
        default_image(size)
        return size.name
    except (FieldError, UserError) as error:
        fault = as_field_error(error) if isinstance(error, UserError) else error
        hint = fault.hint or "fairway sizes lists them"
        raise UserError.of("bad-value", f"--size: {fault}", hint) from None


def _count(option: str, most: int) -> Any:
    def check(value: Any) -> int:
        if not str(value).isdecimal() or not 1 <= int(value) <= most:
            message = f"{option}: `{value}` is not a number from 1 to {most}"
            raise UserError.of("bad-value", message, f"for example {option} {min(4, most)}")
        return int(value)

    return check


def _address(text: str) -> str:
    if not _EMAIL.fullmatch(text):
        message = f"--email: `{text}` is not an email address"
        raise UserError.of("bad-value", message, f"for example {EMAIL}")
    return text


_CHECKS = {
    "location": _region,
    "engine": _engine,
    "size": _size,
    "nodes": _count("--nodes", 100),
    "budget": _count("--budget", 10_000_000),
    "email": _address,
}

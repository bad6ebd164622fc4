"""The TOML tables beside this file, and look-ups in them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")


@cache
def table(name: str) -> dict[str, Any]:
    """Returns the file `name`.toml as plain data, which is cached and must not be changed."""
    return tomllib.loads(text_of(name))


@cache
def text_of(name: str) -> str:
    """Returns the text of the file `name`.toml."""
    return Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")


def look_up(name: str, rows: Mapping[str, _T], what: str, listed_by: str = "") -> _T:
    """Returns the row of that name. Raises UserError `unknown-WHAT` with the nearest name, or with
    the command that lists the names."""
    try:
        return rows[name]
    except KeyError:
        pass
    from fairway_core.suggestions import did_you_mean

    noun = what.replace("-", " ").replace("vm ", "VM ")
    hint = did_you_mean(name, rows) or (f"list them with: {listed_by}" if listed_by else "")
    raise UserError.of(f"unknown-{what}", f"unknown {noun} `{name}`", hint)

"""Options that are read without pydantic are read as Typer reads them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer

from fairway_cli.lazy import take_plainly


def _command(
    words: Annotated[list[str], typer.Argument()],
    name: Annotated[str | None, typer.Option("--name")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=9)] = 5,
    share: Annotated[float, typer.Option("--share")] = 0.5,
    loud: Annotated[bool, typer.Option("--loud")] = False,
    level: Annotated[str, typer.Option("--level", parser=len)] = "info",
) -> dict[str, Any]:
    return locals()


def _read(arguments: list[str], *, plainly: bool) -> object:
    """The values, or what Typer says of them."""
    app = typer.Typer(add_completion=False)
    app.command()(_command)
    command = typer.main.get_command(app)
    if plainly:
        take_plainly(command)
    try:
        return command.main(arguments, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - whatever Typer raises
        return type(error).__name__, str(error)


_GOOD = [
    ["one"],
    ["one", "two", "--name", "", "--tag", "a", "--tag", "b"],
    ["one", "--limit", "9", "--share", "0.25", "--loud"],
    ["one", "--limit", "0007", "--share", "1e-3", "--level", "four"],
    ["--", "--name"],
]
_BAD = [
    [],
    ["one", "--name"],
    ["one", "--limit", "0"],
    ["one", "--limit", "10"],
    ["one", "--limit", "many"],
    ["one", "--limit", "1.5"],
    ["one", "--limit", ""],
    ["one", "--share", "half"],
    ["one", "--loud=yes"],
    ["one", "--nmae", "x"],
]


@pytest.mark.parametrize("arguments", _GOOD, ids=" ".join)
def test_good_values_are_those_of_typer(arguments: list[str]) -> None:
    read = _read(arguments, plainly=True)
    assert isinstance(read, dict)
    assert read == _read(arguments, plainly=False)
    assert {name: type(value) for name, value in read.items()}["words"] is list


@pytest.mark.parametrize("arguments", _BAD, ids=lambda given: " ".join(given) or "nothing")
def test_bad_values_are_refused_as_typer_refuses_them(arguments: list[str]) -> None:
    read = _read(arguments, plainly=True)
    assert isinstance(read, tuple)
    assert read == _read(arguments, plainly=False)

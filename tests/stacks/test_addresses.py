"""The Terraform addresses and outputs of each environment: a changed one replaces a resource.

`golden/addresses.txt` has each with the environments that have it, `*` for all of them. It changes
on purpose only: a deployed environment would lose what is destroyed and made again under another
address. Then one process writes it anew:

    FAIRWAY_GOLDEN=write bin/test tests/stacks/test_addresses.py -n 0
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stacks.documents import Stacks, Written

_HERE = Path(__file__).parent
_GOLDEN = _HERE / "golden" / "addresses.txt"
FILES = {
    file.stem: file
    for folder in (_HERE.parents[1] / "stacks/environments", _HERE / "sections")
    for file in sorted(folder.glob("*.yaml"))
}


def addresses(stacks: Stacks) -> Iterator[str]:
    """A line for each resource, data source and output of the stacks."""
    for role, stack in stacks.items():
        for kind, prefix in (("data", "data."), ("resource", "")):
            for type_, instances in stack.get(kind, {}).items():
                yield from (f"{role} {prefix}{type_}.{name}" for name in instances)
        yield from (f"{role} output.{name}" for name in stack.get("output", {}))


def _golden() -> dict[str, set[str]]:
    """The environments by address."""
    rows = (line.split(": ") for line in _GOLDEN.read_text(encoding="utf-8").splitlines())
    return {address: {*FILES} if names == "*" else {*names.split()} for address, names in rows}


def _write(name: str, found: set[str]) -> None:
    known, rows = _golden(), []
    for address in sorted({*known, *found}):
        names = known.get(address, set()) - {name} | ({name} if address in found else set())
        if names:
            rows.append(f"{address}: {'*' if names == {*FILES} else ' '.join(sorted(names))}\n")
    _GOLDEN.write_text("".join(rows), encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_no_address_changes_by_accident(written: Written, name: str) -> None:
    found = {*addresses(written(FILES[name]))}
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        _write(name, found)
    assert found == {address for address, names in _golden().items() if name in names}, (
        "resources would be replaced where they are deployed"
    )


def test_addresses_are_of_environments_that_there_are() -> None:
    assert set().union(*_golden().values()) == {*FILES}

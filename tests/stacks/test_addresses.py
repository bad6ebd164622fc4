"""The Terraform addresses and outputs of each environment: a changed one replaces a resource.

They are kept in `golden/addresses`, and change on purpose only: a deployed environment
would lose what is destroyed and made again under another address.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
_GOLDEN = _HERE / "golden" / "addresses"
_REPOSITORY = _HERE.parent.parent
FILES = sorted(
    [*_REPOSITORY.glob("stacks/environments/*.yaml"), *_HERE.glob("sections/*.yaml")],
    key=lambda file: file.stem,
)


def addresses(stacks: dict[str, dict[str, Any]]) -> Iterator[str]:
    """A line for each resource, data source and output of the stacks."""
    for role, stack in stacks.items():
        for kind, prefix in (("data", "data."), ("resource", "")):
            for type_, instances in stack.get(kind, {}).items():
                yield from (f"{role} {prefix}{type_}.{name}" for name in instances)
        yield from (f"{role} output.{name}" for name in stack.get("output", {}))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_address_changes_by_accident(
    written: Callable[..., dict[str, dict[str, Any]]], file: Path
) -> None:
    found = "".join(f"{line}\n" for line in sorted(addresses(written(file))))
    golden = _GOLDEN / f"{file.stem}.txt"
    if not golden.exists():
        golden.write_text(found, encoding="utf-8")
        pytest.fail(f"{golden.name} was missing and is written now: read it, and commit it")
    assert found == golden.read_text(encoding="utf-8"), (
        "resources would be replaced where they are deployed; if that is meant, "
        f"remove {golden.relative_to(_REPOSITORY)} and run this test to write it again"
    )


def test_addresses_golden_file_exists_for_each_environment() -> None:
    assert {golden.stem for golden in _GOLDEN.glob("*.txt")} == {file.stem for file in FILES}

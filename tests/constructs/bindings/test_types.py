"""Types of the generated classes, checked with mypy."""

import sys
from pathlib import Path

import pytest
from programs import finished

pytestmark = pytest.mark.nightly

_SNIPPET = """\
from fairway_constructs.azurerm.subnet import Delegation, DelegationServiceDelegation, Subnet
from fairway_constructs.cdk import App, Stack
stack = Stack(App(), "a")
good = Subnet(stack, "s", name="x", resource_group_name="x", virtual_network_name="v")
text: str = good.name
prefixes: list[str] = good.address_prefixes
service = DelegationServiceDelegation(name="x")
Subnet(stack, "s", name="x", resource_group_name="x")  # error: Missing named argument
Subnet(stack, "s", name=1, resource_group_name="x", virtual_network_name="v")  # error: "name"
Subnet(stack, "s", nme="x")  # error: Unexpected keyword argument "nme"
Delegation(name="x")  # error: Missing named argument "service_delegation"
Delegation(name="x", service_delegation=[service])  # error: "service_delegation"
service.name = "y"  # error: read-only
number: int = good.name  # error: Incompatible types
"""


def test_generated_types_let_mypy_find_missing_and_wrong_arguments(
    repository: Path, tmp_path: Path
) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(_SNIPPET)
    # Everything but the snippet is in mypy's cache if the project was checked before.
    options = ["--config-file", repository / "pyproject.toml"]
    checked = finished([sys.executable, "-m", "mypy", *options, file], cwd=repository)
    errors: dict[int, str] = {}
    for line in checked.stdout.splitlines():
        _, number, kind, *message = line.split(":", 3) if line.count(":") > 2 else (line, "", "")
        if kind.strip() == "error":
            errors[int(number)] = errors.get(int(number), "") + message[0]
    wanted = {
        number: line.partition("# error: ")[2]
        for number, line in enumerate(_SNIPPET.splitlines(), 1)
        if "# error: " in line
    }
    assert errors.keys() == wanted.keys(), checked.stdout + checked.stderr
    for number, message in wanted.items():
        assert message in errors[number]

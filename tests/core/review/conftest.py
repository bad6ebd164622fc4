"""Small plans in the format of `terraform show -json`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakePlan = Callable[..., str]
HOST = "registry.example.com/"


@pytest.fixture
def samples() -> Path:
    """Returns the folder of plans of azurerm 5.2 by Terraform 1.11, made without an account."""
    return Path(__file__).parent / "plans"


@pytest.fixture
def make_plan(tmp_path: Path) -> MakePlan:
    """Writes a plan of changes `(address, actions, before, after, more)` to a file with the given
    name.

    `more` is merged into the change: masks, `replace_paths`; its key `resource` holds resource
    keys.
    """

    def make(name: str, *changes: tuple[Any, ...], **parts: Any) -> str:
        file = tmp_path / f"{name}.json"
        plan = {
            "format_version": "1.2",
            "terraform_version": "1.11.4",
            "planned_values": {},
            "resource_changes": [resource(*change) for change in changes],
            **parts,
        }
        file.write_text(json.dumps(plan))
        return str(file)

    return make


def resource(
    address: str,
    actions: str | list[str],
    before: Any = None,
    after: Any = None,
    more: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Returns an entry of `resource_changes`."""
    change = {**(more or {})}
    fields |= change.pop("resource", {})
    return {
        "address": address,
        "mode": "managed",
        "type": address.split(".")[0],
        "name": address.split(".")[-1],
        "provider_name": f"{HOST}hashicorp/azurerm",
        "change": {
            "actions": actions.split() if isinstance(actions, str) else actions,
            "before": before,
            "after": after,
            "after_unknown": {},
            "before_sensitive": {},
            "after_sensitive": {},
            **change,
        },
        **fields,
    }

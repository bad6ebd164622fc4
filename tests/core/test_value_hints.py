"""What to type in place of a value of the wrong kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.documents import load
from fairway_core.environment import Environment
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "name: lab\nlocation: southcentralus\n"
GPU = "gpu: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1}"
HOME = (
    "clusters: {{gpu: {{engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1}}}}\n"
    "filesystems: {{home: {{kind: azure_files, gib: {}, path: /home}}}}"
)

MISTAKES = [
    ("clusters: [gpu]", "expected a mapping, found a list", "`clusters: {gpu: {…}}`"),
    (
        "clusters: [{name: gpu, engine: ssh}]",
        "expected a mapping, found a list",
        "write each under its name: `clusters: {gpu: {…}}`",
    ),
    (
        f"clusters: {{{GPU.replace('nodes: 1', 'nodes: 0-16')}}}",
        "expected a whole number, found the text `0-16`",
        "write `nodes: {min: 0, max: 16}`",
    ),
    (
        HOME.format("1TiB"),
        "expected a whole number, found the text `1TiB`",
        "write the number alone: `gib: 1024`",
    ),
    (
        HOME.format("64 GB"),
        "expected a whole number, found the text `64 GB`",
        "write the number alone: `gib: 64`",
    ),
    (
        f"clusters: {{{GPU}}}\naccess: [203.0.113.0/24]",
        "`access`: expected a mapping, found a list",
        "write its fields without hyphens: `access: {ssh_keys: …}`",
    ),
    (
        f"clusters: {{{GPU}}}\naccess: {{allowed: 203.0.113.0/24}}",
        "expected a list, found the text `203.0.113.0/24`",
        "write a list, of one value too: `allowed: [203.0.113.0/24]`",
    ),
    (
        f"clusters: {{{GPU}}}\naccess: 203.0.113.0/24",
        "`access`: expected a mapping, found the text `203.0.113.0/24`",
        "write `access: {ssh_keys: …}`",  # it takes keys, and no range
    ),
    (
        f"clusters: {{{GPU}}}\nbudget: 500",
        "`budget`: expected a mapping, found the number 500",
        "write `budget: {monthly: 500}`",
    ),
    (
        f"clusters: {{{GPU}}}\nmonitoring: {{emails: [a@example.com], retention: 30}}",
        "`monitoring.retention`: `30` has no unit",
        "write 30d",
    ),
]


@pytest.mark.parametrize(("rest", "message", "hint"), MISTAKES)
def test_a_value_of_the_wrong_kind_is_answered_with_one_that_fits(
    tmp_path: Path, rest: str, message: str, hint: str
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + rest + "\n")
    with pytest.raises(UserError) as caught:
        load(file, Environment)
    (found,) = caught.value.findings
    assert message in found.message
    assert hint in found.hint
    assert found.location is not None

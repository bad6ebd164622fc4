"""Pictures of whole environments: the demo's is kept, and all of them are consistent."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.diagram import Group, Picture, draw, graphviz, markdown, mermaid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Written = Callable[..., dict[str, dict[str, Any]]]

PEERED = r"""
network:
  peerings:
    office:
      network:
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/hub/providers\
        /Microsoft.Network/virtualNetworks/hub"
"""


def _picture(written: Written, text: str | Path, name: str) -> Picture:
    return draw({f"{name}-{role}": stack for role, stack in written(text).items()}, name)


def _arrows(picture: Picture) -> set[tuple[str, str, str]]:
    titles = {node.id: node.title for node in picture.all_nodes()}
    return {(titles[one.source], one.label, titles[one.target]) for one in picture.arrows}


def _where(groups: list[Group]) -> dict[str, str]:
    """The title of the group around each box."""
    found = {}
    for group in groups:
        found |= {node.title: group.title for node in group.nodes} | _where(group.groups)
    return found


def test_the_picture_of_the_demo(written: Written, repository: Path) -> None:
    picture = _picture(written, repository / "stacks/environments/demo.yaml", "demo")
    golden = repository / "tests/stacks/golden/demo.md"
    assert markdown(picture) == golden.read_text(encoding="utf-8")


def test_diagram_arrows_show_access_between_resources(written: Written, everything: str) -> None:
    found = _arrows(_picture(written, everything, "lab"))
    assert {
        ("lab-vmss-pair", "mounts /data", "lab-vm-data"),
        ("lab-vmss-pair", "runs as", "lab-id-nodes"),
        ("lab-spot", "runs as", "lab-id-nodes"),
        ("lab-spot", "belongs to", "labba…"),
        ("lab-id-nodes", "AcrPull", "labcr…"),
        ("lab-id-nodes", "Key Vault Secrets User", "lab-kv…"),
        ("lab-id-nodes", "Storage Blob Data Contributor: code, datasets, outputs", "labst…"),
        ("labst…", "encrypted with its key", "lab-kv…"),
        ("lab-pep-vault", "", "lab-kv…"),
        ("lab-pep-batch", "", "labba…"),
    } <= found


def test_peerings_bastions_and_imports(written: Written, repository: Path, everything: str) -> None:
    peered = _picture(written, everything + PEERED, "lab")
    assert ("lab-peer-office", "peering", "hub") in _arrows(peered)
    large = _picture(written, repository / "stacks/environments/lustre-large.yaml", "large")
    assert {
        ("large-amlfs-fast", "imports datasets", "largest…"),
        ("large-vmss-train", "mounts /lustre", "large-amlfs-fast"),
        ("large-vmss-train", "mounts /home", "largestf…"),
        ("large-bas", "SSH", "large-vmss-train"),
    } <= _arrows(large)
    places = _where(large.groups)
    assert places["large-amlfs-fast"] == "large-snet-lustre"
    assert places["large-vmss-train"] == "large-snet-compute"
    assert "largest…" not in places


_ID, _TEXT = r"[a-z]\w*", r'"[^"`]*"'
# What a line of the flowcharts may be; Mermaid itself was asked whether it takes them.
_STATEMENT = re.compile(
    rf"""%%\{{init: .*\}}%% | flowchart\ LR | end
    | subgraph\ {_ID}\[{_TEXT}\]
    | {_ID}\[{_TEXT}\]:::[a-z]+
    | {_ID}\ -->(\|{_TEXT}\|)?\ {_ID}
    | classDef\ [a-z]+\ \S+
    | style\ {_ID}\ \S+""",
    re.VERBOSE,
)


def test_every_line_is_a_statement_of_mermaid(written: Written, everything: str) -> None:
    lines = mermaid(_picture(written, everything + PEERED, "lab")).splitlines()
    assert len(lines) > 50
    for line in lines:
        assert _STATEMENT.fullmatch(line.strip()), line


ENVIRONMENTS = [
    "a100-batch-spot",
    "cpu-hpc",
    "demo",
    "lustre-large",
    "single-gpu-vm",
    "v100-reference",
]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_graphviz_draws_it(written: Written, repository: Path, environment: str) -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("dot is missing: apt-get install -y graphviz")
    file = repository / f"stacks/environments/{environment}.yaml"
    stacks = written(file)
    name = next(iter(stacks["data"]["//"]["metadata"]["stackName"].rsplit("-", 1)))
    picture = draw({f"{name}-{role}": stack for role, stack in stacks.items()}, environment)
    ids = {node.id for node in picture.all_nodes()}
    assert all({arrow.source, arrow.target} <= ids for arrow in picture.arrows)
    done = subprocess.run(
        [dot, "-Tsvg"], input=graphviz(picture), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr == ""
    drawn = html.unescape(done.stdout)
    for node in picture.all_nodes():
        assert node.title in drawn


def test_an_account_that_is_there_already_is_one_box(written: Written, repository: Path) -> None:
    """With the containers on the arrows, as one that is made; its endpoint leads to it."""
    file = repository / "tests/stacks/sections/company.yaml"
    picture = _picture(written, file, "team")
    (box,) = [node for node in picture.all_nodes() if node.title == "contosolake"]
    assert box.lines == ("there already",)
    assert not [node for node in picture.all_nodes() if node.title in ("code", "datasets")]
    label = "Storage Blob Data Contributor: code, datasets, outputs"
    assert {
        ("team-id-nodes", label, "contosolake"),
        ("team-id-slurm-nodes", label, "contosolake"),
        ("00000000-0000-0000-0000-00000000000b", label, "contosolake"),
        ("team-pep-storage", "", "contosolake"),
    } <= _arrows(picture)

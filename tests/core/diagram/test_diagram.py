"""Diagrams of environments: positions of boxes, arrows, and escaping of text."""

import html
import re
import shutil
from pathlib import Path

import pytest
from programs import finished

from fairway_core.diagram import Picture, draw, graphviz, markdown
from fairway_core.diagram.model import Arrow, Group, Kind, Node, mermaid
from fairway_core.environment import load_environment

ROOT = Path(__file__).parents[3]
FILES = [*ROOT.glob("stacks/environments/*.yaml"), *ROOT.glob("tests/stacks/sections/*.yaml")]


def _picture(name: str) -> Picture:
    (file,) = [file for file in FILES if file.stem == name]
    return draw(load_environment(file), name)


def _where(groups: list[Group]) -> dict[str, str]:
    """Returns the title of the group around each box."""
    found = {}
    for group in groups:
        found |= {node.title: group.title for node in group.nodes} | _where(group.groups)
    return found


BLOBS = "Storage Blob Data Contributor"


def test_diagram_of_demo_equals_golden_markdown() -> None:
    golden = Path(__file__).with_name("demo.md").read_text(encoding="utf-8")
    assert markdown(_picture("demo")) == golden


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "company",
            {
                ("team-vm-slurm-scheduler", "mounts /data", "team-vm-data"),
                ("team-vmss-nd", "reaches", "team-vm-slurm-scheduler"),
                ("team-vmss-nd", "runs as", "team-id-slurm-nodes"),
                ("team-pool", "runs as", "team-id-nodes"),
                ("team-pool", "belongs to", "teamba…"),
                ("team-id-nodes", "Key Vault Secrets User", "team-kv…"),
                ("team-id-slurm-nodes", f"{BLOBS}: datasets, outputs, code", "contosolake"),
                ("00000000-0000-0000-0000-00000000000b", "Azure Batch Data Contributor", "teamba…"),
                ("team-pep-storage", "", "contosolake"),
                ("team-peer-hub", "peering", "hub"),
                ("team-bas", "SSH", "team-vmss-nd"),
                ("team-bas", "SSH", "team-vm-data"),
                ("team-id-slurm-nodes", "Key Vault Secrets User", "team-kvs…"),
            },
        ),
        (
            "lustre-large",
            {
                ("large-amlfs-fast", "imports datasets", "largest…"),
                ("large-vmss-train", "mounts /lustre", "large-amlfs-fast"),
                ("large-vmss-train", "mounts /home", "largestf…"),
                ("large-pep-files-home", "", "largestf…"),
            },
        ),
        (
            "pods",
            {
                ("nd", "belongs to", "pods-aks"),
                ("nd", "pods of jobs act as", "pods-id-nodes"),
                ("nd", "mounts /fast", "pods-amlfs-fast"),
                ("cpu", "mounts /home", "pods-anfvol-home"),
                ("pods-aks", "AcrPull", "podscr…"),
            },
        ),
        (
            "own",
            {
                ("contosoown", "encrypted with its key", "own-kv…"),
                ("own-vm-data", "backed up", "own-rsv"),
                ("own-amlfs-fast", "imports datasets", "contosoown"),
                ("own-vmss-nd", "mounts /blobs", "contosoown"),
                ("own-id-slurm-nodes", "AcrPull", "owncr…"),
            },
        ),
    ],
)
def test_diagram_arrows_point_to_used_resources(
    name: str, expected: set[tuple[str, str, str]]
) -> None:
    picture = _picture(name)
    titles = {node.id: node.title for node in picture.all_nodes()}
    found = {(titles[one.source], one.label, titles[one.target]) for one in picture.arrows}
    assert expected <= found
    assert ("team-bas", "SSH", "team-pool") not in found  # Batch allows no SSH to its nodes


def test_diagram_boxes_are_in_their_subnets_with_descriptions() -> None:
    picture = _picture("pods")
    boxes = {node.title: node.lines for node in picture.all_nodes()}
    assert boxes["nd"] == ("node pool", "0 to 8 × Standard_ND96isr_H100_v5")
    assert boxes["spot"] == ("node pool", "0 to 4 × Standard_NC4as_T4_v3", "Spot")
    places = _where(picture.groups)
    assert places["nd"] == "pods-snet-kubernetes"
    assert places["pods-amlfs-fast"] == "pods-snet-lustre"
    assert "pods-aks" not in places
    empty = {node.title: node.lines[0] for network in picture.groups for node in network.nodes}
    assert empty["pods-snet-management"] == "empty subnet"


@pytest.mark.parametrize(
    ("name", "box", "subnet"),
    [
        ("box", "desk-bas", "AzureBastionSubnet"),
        ("regional", "anfvol-flat-flex", "snet-flat-netapp"),
    ],
)
def test_diagram_omits_azure_managed_subnets_from_nat_gateway(
    name: str, box: str, subnet: str
) -> None:
    (network,) = _picture(name).groups
    assert _where([network])[box] == subnet
    (nat,) = (node for node in network.nodes if node.id == "nat")
    assert nat.lines[1] == "to the internet for compute, storage, management, endpoints"


def test_diagram_names_existing_network_from_its_subnet_ids() -> None:
    (network,) = _picture("existing").groups
    assert (network.title, network.lines) == ("hub", ("virtual network, existing",))
    assert {"compute", "storage"} <= {subnet.title for subnet in network.groups}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_diagram_has_unique_ids_and_valid_mermaid_lines(file: Path) -> None:
    picture = _picture(file.stem)
    ids = [node.id for node in picture.all_nodes()]
    assert len(ids) == len(set(ids))
    assert all({arrow.source, arrow.target} <= set(ids) for arrow in picture.arrows)
    for line in mermaid(picture).splitlines():
        assert _STATEMENT.fullmatch(line.strip()), line


_ID, _TEXT = r"[a-z]\w*", r'"[^"`]*"'
# Valid lines of the flowcharts, confirmed with Mermaid itself.
_STATEMENT = re.compile(
    rf"""%%\{{init: .*\}}%% | flowchart\ LR | end
    | subgraph\ {_ID}\[{_TEXT}\]
    | {_ID}\[{_TEXT}\]:::[a-z]+
    | {_ID}\ -->(\|{_TEXT}\|)?\ {_ID}
    | classDef\ [a-z]+\ \S+
    | style\ {_ID}\ \S+""",
    re.VERBOSE,
)


@pytest.mark.parametrize("name", ["demo", "lustre-large", "page"])
def test_diagram_is_drawn_by_graphviz(name: str) -> None:
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("dot is missing: apt-get install -y graphviz")
    picture = _picture(name)
    done = finished([dot, "-Tsvg"], input=graphviz(picture))
    assert (done.returncode, done.stderr) == (0, "")
    drawn = html.unescape(done.stdout)
    assert all(node.title in drawn for node in picture.all_nodes())


HOSTILE = 'a"]; <img src=x onerror=alert(1)> `b` #quot; & \\ \n end %% | --> c'


def test_diagram_escapes_hostile_text() -> None:
    picture = _one_arrow(HOSTILE)
    for line in mermaid(picture).splitlines():
        for quoted in re.findall(r'"(.*)"', line) if "init" not in line else ():
            assert not set(re.sub(r"</?b>|<br/>", "", quoted)) & {'"', "<", "`", "\\"}
    assert len(mermaid(picture).splitlines()) == len(mermaid(_one_arrow("a")).splitlines())
    assert "\\<img" in markdown(picture).splitlines()[0]
    text = graphviz(picture)
    assert "<img" not in text
    assert "&lt;img" in text


def _one_arrow(text: str) -> Picture:
    boxes = [Node("one", Kind.FILES, text, (text,)), Node("two", Kind.FILES, "b")]
    return Picture(text, nodes=boxes, arrows=[Arrow("one", "two", text)])

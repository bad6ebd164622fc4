"""Pictures of boxes and arrows, as text for Mermaid and Graphviz."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(StrEnum):
    """The kind of a box, which determines its colour."""

    MACHINES = "machines"
    FILES = "files"
    SERVICE = "service"
    IDENTITY = "identity"
    NETWORK = "network"


@dataclass(eq=False)
class Node:
    """A box: `title` is its name in Azure, `lines` describe it. Compared by identity, so that it
    can be shared."""

    id: str
    kind: Kind
    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrow:
    """An arrow from one box to another, with a label."""

    source: str
    target: str
    label: str


@dataclass
class Group:
    """A network, with its subnets in `groups`, or a subnet, with the boxes in it."""

    id: str
    title: str
    lines: tuple[str, ...] = ()
    nodes: list[Node] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


@dataclass
class Picture:
    """An entire environment: networks, boxes outside of them, and arrows."""

    title: str
    groups: list[Group] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)

    def all_nodes(self) -> Iterator[Node]:
        """Yields all boxes, those in groups first."""
        for network in self.groups:
            for group in (network, *network.groups):
                yield from group.nodes
        yield from self.nodes


# Colours of boxes and their outlines: dark text is readable on each, in print and for the
# colour-blind.
_COLOURS = {
    Kind.MACHINES: ("#cfe3f7", "#1f5f99"),
    Kind.FILES: ("#d8efd3", "#3a7d34"),
    Kind.SERVICE: ("#fdeac6", "#a86f00"),
    Kind.IDENTITY: ("#eadcf3", "#6f3f91"),
    Kind.NETWORK: ("#e8ebee", "#5b6670"),
}
_NETWORK, _SUBNET = "#f7f9fb", "#ffffff"

# A box is as wide as its longest line; names of VM sizes are not broken.
_WIDE = '%%{init: {"flowchart": {"wrappingWidth": 420, "nodeSpacing": 25}}}%%'

_HEAD = """\
  graph [rankdir=LR, compound=true, fontname="Helvetica,Arial,sans-serif", fontsize=12,
         nodesep=0.3, ranksep=1.1, labelloc=t, bgcolor=white, pad=0.3];
  node [shape=box, style="filled,rounded", fontname="Helvetica,Arial,sans-serif", fontsize=11,
        margin="0.14,0.09"];
  edge [fontname="Helvetica,Arial,sans-serif", fontsize=10, color="#48525c",
        fontcolor="#48525c", arrowsize=0.7];
"""

# Characters that are markup in a heading of Markdown or HTML.
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|!&])")

# Graphviz labels are HTML-like. Mermaid reads `#name;` within quotes as the HTML entity; other
# characters have a meaning in Mermaid or Markdown.
_GRAPHVIZ = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_MERMAID = str.maketrans(
    {"#": "#35;", '"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\\": "#92;"}
)


def markdown(picture: Picture) -> str:
    """Returns a Markdown page with the picture."""
    title = _MARKS.sub(r"\\\1", _printable(picture.title))
    return f"# {title}\n\n```mermaid\n{mermaid(picture)}```\n"


def mermaid(picture: Picture) -> str:
    """Returns the text of a Mermaid flowchart, with one line per box and arrow."""
    lines = [_WIDE, "flowchart LR"]
    for network in picture.groups:
        lines += _mermaid_group(network, "  ")
    lines += [f"  {_mermaid_node(node)}" for node in picture.nodes]
    for arrow in picture.arrows:
        label = f'|"{_escaped(arrow.label, _MERMAID)}"|' if arrow.label else ""
        lines.append(f"  {arrow.source} -->{label} {arrow.target}")
    for kind, (fill, line) in _COLOURS.items():
        lines.append(f"  classDef {kind} fill:{fill},stroke:{line},color:#1b1b1b")
    for network in picture.groups:
        for group in (network, *network.groups):
            fill = _NETWORK if group is network else _SUBNET
            lines.append(f"  style {group.id} fill:{fill},stroke:#7a8794,color:#1b1b1b")
    return "\n".join(lines) + "\n"


def _mermaid_group(group: Group, indent: str) -> Iterator[str]:
    # Mermaid leaves space for one line above the content of a group.
    title = " · ".join(_escaped(line, _MERMAID) for line in (group.title, *group.lines))
    yield f'{indent}subgraph {group.id}["{title}"]'
    for inner in group.groups:
        yield from _mermaid_group(inner, indent + "  ")
    for node in group.nodes:
        yield f"{indent}  {_mermaid_node(node)}"
    yield f"{indent}end"


def _mermaid_node(node: Node) -> str:
    return f'{node.id}["{"<br/>".join(_lines(node, _MERMAID))}"]:::{node.kind}'


def graphviz(picture: Picture) -> str:
    """Returns a directed graph in Graphviz's language."""
    title = _escaped(picture.title, _GRAPHVIZ)
    lines = [f"digraph environment {{\n{_HEAD}", f"  label=<<b>{title}</b>>;"]
    for network in picture.groups:
        lines += _graphviz_group(network, "  ", _NETWORK)
    lines += [f"  {_graphviz_node(node)}" for node in picture.nodes]
    for arrow in picture.arrows:
        # A role and its parts are on two lines.
        label = _escaped(arrow.label, _GRAPHVIZ).replace(": ", ":<br/>", 1)
        lines.append(f"  {arrow.source} -> {arrow.target}{f' [label=<{label}>]' if label else ''};")
    return "\n".join([*lines, "}"]) + "\n"


def _graphviz_group(group: Group, indent: str, fill: str) -> Iterator[str]:
    label = "".join(f'{line}<br align="left"/>' for line in _lines(group, _GRAPHVIZ))
    yield f"{indent}subgraph cluster_{group.id} {{"
    yield f'{indent}  style="filled,rounded"; color="#7a8794"; fillcolor="{fill}"; labeljust=l;'
    yield f"{indent}  label=<{label}>;"
    for inner in group.groups:
        yield from _graphviz_group(inner, indent + "  ", _SUBNET)
    for node in group.nodes:
        yield f"{indent}  {_graphviz_node(node)}"
    yield f"{indent}}}"


def _graphviz_node(node: Node) -> str:
    label, (fill, line) = "<br/>".join(_lines(node, _GRAPHVIZ)), _COLOURS[node.kind]
    return f'{node.id} [label=<{label}>, fillcolor="{fill}", color="{line}"];'


def _lines(box: Node | Group, entities: dict[int, str]) -> list[str]:
    title, *lines = (_escaped(line, entities) for line in (box.title, *box.lines))
    return [f"<b>{title}</b>", *lines]


def _escaped(text: str, entities: dict[int, str]) -> str:
    return _printable(text).translate(entities)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)

"""A picture as Mermaid text, which GitHub and others draw where it stands in Markdown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fairway_core.diagram.colours import COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_core.diagram.picture import Group, Node, Picture

# Mermaid reads `#name;` within quotes as the HTML entity; these characters mean something to
# it, to Markdown, or to HTML.
_ENTITIES = {
    "#": "#35;",
    '"': "#quot;",
    "&": "#amp;",
    "<": "#lt;",
    ">": "#gt;",
    "`": "#96;",
    "\\": "#92;",
}

# What Markdown or HTML would take for markup in a heading.
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|!&])")

# A box is as wide as its longest line; names of VM sizes are not broken.
_WIDE = '%%{init: {"flowchart": {"wrappingWidth": 420, "nodeSpacing": 25}}}%%'


def mermaid(picture: Picture) -> str:
    """The text of a Mermaid flowchart, a line a box and an arrow."""
    lines = [_WIDE, "flowchart LR"]
    for group in picture.groups:
        lines += _group(group, "  ")
    lines += [f"  {_node(node)}" for node in picture.nodes]
    for arrow in picture.arrows:
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
        lines.append(f"  {arrow.source} -->{label} {arrow.target}")
    for kind, colours in COLOURS.items():
        lines.append(f"  classDef {kind} fill:{colours.fill},stroke:{colours.line},color:#1b1b1b")
    for group, depth in _all_groups(picture.groups):
        fill = "#f7f9fb" if depth == 0 else "#ffffff"
        lines.append(f"  style {group.id} fill:{fill},stroke:#7a8794,color:#1b1b1b")
    return "\n".join(lines) + "\n"


def markdown(picture: Picture) -> str:
    """A Markdown page with the picture in it."""
    title = _MARKS.sub(r"\\\1", _printable(picture.title))
    return f"# {title}\n\n```mermaid\n{mermaid(picture)}```\n"


def _group(group: Group, indent: str) -> Iterator[str]:
    # Mermaid leaves room for one line above what is in a group.
    title = " · ".join(map(_escaped, (group.title, *group.lines)))
    yield f'{indent}subgraph {group.id}["{title}"]'
    for inner in group.groups:
        yield from _group(inner, indent + "  ")
    for node in group.nodes:
        yield f"{indent}  {_node(node)}"
    yield f"{indent}end"


def _node(node: Node) -> str:
    title = f"<b>{_escaped(node.title)}</b>"
    return f'{node.id}["{_label(title, node.lines)}"]:::{node.kind}'


def _label(title: str, lines: Iterable[str]) -> str:
    return "<br/>".join([title, *map(_escaped, lines)])


def _escaped(text: str) -> str:
    return "".join(_ENTITIES.get(character, character) for character in _printable(text))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _all_groups(groups: Iterable[Group], depth: int = 0) -> Iterator[tuple[Group, int]]:
    for group in groups:
        yield group, depth
        yield from _all_groups(group.groups, depth + 1)

"""A picture as text for Graphviz, whose `dot` makes SVG of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.diagram.colours import COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fairway_core.diagram.picture import Group, Node, Picture

_HEAD = """\
  graph [rankdir=LR, compound=true, fontname="Helvetica,Arial,sans-serif", fontsize=12,
         nodesep=0.3, ranksep=1.1, labelloc=t, bgcolor=white, pad=0.3];
  node [shape=box, style="filled,rounded", fontname="Helvetica,Arial,sans-serif", fontsize=11,
        margin="0.14,0.09"];
  edge [fontname="Helvetica,Arial,sans-serif", fontsize=10, color="#48525c",
        fontcolor="#48525c", arrowsize=0.7];
"""

# Labels are HTML-like: these mean something in it.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def graphviz(picture: Picture) -> str:
    """The text of a directed graph in Graphviz's language."""
    lines = [f"digraph environment {{\n{_HEAD}", f"  label=<<b>{_escaped(picture.title)}</b>>;"]
    for group in picture.groups:
        lines += _group(group, "  ", 0)
    lines += [f"  {_node(node)}" for node in picture.nodes]
    for arrow in picture.arrows:
        label = f" [label=<{_wrapped(arrow.label)}>]" if arrow.label else ""
        lines.append(f"  {arrow.source} -> {arrow.target}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _group(group: Group, indent: str, depth: int) -> Iterator[str]:
    fill = "#f7f9fb" if depth == 0 else "#ffffff"
    yield f"{indent}subgraph cluster_{group.id} {{"
    yield f'{indent}  style="filled,rounded"; color="#7a8794"; fillcolor="{fill}"; labeljust=l;'
    yield f"{indent}  label=<{_left(group.title, group.lines)}>;"
    for inner in group.groups:
        yield from _group(inner, indent + "  ", depth + 1)
    for node in group.nodes:
        yield f"{indent}  {_node(node)}"
    yield f"{indent}}}"


def _node(node: Node) -> str:
    colours = COLOURS[node.kind]
    return (
        f"{node.id} [label=<{_label(node.title, node.lines)}>, "
        f'fillcolor="{colours.fill}", color="{colours.line}"];'
    )


def _label(title: str, lines: Iterable[str]) -> str:
    return "<br/>".join([f"<b>{_escaped(title)}</b>", *map(_escaped, lines)])


def _left(title: str, lines: Iterable[str]) -> str:
    return "".join(
        f'{line}<br align="left"/>' for line in (f"<b>{_escaped(title)}</b>", *map(_escaped, lines))
    )


def _wrapped(label: str) -> str:
    """The label of an arrow, a role and its parts in two lines."""
    return ":<br/>".join(map(_escaped, label.split(": ", 1)))


def _escaped(text: str) -> str:
    plain = "".join(character if character.isprintable() else " " for character in text)
    return "".join(_ENTITIES.get(character, character) for character in plain)

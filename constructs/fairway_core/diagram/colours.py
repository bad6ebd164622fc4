"""The colours of boxes: dark text is readable on each, in print and by the colour-blind."""

from __future__ import annotations

from dataclasses import dataclass

from fairway_core.diagram.picture import Kind


@dataclass(frozen=True)
class Colours:
    """Of a box, and of the line around it."""

    fill: str
    line: str


COLOURS = {
    Kind.MACHINES: Colours("#cfe3f7", "#1f5f99"),
    Kind.FILES: Colours("#d8efd3", "#3a7d34"),
    Kind.SERVICE: Colours("#fdeac6", "#a86f00"),
    Kind.IDENTITY: Colours("#eadcf3", "#6f3f91"),
    Kind.NETWORK: Colours("#e8ebee", "#5b6670"),
}

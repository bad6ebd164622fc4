"""From the synthesized stacks of an environment to its picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.diagram.boxes import boxes
from fairway_core.diagram.networks import group_by_network
from fairway_core.diagram.picture import Picture
from fairway_core.diagram.reach import arrows
from fairway_core.diagram.terraform import Terraform

if TYPE_CHECKING:
    from collections.abc import Mapping


def draw(stacks: Mapping[str, Mapping[str, Any]], title: str) -> Picture:
    """The picture of stacks, each the content of its `cdk.tf.json` by the stack's name.

    The same stacks give the same picture, whatever their order.

    >>> draw({}, "nothing").nodes
    []
    """
    terraform = Terraform(stacks)
    picture = Picture(title)
    drawn = boxes(terraform)
    # They come first: an arrow may need a box of its own at its end.
    found = list(arrows(terraform, drawn))
    group_by_network(terraform, drawn, picture)
    picture.arrows += found
    return picture

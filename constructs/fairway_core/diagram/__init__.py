"""Diagrams of an environment: its resources, their networks, and their connections.

`draw` makes a `Picture` of an environment; `markdown` and `graphviz` format it. None of them needs
a network, credentials or Terraform.
"""

from fairway_core.diagram.build import draw
from fairway_core.diagram.model import Picture, graphviz, markdown

__all__ = ["Picture", "draw", "graphviz", "markdown"]

"""Pictures of an environment: what is made, where it stands, and who reaches whom.

`draw` makes a `Picture` of an environment; `markdown` and `graphviz` write it down.
None of them needs a network, credentials or Terraform.
"""

from fairway_core.diagram.drawing import draw
from fairway_core.diagram.picture import Picture, graphviz, markdown

__all__ = ["Picture", "draw", "graphviz", "markdown"]

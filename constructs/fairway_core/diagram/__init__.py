"""Pictures of an environment, from its synthesized Terraform: who stands where and reaches whom.

`draw` makes a `Picture` of the stacks' `cdk.tf.json`; `markdown`, `mermaid` and `graphviz`
write it down. None of them needs a network, credentials or Terraform itself.
"""

from fairway_core.diagram.drawing import draw
from fairway_core.diagram.picture import Arrow, Group, Kind, Node, Picture
from fairway_core.diagram.writing import graphviz, markdown, mermaid

__all__ = ["Arrow", "Group", "Kind", "Node", "Picture", "draw", "graphviz", "markdown", "mermaid"]

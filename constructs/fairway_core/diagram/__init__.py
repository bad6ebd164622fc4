"""Pictures of an environment, from its synthesized Terraform: who stands where and reaches whom.

`draw` makes a `Picture` of the stacks' `cdk.tf.json`; `markdown`, `mermaid` and `graphviz`
write it down. None of them needs a network, credentials or Terraform itself.
"""

from fairway_core.diagram.drawing import draw
from fairway_core.diagram.graphviz import graphviz
from fairway_core.diagram.mermaid import markdown, mermaid
from fairway_core.diagram.picture import Arrow, Group, Kind, Node, Picture

__all__ = ["Arrow", "Group", "Kind", "Node", "Picture", "draw", "graphviz", "markdown", "mermaid"]

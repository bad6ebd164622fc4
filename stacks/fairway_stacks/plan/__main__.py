"""The earlier spelling of `fairway plan`."""

from fairway_stacks.renamed import refuse

refuse("fairway_stacks.plan", "plan")

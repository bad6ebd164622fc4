"""Plans of an environment's stacks, from its file to the review, and the deployment of those.

`python -m fairway_stacks.plan` is `bin/plan`, `python -m fairway_stacks.plan.deploy` is
`bin/deploy`. Both run Terraform and `fairway review` as programs.
"""

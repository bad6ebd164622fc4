"""Plans of an environment's stacks, from its file to the review, and their deployment.

`fairway plan` and `fairway deploy` are the commands; both run Terraform as a program.
"""

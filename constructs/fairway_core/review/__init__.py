"""Reviews of Terraform plans, for people and for programs.

`read_plan` parses the output of `terraform show -json`, `review` reports what would change, what
would be destroyed and what that costs, and `markdown` formats it as a comment on a pull request.

>>> from fairway_core.review.plan import read_plan
>>> from fairway_core.review.review import review
>>> review([read_plan("demo-data=plan.json")]).unapproved_losses  # doctest: +SKIP
()
"""

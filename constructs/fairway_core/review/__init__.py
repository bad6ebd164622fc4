"""Reviews of Terraform plans, for people and for programs.

`read_plan` reads what `terraform show -json` prints, `review` says what would change, what it
would destroy and what that costs, and `markdown` writes it as a comment of a pull request.

>>> from fairway_core.review.plan import read_plan
>>> from fairway_core.review.review import review
>>> review([read_plan("demo-data=plan.json")]).lost  # doctest: +SKIP
()
"""

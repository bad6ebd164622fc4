"""Checks that need answers from Azure: offers, quotas and registrations of a subscription.

Queried read-only through Azure Resource Manager, with the user's credentials. `rules` holds the
rules, pure functions over the answers; `azure_queries` asks, and `doctor` looks at this machine
too. Their ids are in `fairway_core.checks.live`.
"""

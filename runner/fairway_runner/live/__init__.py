"""Checks that need answers from Azure: offers, quotas and registrations of a subscription.

Azure Resource Manager is queried read-only, with the user's credentials. `rules` holds the rules,
pure functions over the answers; `azure_queries` asks, and `doctor` checks this machine too. Their
ids are in `fairway_core.checks.live`.
"""

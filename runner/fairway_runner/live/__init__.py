"""What only Azure knows of an environment: offers, quotas and registrations of a subscription.

Asked read-only through Azure Resource Manager, with the credentials of the user.
`rules` holds the rules, pure functions over what was answered; `asking` asks. Their ids stand in
`fairway_core.checks.live`.
"""

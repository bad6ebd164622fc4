"""What only Azure knows of an environment: offers, quotas and registrations of a subscription.

Asked read-only through Azure Resource Manager, with the credentials of whoever runs this.
`rules` holds the rules, pure functions over what was answered; `asking` asks. Their ids stand in
`fairway_core.checks.live`.
"""

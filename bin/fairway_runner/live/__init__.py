"""What only Azure knows of an environment: offers, quotas and registrations of a subscription.

Asked read-only through Azure Resource Manager, with the credentials of whoever runs this.
`rules` holds the rules, pure functions over what was answered; `asking` asks.
"""

LIVE = frozenset(
    {
        "no-image-version",
        "not-allowed",
        "provider-not-registered",
        "quota-in-use",
        "quota-too-small",
        "size-not-in-zone",
        "size-not-offered",
        "size-restricted",
    }
)
"""The ids of what these rules find."""

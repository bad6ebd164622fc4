"""Resource azurerm_management_lock of hashicorp/azurerm 5.2.0; written by bin/bindings, never edited."""

from __future__ import annotations

from collections.abc import Sequence

from fairway_constructs.bindings.attributes import StringAttribute
from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk import Construct, ITerraformDependable, Lifecycle, Provider, Resource


class ManagementLock(Resource):
    """The resource azurerm_management_lock."""

    TYPE = "azurerm_management_lock"

    id = StringAttribute()
    lock_level = StringAttribute()
    name = StringAttribute()
    notes = StringAttribute()
    scope_ = StringAttribute("scope")

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        lock_level: str,
        name: str,
        scope_: str,
        notes: str | None = None,
        timeouts: Timeouts | None = None,
        lifecycle: Lifecycle | None = None,
        depends_on: Sequence[ITerraformDependable] = (),
        provider: Provider | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            {
                "lock_level": lock_level,
                "name": name,
                "scope": scope_,
                "notes": notes,
                "timeouts": timeouts,
            },
            lifecycle=lifecycle,
            depends_on=depends_on,
            provider=provider,
        )

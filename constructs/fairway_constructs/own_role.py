"""A role of a few actions, where no built-in one is as narrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.role_definition import Permissions, RoleDefinition
from fairway_constructs.unique_name import client_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_constructs.cdk import Construct


def subscription_of(scope: Construct) -> str:
    """The resource id of the subscription that is deployed to."""
    return f"/subscriptions/{client_config(scope).subscription_id}"


def own_role(
    scope: Construct, key: str, *, name: str, description: str, actions: Sequence[str]
) -> str:
    """The id of a new role. It is made for the subscription, where alone one can be made, and
    allows nothing before it is given to somebody on a resource."""
    subscription = subscription_of(scope)
    return RoleDefinition(
        scope,
        key,
        name=name,
        scope_=subscription,
        description=description,
        permissions=[Permissions(actions=list(actions))],
        assignable_scopes=[subscription],
    ).role_definition_resource_id

"""Names that are taken in all of Azure: stable, and different for every subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.cdk import surroundings
from fairway_constructs.scope import place_of
from fairway_core.naming import unique_suffix

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct


def client_config(scope: Construct) -> DataClientConfig:
    """Who runs Terraform, and in which subscription; read once a stack."""
    inside = surroundings(scope)
    return inside.addresses.shared("current", lambda: DataClientConfig(inside.stack, "current"))


def unique_name(scope: Construct, kind: str, *parts: str) -> str:
    """A name of that kind and these parts, which Terraform completes from the subscription's id.

    >>> unique_name(stack, "key_vault", place)  # doctest: +SKIP
    'h100-kv${substr(sha256(join("-", [data.azurerm_client_config.current…, "h100"])), 0, 8)}'
    """
    place = place_of(scope)
    suffix = unique_suffix(client_config(scope).subscription_id, place.environment)
    return place.name(kind, *parts, suffix=suffix)

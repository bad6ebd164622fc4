"""The terms of Marketplace images: accepted once for a subscription, by who is asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_constructs.azurerm.marketplace_agreement import MarketplaceAgreement
from fairway_constructs.cdk import surroundings

if TYPE_CHECKING:
    from fairway_constructs.cdk import Construct
    from fairway_core.catalog import Plan


def accept_terms(scope: Construct, plan: Plan) -> MarketplaceAgreement:
    """Accepts the terms of a plan, once in a stack however often it is called.

    Azure keeps one acceptance a subscription: where another environment, or
    `az vm image terms accept`, has accepted already, Terraform refuses to do it again.

    >>> accept_terms(stack, image("almalinux-hpc-9").plan)  # doctest: +SKIP
    """
    id = f"terms-{plan.product}-{plan.name}"  # noqa: A001
    inside = surroundings(scope)

    def make() -> MarketplaceAgreement:
        return MarketplaceAgreement(
            inside.stack, id, publisher=plan.publisher, offer=plan.product, plan=plan.name
        )

    return inside.addresses.shared(id, make)

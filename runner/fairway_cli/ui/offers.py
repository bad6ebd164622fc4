"""What a subscription may have of VM sizes, as plain data and as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.columns import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.live.offers import Offer


def offer_facts(offer: Offer) -> dict[str, Any]:
    """One size; `room` is how many VMs the quota leaves, null where a pool's account knows it."""
    facts = {**asdict(offer), "room": offer.room, "offered": not offer.refusal}
    return {**facts, "refusal": offer.refusal or None, "nearest": offer.nearest or None}


def offer_table(offers: Sequence[Offer]) -> str:
    """A line for each part of the environment."""
    header = ("SIZE", "FOR", "WANTED", "YOURS", "ZONES", "VCPUS LEFT", "ROOM FOR", "NEAREST")
    return columns(header, [_row(each) for each in offers])


def _row(offer: Offer) -> tuple[str, ...]:
    left = "" if offer.vcpus_left is None else f"{offer.vcpus_left} of {offer.vcpus_limit}"
    return (
        offer.size,
        offer.path,
        f"{offer.wanted}{' Spot' if offer.spot else ''}",
        offer.refusal or "yes",
        ", ".join(offer.zones) or "-",
        left or "?",
        "?" if offer.room is None else str(offer.room),
        offer.nearest,
    )

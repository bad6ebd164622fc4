"""The table of services with private endpoints."""

from __future__ import annotations

import pytest

from fairway_core.catalog.private_links import private_link, private_links
from fairway_core.findings import UserError


def test_every_service_has_a_zone_of_azures_for_private_links() -> None:
    for name, link in private_links().items():
        assert link.zone.startswith("privatelink."), name
        assert link.subresource.isalpha(), name


def test_private_links_of_batch_share_one_zone() -> None:
    assert private_link("batch").zone == private_link("batch_node_management").zone
    assert private_link("batch") != private_link("batch_node_management")


def test_an_unknown_service_is_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown private link service `registri`") as caught:
        private_link("registri")
    assert "registry" in caught.value.findings[0].hint

"""What the core says of Terraform's resource types agrees with the provider's schema."""

from fairway_constructs.bindings.facts import kept_facts
from fairway_core.catalog.tables import table
from fairway_core.catalog.terraform_types import holds_data, stands_inside_another, takes_tags

ROWS = table("terraform_types")["terraform_types"]


def test_a_type_takes_tags_exactly_where_the_provider_says_so() -> None:
    for name, body in kept_facts().resources.items():
        assert takes_tags(name) == ("tags" in body.attributes), name


def test_every_type_that_is_named_has_bindings() -> None:
    known = kept_facts().resources
    for list_ in ("holds_data", "inside_another", "untaggable"):
        assert set(ROWS[list_]) <= set(known)
        assert ROWS[list_] == sorted(ROWS[list_])


def test_terraform_types_inside_another_resource_hold_data_too() -> None:
    assert set(ROWS["inside_another"]) <= set(ROWS["holds_data"])
    assert holds_data("azurerm_storage_share")
    assert stands_inside_another("azurerm_storage_share")
    assert not takes_tags("terraform_data")

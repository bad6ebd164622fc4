"""Python's names for Terraform's: what is taken, and what becomes of it."""

import keyword

import pytest

from fairway_constructs import cdk
from fairway_constructs.bindings import names
from fairway_constructs.bindings.facts import Body, kept_facts


def test_the_reserved_members_are_those_of_our_classes() -> None:
    classes = (cdk.Resource, cdk.DataSource)
    members = {name for cls in classes for name in dir(cls) if not name.startswith("_")}
    assert members | {"TYPE", "terraform_address"} == names.MEMBERS


@pytest.mark.parametrize(
    ("attribute", "argument", "member", "field"),
    [
        ("name", "name", "name", "name"),
        ("type", "type", "type", "type"),
        ("scope", "scope_", "scope_", "scope"),
        ("id", "id_", "id", "id"),
        ("node", "node_", "node_", "node"),
        ("provider", "provider_", "provider_", "provider"),
        ("count", "count_", "count_", "count"),
        ("from", "from_", "from_", "from_"),
        ("str", "str_", "str_", "str_"),
    ],
)
def test_a_name_that_is_taken_ends_in_an_underscore(
    attribute: str, argument: str, member: str, field: str
) -> None:
    assert names.argument_name(attribute) == argument
    assert names.member_name(attribute) == member
    assert names.field_name(attribute) == field


def test_modules_and_classes() -> None:
    assert names.module_name("azurerm_subnet") == "subnet"
    assert names.module_name("azurerm_client_config", data=True) == "data_client_config"
    assert names.class_name("monitor_scheduled_query_rules_alert_v2") == (
        "MonitorScheduledQueryRulesAlertV2"
    )
    assert names.block_class_name(("os_disk", "diff"), set()) == "OsDiskDiff"
    assert names.block_class_name(("probe",), {"Probe"}) == "ProbeBlock"
    assert names.block_class_name(("lifecycle",), set()) == "LifecycleBlock"


def test_no_name_of_terraforms_is_a_keyword_after_renaming_or_ends_in_an_underscore() -> None:
    def check(body: Body) -> None:
        for name in (*body.attributes, *body.blocks):
            assert not name.endswith("_")
            assert not keyword.iskeyword(names.field_name(name))
        for nested in body.blocks.values():
            check(nested.body)

    facts = kept_facts()
    for body in (facts.configuration, *facts.resources.values(), *facts.data_sources.values()):
        check(body)

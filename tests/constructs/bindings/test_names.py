"""Python names for Terraform's names, and the renaming of reserved ones."""

import keyword

import pytest

from fairway_constructs import cdk
from fairway_constructs.bindings import names
from fairway_constructs.bindings.facts import Body, kept_facts


def test_names_reserved_equal_members_of_base_classes() -> None:
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
def test_names_that_are_taken_end_with_an_underscore(
    attribute: str, argument: str, member: str, field: str
) -> None:
    assert names.argument_name(attribute) == argument
    assert names.member_name(attribute) == member
    assert names.field_name(attribute) == field


def test_names_of_modules_and_classes_are_derived_from_types() -> None:
    assert names.module_name("azurerm_subnet") == "subnet"
    assert names.module_name("azurerm_client_config", data=True) == "data_client_config"
    assert names.class_name("monitor_scheduled_query_rules_alert_v2") == (
        "MonitorScheduledQueryRulesAlertV2"
    )
    assert names.block_class_name(("os_disk", "diff"), set()) == "OsDiskDiff"
    assert names.block_class_name(("probe",), {"Probe"}) == "ProbeBlock"
    assert names.block_class_name(("lifecycle",), set()) == "LifecycleBlock"


def test_names_of_provider_are_no_keywords_once_renamed_nor_end_with_underscore() -> None:
    def check(body: Body) -> None:
        for name in (*body.attributes, *body.blocks):
            assert not name.endswith("_")
            assert not keyword.iskeyword(names.field_name(name))
        for nested in body.blocks.values():
            check(nested.body)

    facts = kept_facts()
    for body in (facts.configuration, *facts.resources.values(), *facts.data_sources.values()):
        check(body)

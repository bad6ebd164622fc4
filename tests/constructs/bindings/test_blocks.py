"""Blocks as frozen dataclasses, their conversion to Terraform's JSON, and Python names for
Terraform's, of which reserved ones are renamed."""

import dataclasses
import inspect
import keyword

import pytest

from fairway_constructs import cdk
from fairway_constructs.bindings import names
from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts, terraform_value
from fairway_constructs.bindings.facts import Body, kept_facts
from fairway_core.findings import UserError


class _Inner(Block):
    key: str


class _Outer(Block):
    name: str
    inner: _Inner
    many: list[_Inner] | None = None
    import_: str | None = None
    size: float | None = None


class _Empty(Block):
    pass


class _Object(ObjectValue):
    server: str | None = None
    user: str | None = None


def test_block_is_a_frozen_dataclass() -> None:
    block = _Outer(name="a", inner=_Inner(key="k"))
    assert dataclasses.is_dataclass(block)
    assert [field.name for field in dataclasses.fields(block)] == [
        "name",
        "inner",
        "many",
        "import_",
        "size",
    ]
    assert dataclasses.replace(block, name="b") == _Outer(name="b", inner=_Inner(key="k"))
    with pytest.raises(UserError, match="`name` of _Outer does not change"):
        block.name = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del block.name


def test_block_fields_are_known_before_first_instance() -> None:
    class Above(Block):
        key: str

    class Below(Above):
        label: str | None = None

    class Shown(Block):
        key: str
        size: float | None = None

    assert repr(Below(key="k", label="l")) == "Below(key='k', label='l')"
    assert str(inspect.signature(Shown)) == "(*, key, size=None)"


def test_block_equality_and_repr_use_type_and_given_values() -> None:
    block = _Outer(name="a", inner=_Inner(key="k"), size=0)
    assert block == _Outer(name="a", inner=_Inner(key="k"), size=0)
    assert hash(block) == hash(_Outer(name="a", inner=_Inner(key="k"), size=0))
    assert block != _Outer(name="a", inner=_Inner(key="k"))
    assert _Inner(key="k") != "k"
    assert _Empty() != _Object()
    assert repr(block) == "_Outer(name='a', inner=_Inner(key='k'), size=0)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "_Inner: missing a required argument: 'key'"),
        (
            {"key": "k", "kye": "k"},
            "unexpected keyword argument 'kye'\n  did you mean `key`",
        ),
    ],
)
def test_block_with_missing_or_unknown_field_raises_user_error(
    arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        _Inner(**arguments)


def test_block_refuses_positional_arguments() -> None:
    with pytest.raises(UserError, match="positional"):
        _Inner("k")  # type: ignore[misc]
    with pytest.raises(UserError, match="positional"):
        _Empty("k")  # type: ignore[call-arg]


def test_terraform_value_omits_none_and_restores_renamed_fields() -> None:
    block = _Outer(name="a", inner=_Inner(key="k"), many=[_Inner(key="l")], import_="yes", size=0)
    assert terraform_value({"outer": block, "absent": None, "off": False, "none": []}) == {
        "outer": {
            "name": "a",
            "inner": {"key": "k"},
            "many": [{"key": "l"}],
            "import": "yes",
            "size": 0,
        },
        "off": False,
        "none": [],
    }
    assert terraform_value(_Empty()) == {}
    assert terraform_value(Timeouts(create="1h")) == {"create": "1h"}


def test_terraform_value_of_object_writes_null_for_omitted_members() -> None:
    assert terraform_value([_Object(server="s")]) == [{"server": "s", "user": "${null}"}]


def test_terraform_value_of_mapping_keeps_keys() -> None:
    assert terraform_value({"tags": {"owner_": "me"}}) == {"tags": {"owner_": "me"}}


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

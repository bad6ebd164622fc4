"""Blocks as frozen dataclasses, and their conversion to Terraform's JSON."""

import dataclasses
import inspect

import pytest

from fairway_constructs.bindings.blocks import Block, ObjectValue, Timeouts, terraform_value


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
    with pytest.raises(dataclasses.FrozenInstanceError):
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
        ({}, r"_Inner\(\) missing 1 required keyword-only argument: 'key'"),
        ({"key": "k", "kye": "k"}, r"_Inner\(\) got an unexpected keyword argument 'kye'"),
    ],
)
def test_block_with_missing_or_unknown_field_raises_type_error(
    arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        _Inner(**arguments)


def test_block_refuses_positional_arguments() -> None:
    with pytest.raises(TypeError, match="positional"):
        _Inner("k")  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
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

"""Comparison of a plan with an earlier one that was shown while some values were unknown."""

from dataclasses import replace
from typing import Any

import pytest

from fairway_core.review.attributes import HIDDEN, UNKNOWN, AttributeChange
from fairway_core.review.changes import Action, Change, OutputChange
from fairway_core.review.promise import broken_promises
from fairway_core.review.review import StackReview

NIC = "azurerm_network_interface.nic"
SHOWN = Change("s", NIC, "azurerm_network_interface", "hashicorp/azurerm", Action.CREATE)


def _stack(*changes: Change, outputs: tuple[OutputChange, ...] = ()) -> StackReview:
    return StackReview("s", "planned", "", changes=changes, outputs=outputs)


def _created(**values: Any) -> Change:
    return replace(SHOWN, created=values)


def _changed(*attributes: AttributeChange, because: tuple[str, ...] = ()) -> Change:
    action = Action.REPLACE if because else Action.CHANGE
    return replace(SHOWN, action=action, attributes=attributes, because=because)


SUBNET = {"name": "n", "ip": [{"subnet": UNKNOWN, "kind": "Dynamic"}], "key": HIDDEN}


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        (dict(SUBNET), True),
        ({**SUBNET, "ip": [{"subnet": "/s/1", "kind": "Dynamic"}]}, True),
        ({**SUBNET, "ip": [{"subnet": None, "kind": "Dynamic"}]}, True),
        ({**SUBNET, "ip": [{"kind": "Dynamic"}]}, True),
        ({**SUBNET, "ip": [{"subnet": "/s/1", "kind": "Static"}]}, False),
        ({**SUBNET, "ip": []}, False),
        ({**SUBNET, "public": True}, False),
        ({**SUBNET, "key": "in clear text"}, False),
        ({**SUBNET, "name": UNKNOWN}, False),
        ({"name": "n"}, False),
    ],
)
def test_promise_of_created_resource_may_differ_only_in_unknown_values(
    found: dict[str, Any], kept: bool
) -> None:
    differ = broken_promises(_stack(_created(**found)), _stack(_created(**SUBNET)))
    assert differ == ([] if kept else [NIC])


@pytest.mark.parametrize(("found", "shown"), [(1, True), (0, False), (1, 1.0), ("1", 1)])
def test_promise_distinguishes_types_of_equal_values(found: Any, shown: Any) -> None:
    assert broken_promises(_stack(_created(a=found)), _stack(_created(a=shown))) == [NIC]


def test_promise_of_unknown_value_is_kept_by_no_change() -> None:
    unknown = AttributeChange("ip[0].subnet", "/s/1", UNKNOWN)
    size = AttributeChange("size", 1, 2)
    shown = _stack(_changed(unknown, size))
    assert broken_promises(_stack(_changed(size)), shown) == []
    below = AttributeChange("ip[0].subnet.id", "a", "b")
    assert broken_promises(_stack(_changed(below, size)), shown) == []
    beside = AttributeChange("ip[0].subnets", "a", "b")
    assert broken_promises(_stack(_changed(beside, size)), shown) == [NIC]
    assert broken_promises(_stack(), _stack(_changed(unknown))) == []
    assert broken_promises(_stack(), shown) == [NIC], "the size was to change"


def test_promise_is_broken_by_any_change_not_shown() -> None:
    unknown = AttributeChange("subnet", "/s/1", UNKNOWN, forces=True)
    known = AttributeChange("subnet", "/s/1", "/s/2", forces=True)
    replaced = _changed(known, because=("subnet",))
    assert broken_promises(_stack(replaced), _stack(_changed(unknown, because=("subnet",)))) == []
    assert broken_promises(_stack(replaced), _stack(_changed(unknown))) == [NIC]
    assert broken_promises(_stack(replaced), _stack()) == [NIC]
    gone = replace(SHOWN, action=Action.DESTROY)
    assert broken_promises(_stack(gone), _stack(_created(**SUBNET))) == [NIC]
    assert broken_promises(_stack(), _stack(gone)) == [NIC]
    pending = replace(_stack(), in_base=(_created(**SUBNET),))
    assert broken_promises(_stack(_created(**SUBNET)), pending) == []


def test_promise_covers_outputs() -> None:
    def one(new: Any, action: Action = Action.CREATE) -> StackReview:
        return _stack(outputs=(OutputChange("targets", action, None, new),))

    assert broken_promises(one(["a", "b"]), one(["a", UNKNOWN])) == []
    assert broken_promises(one(["c", "b"]), one(["a", UNKNOWN])) == ["targets"]
    assert broken_promises(one(None, Action.DESTROY), one(UNKNOWN)) == ["targets"]
    assert broken_promises(_stack(), one(UNKNOWN)) == []
    assert broken_promises(_stack(), one("a")) == ["targets"]
    assert broken_promises(one("a"), _stack()) == ["targets"]

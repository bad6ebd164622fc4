"""Manifests in a plan: told object by object and field by field, and never at any price."""

from __future__ import annotations

from typing import Any

import pytest

from fairway_core.kubernetes.documents import manifest, text
from fairway_core.review.attributes import attribute_changes
from fairway_core.review.manifests import objects_of

QUOTA = {**manifest("v1", "ResourceQuota", "fairway", "training"), "spec": {"hard": {"pods": "8"}}}
SPACE = manifest("v1", "Namespace", "training")


def told(before: str, after: str, **more: Any) -> dict[str, tuple[Any, Any]]:
    change = {"before": {"source_content": before}, "after": {"source_content": after}, **more}
    return {each.path: (each.old, each.new) for each in attribute_changes(change)}


def test_a_field_that_changes_is_told_by_its_object() -> None:
    less = {**QUOTA, "spec": {"hard": {"pods": "4"}}}
    found = told(text([SPACE, QUOTA]), text([less, SPACE]))
    assert found == {'source_content["ResourceQuota training/fairway"].spec.hard.pods': ("8", "4")}


def test_an_object_that_comes_or_goes_is_told_whole() -> None:
    path = 'source_content["ResourceQuota training/fairway"]'
    assert told(text([SPACE]), text([SPACE, QUOTA])) == {path: (None, QUOTA)}
    assert told(text([SPACE, QUOTA]), text([SPACE])) == {path: (QUOTA, None)}


def test_every_field_is_what_replaces_the_blob() -> None:
    change = {
        "before": {"source_content": text([QUOTA])},
        "after": {"source_content": text([{**QUOTA, "spec": {"hard": {"pods": "4"}}}])},
        "replace_paths": [["source_content"]],
    }
    assert [each.forces for each in attribute_changes(change)] == [True]


@pytest.mark.integration
@pytest.mark.parametrize(
    "other",
    [
        "plain words",
        "kind: Namespace",
        "kind: Namespace\nmetadata: {name: [a]}",
        "kind: Namespace\nmetadata: {name: a, namespace: 1}",
        "kind: a\nmetadata: {name: a}\n---\nkind: a\nmetadata: {name: a}",
        "kind: a\nmetadata: &m {name: a}\nother: *m",
        "kind: !!python/name:os.system a\nmetadata: {name: a}",
        "kind: a\nmetadata: {name: a}\nkind: b",
        "kind: a\nmetadata: {name: a}\nx: " + "[" * 3000 + "]" * 3000,
        "kind: [",
        "kind: a\nmetadata: {name: a}\nx: " + "y" * (1 << 20),
    ],
    ids=[
        "words",
        "nameless",
        "list",
        "number",
        "twice",
        "alias",
        "tag",
        "keys",
        "deep",
        "broken",
        "long",
    ],
)
def test_any_other_text_is_told_as_it_is(other: str) -> None:
    assert objects_of(other) is None
    assert set(told(other, text([QUOTA]))) == {"source_content"}
    assert set(told(text([QUOTA]), other)) == {"source_content"}


def test_manifest_changes_keep_unknown_and_sensitive_contents() -> None:
    unknown = {"after_unknown": {"source_content": True}}
    [(_, new)] = told(text([QUOTA]), "", **unknown).values()
    assert repr(new) == "(known after apply)"
    secret = {"before_sensitive": {"source_content": True}}
    [(old, new)] = told(text([QUOTA]), text([SPACE]), **secret).values()
    assert repr(old) == repr(new) == "(sensitive)"

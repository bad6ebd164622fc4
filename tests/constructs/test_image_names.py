"""The names that images may have."""

import pytest

from fairway_core.fields import is_image

DIGEST = "sha256:" + "0a" * 32
TAKEN = (
    *("a", "python:3.12-slim", "team/train:1", "localhost:5000/train", f"ubuntu@{DIGEST}"),
    "Registry.example:443/a/b__c/d-e.f:V1_x",
    f"nvcr.io/nvidia/pytorch:24.10-py3@{DIGEST}",
)
REFUSED = (
    *("", "Train:1", "train:", "train:a b", ":1", "/train", "train/", "a//b", "-train", "a_-b"),
    *("https://nvcr.io/nvidia/pytorch", "docker://train", "train@sha256:12", "train@1"),
    *("${IMAGE}", "train\n", "tr\u00e4in", f"a:{'1' * 129}", "a" * 256),
)


@pytest.mark.parametrize("text", [*TAKEN, *REFUSED])
def test_image_has_a_name_that_a_registry_may_have(text: str) -> None:
    assert is_image(text) is (text in TAKEN)

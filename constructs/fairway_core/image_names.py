"""The names of container images, as registries have them."""

from __future__ import annotations

import re

# As https://github.com/distribution/reference has it.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)


def is_image(text: str) -> bool:
    """Whether a registry may have an image of that name.

    >>> is_image("myregistry.azurecr.io/team/train:1"), is_image("Train:1"), is_image("train:")
    (True, False, False)
    """
    return len(text) <= 255 and _IMAGE.fullmatch(text) is not None

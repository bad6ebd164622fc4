"""What clusters refer to and do not make: images of a gallery, proximity placement groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def referred_to(clusters: Mapping[str, object], field: str) -> dict[str, str]:
    """The resource ids in a field of clusters: each id once, by the name of the first with it.

    >>> from types import SimpleNamespace as Cluster
    >>> referred_to({"a": Cluster(image_id="i"), "b": Cluster(image_id="i")}, "image_id")
    {'a': 'i'}
    """
    found: dict[str, str] = {}
    for name, cluster in clusters.items():
        resource = getattr(cluster, field)
        if resource and resource not in found.values():
            found[name] = resource
    return found

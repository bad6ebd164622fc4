"""Which CUDA has code for a GPU."""

from __future__ import annotations

from functools import cache

from fairway_core.catalog.tables import table


def least_cuda(architecture: str) -> tuple[int, int] | None:
    """The first CUDA version that knows the architecture; None where it is not NVIDIA's.

    >>> least_cuda("hopper"), least_cuda("cdna3")
    ((11, 8), None)
    """
    return _versions().get(architecture)


@cache
def _versions() -> dict[str, tuple[int, int]]:
    versions = {}
    for architecture, version in table("cuda")["cuda"]["least"].items():
        major, minor = version.split(".")
        versions[architecture] = int(major), int(minor)
    return versions

"""This node's own identity, for what its job reads: once for the whole process."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.azure.http import Failure
from fairway_agent.azure.imds import Metadata
from fairway_agent.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHOSEN = Path("/etc/fairway/identity")


def _own() -> dict[str, str]:
    """Which of the machine's identities is the jobs', where it has several."""
    with suppress(OSError):
        return {"msi_res_id": _CHOSEN.read_text(encoding="ascii").strip()}
    return {}


METADATA = Metadata(identity=_own())

_ROLES = "check that the nodes' identity has a role that may read it"
_HINTS = {401: _ROLES, 403: _ROLES, 404: "is it there, under this name?"}


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Around what is read: a Fault that names it where it cannot be."""
    try:
        yield
    except Failure as failure:
        hint = _HINTS.get(failure.status, "")
        raise Fault("no-access", f"{what} cannot be read: {failure}", hint) from None


def bearer(resource: str) -> dict[str, str]:
    """The header that opens a kind of service; Fault where the node has no identity."""
    with reading("the node's identity"):
        return METADATA.bearer(resource)

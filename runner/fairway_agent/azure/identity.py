"""The identity by which a job's data and secrets are read, once for the whole process: that of its
pod where that has one, and else this node's own."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.azure import workload
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


class Own:
    """Of a pod with an identity of its own that one, and never the node's, which all pods share."""

    def bearer(self, resource: str) -> dict[str, str]:
        """The header that opens a kind of service; Fault or Failure where there is no identity."""
        try:
            if (pod := _of_pod()) is not None:
                return pod.bearer(resource)
        except Failure as failure:
            message = f"the pod's identity opens nothing: {failure}"
            raise Fault("no-access", message, _FEDERATED) from None
        return METADATA.bearer(resource)


OWN = Own()
_FEDERATED = (
    "its identity needs a federated credential for the pod's service account, and the account the "
    "annotation azure.workload.identity/client-id: kubectl describe serviceaccount"
)


@cache
def _of_pod() -> workload.Workload | None:
    return workload.of()


def bearer(resource: str) -> dict[str, str]:
    """The header that opens a kind of service; Fault where there is no identity."""
    with reading("the node's identity"):
        return OWN.bearer(resource)

"""What each of Azure's SDKs is made with: who asks, and over which connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.core.pipeline.transport import RequestsTransport
from requests.adapters import HTTPAdapter

from fairway_runner.engines.azure.gateway import HOSTS, KEPT
from fairway_runner.engines.deadline import LEAST

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_BLOCK = 1 << 20  # bytes of a file that are read at a time
_TIMEOUT = 60.0  # seconds without a byte of an answer


def token_credential() -> TokenCredential:
    """The credential of the user who is signed in on this machine, or of the machine itself."""
    import logging

    from azure.identity import DefaultAzureCredential

    # It would print each way in that it has tried; what is refused is said in one message.
    logging.getLogger("azure").addHandler(logging.NullHandler())
    return DefaultAzureCredential()


def transport(adapter: HTTPAdapter | None = None, deadline: float = _TIMEOUT) -> RequestsTransport:
    """The connections of an adapter, or straight ones; nobody waits at one for longer than the
    `deadline` that the calls have."""
    import requests

    session = requests.Session()
    adapter = adapter or HTTPAdapter(pool_connections=HOSTS, pool_maxsize=KEPT)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return RequestsTransport(
        session=session,
        session_owner=True,
        connection_timeout=min(15.0, max(LEAST, deadline)),
        read_timeout=min(_TIMEOUT, max(LEAST, deadline)),
        connection_data_block_size=_BLOCK,
    )

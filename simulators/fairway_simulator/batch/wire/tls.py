"""A certificate for https on loopback."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path


def server_context(ca_file: Path) -> ssl.SSLContext:
    """A server's context by a certificate of an authority that is made now and not kept; the
    authority's own certificate is written to `ca_file`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context

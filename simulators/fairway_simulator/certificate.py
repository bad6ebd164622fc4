"""An ephemeral authority and the certificate that it signs for `localhost`.

Programs trust it through the authority's file. It is valid for a week, and its key is never
written.
"""

from __future__ import annotations

import datetime
import ssl
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_AUTHORITY = "Fairway loopback authority"
_VALID = datetime.timedelta(days=7)
# A slow clock must not find the certificate not yet valid.
_EARLIER = datetime.timedelta(hours=1)


def serve_as_localhost(
    folder: Path, *, names: Iterable[str] = (), addresses: Iterable[str] = ()
) -> tuple[ssl.SSLContext, Path]:
    """Returns a server's TLS context for `localhost`, and the file of the authority to trust; these
    names and addresses are valid for the server too."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"), False
    )
    usage |= dict.fromkeys(("key_agreement", "encipher_only", "decipher_only"), False)
    authority = _certificate(
        _AUTHORITY,
        authority_key.public_key(),
        authority_key,
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), False),
    )
    known: list[x509.GeneralName] = [x509.DNSName(name) for name in ("localhost", *names)]
    known += [x509.IPAddress(IPv4Address(address)) for address in ("127.0.0.1", *addresses)]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    server = _certificate(
        "localhost",
        server_key.public_key(),
        authority_key,
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName(known), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (issuer, False),
    )
    authority_file, server_file = folder / "ca.pem", folder / "server.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    authority_file.write_bytes(authority.public_bytes(pem))
    server_file.touch(mode=0o600)
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    server_file.write_bytes(key + server.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    server_file.unlink()
    return context, authority_file


def _certificate(
    name: str,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    *extensions: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    """Returns a certificate that the authority signs, with extensions, each critical or not."""
    now = datetime.datetime.now(datetime.UTC)
    subject, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, _AUTHORITY)
    )
    builder = x509.CertificateBuilder(
        issuer, subject, public, x509.random_serial_number(), now - _EARLIER, now + _VALID
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())

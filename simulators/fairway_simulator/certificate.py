"""A throw-away authority and the certificate that it signs for `localhost`.

Programs trust it by the authority's file. It is valid for a week, and its key is never written.
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

_VALID = datetime.timedelta(days=7)
# A clock that is a little slow must not find it too new.
_EARLIER = datetime.timedelta(hours=1)


def serve_as_localhost(
    folder: Path, *, names: Iterable[str] = (), addresses: Iterable[str] = ()
) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS context for `localhost`, and the file of the authority to be trusted; the
    server is also known by these names and addresses."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority(authority_key)
    known: list[x509.GeneralName] = [x509.DNSName(name) for name in ("localhost", *names)]
    known += [x509.IPAddress(IPv4Address(address)) for address in ("127.0.0.1", *addresses)]
    server = _server(server_key.public_key(), authority, authority_key, known)
    authority_file, server_file = folder / "ca.pem", folder / "server.pem"
    authority_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    server_file.touch(mode=0o600)
    server_file.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + server.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    server_file.unlink()
    return context, authority_file


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("Fairway loopback authority")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    return (
        _builder(name, name, public)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    public: ec.EllipticCurvePublicKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: Iterable[x509.GeneralName],
) -> x509.Certificate:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _builder(_name("localhost"), authority.subject, public)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(purpose, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _VALID)
    )

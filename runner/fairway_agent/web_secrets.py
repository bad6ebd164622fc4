"""Loads the secrets of the environment page's proxy from a vault into memory.

Started as a program with its settings and a folder that only root can read. It restarts the proxy
whenever something has changed, such as a renewed certificate.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairway_boot.files import write_secret
from fairway_boot.http import Failure
from fairway_boot.identity import KeyVault
from fairway_boot.imds import Metadata

_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----\n.+?\n-----END \1-----\n", re.DOTALL)
# Text that needs no escaping in Apache's configuration.
_PLAIN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{8,512}")
_PASSPHRASE = re.compile(r'^OIDCCryptoPassphrase "([\w-]+)"$', re.MULTILINE)
_OIDC = "oidc.conf"


def main(arguments: Sequence[str]) -> int:
    """Writes the proxy's files, and restarts the proxy if one has changed. Returns 0, or 1 if the
    vault lacks one or holds something else."""
    given = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    vault = KeyVault(given["vault"], Metadata(identity={"client_id": given["client_id"]}).bearer)
    folder = Path(arguments[1])
    try:
        found = files_of(vault, given["certificate"], given["secret"], folder)
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    changed = [write_secret(folder / name, text.encode()) for name, text in found.items()]
    if any(changed):
        subprocess.run(given["changed"], check=True)
    return 0


def files_of(vault: KeyVault, certificate: str, secret: str, folder: Path) -> dict[str, str]:
    """Returns the proxy's files by name, with the key of its cookies that is in `folder`, or a new
    one. Raises Failure if the vault holds no such secret."""
    chain, key = certificate_of(vault.read(certificate), certificate)
    word = vault.read(secret).strip()
    if not _PLAIN.fullmatch(word) or "${" in word:
        raise Failure(0, "BadSecret", f"{secret} holds no secret of an application of Entra ID")
    before = folder / _OIDC
    known = _PASSPHRASE.search(before.read_text("ascii")) if before.exists() else None
    passphrase = known[1] if known else secrets.token_urlsafe(32)
    lines = (f'OIDCClientSecret "{word}"', f'OIDCCryptoPassphrase "{passphrase}"')
    return {"certificate": chain, "key": key, _OIDC: "".join(f"{line}\n" for line in lines)}


def certificate_of(value: str, name: str) -> tuple[str, str]:
    """Returns the certificate chain, the page's own first, and its key, each as PEM, from what a
    vault keeps: PEM, or PKCS #12 in base64. Raises Failure for any other value."""
    if "-----BEGIN" not in value:
        try:
            packed = base64.b64decode(value, validate=True)
        except binascii.Error:
            packed = b""
        command = ["openssl", "pkcs12", "-nodes", "-passin", "pass:"]
        done = subprocess.run(command, input=packed, capture_output=True)
        if done.returncode:
            raise Failure(0, "BadCertificate", f"{name} holds neither PEM nor PKCS #12")
        value = done.stdout.decode("utf-8", "replace")
    blocks: dict[str, list[str]] = {}
    for one in _BLOCK.finditer(value.replace("\r\n", "\n").rstrip() + "\n"):
        blocks.setdefault("key" if one[1].endswith("PRIVATE KEY") else one[1], []).append(one[0])
    chain, keys = blocks.get("CERTIFICATE", []), blocks.get("key", [])
    if not chain or len(keys) != 1:
        raise Failure(0, "BadCertificate", f"{name} holds no certificate with its key")
    return "".join(chain), keys[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

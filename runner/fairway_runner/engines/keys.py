"""The throw-away ssh key pair of a run, by which its nodes trust each other."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from fairway_core.findings import UserError


def new_key(comment: str) -> tuple[bytes, str]:
    """A private key and its public half, both in OpenSSH's form.

    UserError with exit code 4 where this machine has no ssh-keygen.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "key")
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file)]
        try:
            subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        except FileNotFoundError:
            message = "`ssh-keygen` is not on this machine's PATH"
            raise UserError.of(
                "missing-tool", message, "install OpenSSH's client", exit_code=4
            ) from None
        return file.read_bytes(), file.with_suffix(".pub").read_text(encoding="ascii").strip()

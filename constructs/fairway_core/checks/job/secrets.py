"""Rules on what a job must not say aloud."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.secret_text import secrets_in
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Occurrence
    from fairway_core.checks.subjects import JobSubject


# Short values of such names are no keys: `eos_token=<s>`.
_KEY = re.compile(
    r"(?i)(?:secret|access_key|api_key|token)\s*[=:]\s*[\"']?(?=\S{0,200}[0-9])[a-z0-9+/_.-]{16}"
    r"|key[=:\s]\s*[\"']?[a-z0-9+/]{86}=="
    r"|\b(?:hf_|ghp_|github_pat_|sk-)(?=\S{0,200}[0-9])[a-z0-9_-]{20}"
)


def _texts(subject: JobSubject) -> Iterator[Occurrence]:
    for field in ("command", "setup", "finally"):
        value = subject.job.get(field)
        texts: dict[tuple[str, ...], Any] = {(field,): value}
        if isinstance(value, dict):
            texts = {(field, name): value.get(name) for name in ("command", "release")}
        yield from ((path, {"text": str(text)}) for path, text in texts.items() if text)
    for section in ("env", "params"):
        for name, value in subject.job.get(section, {}).items():
            # With its name, by which a password is known.
            yield (section, name), {"text": f"{name}={value}"}


@check("secret-in-job", Severity.ERROR, Subject.JOB, at=_texts)
def secret_in_job(text: str) -> Iterator[Fault]:
    """A key, a signature or a password in a command, `env` or `params` of a job.

    They are kept with the run, and on a service with its task. What is under `secrets:`
    is not: nodes read it from the vault, by their identity.

    Wrong:
        env:
          DATA: "https://lab.blob.core.windows.net/data?sv=2025-05-05&sig=bm90QVJlYWxPbmVBdEFsbA%3D"

    Right:
        env: {DATA: "https://lab.blob.core.windows.net/data"}
        secrets: {DATA_SIGNATURE: "keyvault:data-signature"}
    """
    kinds = list(secrets_in(text))
    if not kinds and _KEY.search(text):
        kinds = ["a key or a token"]
    for kind in kinds:
        yield Fault(
            f"{kind} is in plain text here",
            "put it into the vault and refer to it: secrets: {NAME: keyvault:NAME}",
        )

"""Rules on what a job must not say aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity
from fairway_core.secret_values import secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import JobSubject, Occurrence


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
    for kind in secrets_in(text, tokens=True):
        yield Fault(
            f"{kind} is in plain text here",
            "put it into the vault and refer to it: secrets: {NAME: keyvault:NAME}",
        )

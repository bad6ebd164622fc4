"""Rules on what a job must not say aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.checks.check import Fault, Subject, check
from fairway_core.checks.secret_text import secrets_in
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import JobSubject


def _texts(subject: JobSubject) -> Iterator[Place]:
    for field in ("command", "setup"):
        if text := subject.job.get(field):
            yield (field,), {"text": str(text)}
    for section in ("env", "params"):
        for name, value in subject.job.get(section, {}).items():
            yield (section, name), {"text": str(value)}


@check("secret-in-job", Severity.ERROR, Subject.JOB, at=_texts)
def secret_in_job(text: str) -> Iterator[Fault]:
    """A key, a signature or a password in the command, `setup`, `env` or `params` of a job.

    They are kept with the run, and on a service with its task. What stands under `secrets:`
    is not: nodes read it from the vault, by their identity.

    Wrong:
        env:
          DATA: "https://lab.blob.core.windows.net/data?sv=2025-05-05&sig=bm90QVJlYWxPbmVBdEFsbA%3D"

    Right:
        env: {DATA: "https://lab.blob.core.windows.net/data"}
        secrets: {DATA_SIGNATURE: "keyvault:data-signature"}
    """
    for kind in secrets_in(text):
        yield Fault(
            f"{kind} stands here in plain text",
            "put it into the vault, and name it: secrets: {NAME: keyvault:NAME}",
        )

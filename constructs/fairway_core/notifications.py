"""Where word of a run is sent, and of what: the section `notify:` of jobs and of projects."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from fairway_core.documents import FieldError, Model

_LOOPBACK = r"(localhost|127\.0\.0\.1|\[::1\])"
_SECRET = "secret:"  # noqa: S105 - how one is named


def _receiver(value: str) -> str:
    if value.startswith(_SECRET):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value.removeprefix(_SECRET)):
            hint = "write secret:NAME, with a name of the job's `secrets:`"
            raise FieldError("this does not name a secret", hint)
        return value
    fits = re.fullmatch(rf"https://[^\s/]+(/\S*)?|http://{_LOOPBACK}(:[0-9]+)?(/\S*)?", value)
    if not fits or not _is_readable(value):
        hint = "write an address that begins with https://, or secret:NAME"
        raise FieldError("this is not the address of a receiver", hint)
    return value


def _is_readable(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an address in them, or a port that is none
        return False


class Notify(Model):
    """Who hears of a run, and when. The message names the run, its state and why; it holds no
    parameter, output or log."""

    webhook: Annotated[str, AfterValidator(_receiver)]
    """Where it is sent: an https address, or `secret:NAME` for one that is in the job's
    `secrets:`."""
    on: Annotated[tuple[Literal["failed", "succeeded", "waiting"], ...], Field(min_length=1)] = (
        "failed",
        "succeeded",
    )
    """Of what: that it failed (or was cancelled), that it succeeded, that it has to wait."""
    form: Literal["auto", "slack", "teams", "json"] = "auto"
    """In which form; `auto` tells Slack and Teams by their addresses, and is JSON elsewhere."""

    @property
    def secret(self) -> str | None:
        """The name of the secret that the address is in."""
        found = self.webhook.startswith(_SECRET)
        return self.webhook.removeprefix(_SECRET) if found else None

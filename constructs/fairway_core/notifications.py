"""Notifications about runs: the section `notify:` of jobs and projects."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from fairway_core.documents import Check, FieldError, Model, matching, rule
from fairway_core.fields import Email, Emails

_LOOPBACK = r"(localhost|127\.0\.0\.1|\[::1\])"
_SECRET = "secret:"  # noqa: S105 - a prefix, not a secret


def _receiver(value: str) -> None:
    if value.startswith(_SECRET):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value.removeprefix(_SECRET)):
            hint = "write secret:NAME, with a name of the job's `secrets:`"
            raise FieldError("this does not name a secret", hint)
        return
    fits = re.fullmatch(rf"https://[^\s/]+(/\S*)?|http://{_LOOPBACK}(:[0-9]+)?(/\S*)?", value)
    try:
        parts = urlsplit(value)
        fits = fits if parts.hostname and parts.port != 0 else None
    except ValueError:  # brackets without an address in them, or an invalid port
        fits = None
    if not fits:
        hint = "write an address that begins with https://, or secret:NAME"
        raise FieldError("this is not the address of a receiver", hint)


def _server(value: str) -> None:
    label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"  # RFC 1035, 2.3.4
    fits = re.fullmatch(rf"{label}(?:\.{label})*(?::([0-9]{{1,5}}))?", value)
    if not fits or not 0 < int(fits[1] or 1) < 65536:
        raise FieldError("this is not a mail server", "write HOST or HOST:PORT")


class Mail(Model):
    """Mail about a run. A server that asks for a `user` must offer TLS."""

    to: Annotated[Emails, Field(min_length=1)]
    """Addresses of the recipients."""
    server: Annotated[str, Check(_server)]
    """The mail server, as `HOST` or `HOST:PORT`; nodes must reach it. The port is 25 by default;
    465 uses TLS from the start."""
    from_: Email = Field(alias="from")
    """Address of the sender."""
    user: Annotated[str, Field(min_length=1)] | None = None
    """User name for the server; by default it is used without signing in."""
    password: (
        Annotated[
            str,
            matching(
                r"secret:[A-Za-z_][A-Za-z0-9_]*",
                "a password must not be in a file",
                "write secret:NAME, with a name of the job's `secrets:`",
            ),
        ]
        | None
    ) = None
    """Password of the user, as `secret:NAME` with a name from the job's `secrets:`."""

    @rule
    def _signs_in(self) -> None:
        if (self.user is None) != (self.password is None):
            hint = "give both, or neither for a server without sign-in"
            raise FieldError("`user` and `password` belong together", hint)

    @property
    def secret(self) -> str | None:
        """The name of the secret that holds the password, or None."""
        return None if self.password is None else self.password.removeprefix(_SECRET)


class Notify(Model):
    """Who is notified about a run, and when: a webhook, people by mail, or both. The message has
    the run's name, state and reason, but no parameters, outputs or log."""

    webhook: Annotated[str, Check(_receiver)] | None = None
    """An https address, or `secret:NAME` for one of the job's `secrets:`."""
    mail: Mail | None = None
    """Send mail, to whom and through which server."""
    on: Annotated[tuple[Literal["failed", "succeeded", "waiting"], ...], Field(min_length=1)] = (
        "failed",
        "succeeded",
    )
    """When to notify: the run `failed` (or was cancelled), `succeeded`, or is `waiting`."""
    form: Literal["auto", "slack", "teams", "json"] = "auto"
    """Format of the webhook's message; `auto` recognizes Slack and Teams by their addresses, and
    sends JSON to others."""

    @rule
    def _has_a_receiver(self) -> None:
        if self.webhook is None and self.mail is None:
            hint = (
                "add `webhook: https://…`, or `mail: {to: [ADDRESS], server: HOST, from: ADDRESS}`"
            )
            raise FieldError("this names no receiver", hint)

    @property
    def secret(self) -> str | None:
        """The name of the secret that holds the webhook's address, or None."""
        found = self.webhook is not None and self.webhook.startswith(_SECRET)
        return self.webhook.removeprefix(_SECRET) if found and self.webhook else None

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets that it needs, each by the field that names it."""
        named = {"webhook": self.secret, "mail.password": self.mail.secret if self.mail else None}
        return {field: name for field, name in named.items() if name is not None}

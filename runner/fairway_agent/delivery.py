"""Brings word of a run to who wants it: posts it, or mails it.

As a program it takes a list of orders on standard input, as JSON: addresses and passwords may be
secrets, and stand in no command line. A receiver that is away is asked again for some minutes;
then it is told in `notify.log` in the run's folder. Standard library only.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import smtplib
    import ssl
    from collections.abc import Mapping, Sequence

PAUSES = (5.0, 30.0, 120.0, 600.0)  # seconds before each further try
PAID_PAUSES = (5.0, 30.0)  # the same where nodes are paid for meanwhile
_ANSWER = 20.0  # seconds for the receiver to answer
_AGAIN = (408, 425, 429)  # of what is the caller's fault, what another try may change
_MAIL_PORT, _TLS_PORT = 25, 465
_TEMPORARY = range(400, 500)  # RFC 5321, 4.2.1: another try may succeed


def deliver(
    orders: Sequence[Mapping[str, Any]], pauses: Sequence[float] | None = None
) -> list[str]:
    """Carries all of them out, those that failed once more after each pause; why some were not
    taken. An order is `{"url": …, "body": …}` or `{"server": …, …}`, as `notify` makes them."""
    left, lost = list(orders), []
    whys: list[str] = []
    for pause in (0.0, *(PAUSES if pauses is None else pauses)):
        if not left:
            break
        time.sleep(pause)
        tried, left, whys = left, [], []
        for order in tried:
            why, is_final = _post(order) if "url" in order else _mail(order)
            if why and is_final:
                lost.append(why)
            elif why:
                left.append(order)
                whys.append(why)
    return [*lost, *(whys if left else [])]


def tell_of(whys: Sequence[str]) -> str:
    """What is written of those that were not taken."""
    return "".join(f"fairway: a notification was not delivered: {why}\n" for why in whys)


def _post(order: Mapping[str, Any]) -> tuple[str, bool]:
    """Why it was not taken, and whether another try would be pointless."""
    # Whatever watches a run does without them: they are as large as all the rest.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    headers = {"Content-Type": "application/json", "User-Agent": "fairway"}
    try:
        data = json.dumps(order["body"]).encode()
        request = Request(order["url"], data, headers)  # noqa: S310 - checked in the job
        with urlopen(request, timeout=_ANSWER):  # noqa: S310
            return "", True
    except HTTPError as error:
        with error:
            is_final = 400 <= error.code < 500 and error.code not in _AGAIN
        return f"the receiver answered {error.code}", is_final
    except ValueError:
        return "its address cannot be read", True
    except OSError as error:
        # Not the error's own text: it may hold the address.
        return f"the receiver did not answer ({type(error).__name__})", False
    except HTTPException:
        return "the receiver gave no proper answer", False


def _mail(order: Mapping[str, Any]) -> tuple[str, bool]:
    """The same of a mail. A password goes to no server that offers no encryption."""
    import smtplib
    import ssl
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"], message["From"] = order["subject"], order["from"]
    message["To"] = ", ".join(order["to"])
    message.set_content(order["text"])
    host, _, port = order["server"].rpartition(":") if ":" in order["server"] else (None, "", "")
    host, number = host or order["server"], int(port or _MAIL_PORT)
    try:
        tls = ssl.create_default_context()
        if number == _TLS_PORT:
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, number, timeout=_ANSWER, context=tls)
        else:
            server = smtplib.SMTP(host, number, timeout=_ANSWER)
        with server:
            if order.get("user") and (why := _sign_in(server, order, tls)):
                return why, True
            refused = server.send_message(message)
    except smtplib.SMTPNotSupportedError:
        return "the mail server takes no address with letters beyond ASCII", True
    except smtplib.SMTPResponseException as error:
        is_final = error.smtp_code not in _TEMPORARY
        return f"the mail server answered {error.smtp_code}", is_final
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        return f"the mail server answered {codes[0]}", not set(codes) & set(_TEMPORARY)
    except (smtplib.SMTPException, OSError) as error:
        return f"the mail server did not answer ({type(error).__name__})", False
    if refused:  # the others have it: it is not sent once more
        codes = [code for code, _ in refused.values()]
        count = f"{len(refused)} of {len(order['to'])} addresses"
        return f"the mail server refused {count} ({codes[0]})", True
    return "", True


def _sign_in(server: smtplib.SMTP, order: Mapping[str, Any], tls: ssl.SSLContext) -> str:
    """Why nobody can sign in there; "" where the user has."""
    import smtplib

    if not isinstance(server, smtplib.SMTP_SSL):
        try:
            server.starttls(context=tls)
        except smtplib.SMTPNotSupportedError:
            return "the mail server offers no encryption, and got no password"
    try:
        server.login(order["user"], order["password"])
    except smtplib.SMTPNotSupportedError:
        return "the mail server lets nobody sign in: leave `user` and `password` out"
    except UnicodeError:
        return "the user or the password has letters beyond ASCII, which mail servers do not take"
    return ""


def main() -> None:
    """The program; see the module's docstring."""
    sys.stderr.write(tell_of(deliver(json.load(sys.stdin))))


if __name__ == "__main__":
    main()

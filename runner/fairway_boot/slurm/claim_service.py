"""Gives a booting instance its node's name: `POST /claim` on the scheduler, inside the network.

Question and answer are signed by munge: root on a machine that has the cluster's key asks, and the
one that answers has it too. slurmd itself relies on the same trust. Asking again gives the same
name: an instance that restarts stays the node that it was.
"""

from __future__ import annotations

import logging
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from fairway_boot.slurm import commands, munge
from fairway_boot.slurm.node_registry import open_registry
from fairway_boot.slurm.settings import begin

if TYPE_CHECKING:
    from fairway_boot.slurm.settings import Settings

_log = logging.getLogger(__name__)
_LONGEST = 16_384
_NUMBER = re.compile(r"[0-9]{1,20}")
_WORD = re.compile(r"[A-Za-z0-9/._()-]{1,400}")


class ClaimServer(ThreadingHTTPServer):
    """The service; each request is answered by a thread of its own."""

    daemon_threads = True

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        super().__init__((settings.claim_address, settings.claim_port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: ClaimServer
    timeout = 30

    def do_POST(self) -> None:
        said = self.headers.get("Content-Length", "")
        length = int(said) if re.fullmatch(r"[0-9]{1,6}", said) else 0
        if self.path != "/claim" or not 0 < length <= _LONGEST:
            self._answer(404, "")
            return
        try:
            credential = self.rfile.read(length).decode("ascii")
            name = claim(self.server.settings, credential, str(self.client_address[0]))
            self._answer(200, munge.encode(self.server.settings, {"name": name}))
        except (munge.UntrustedMessage, UnicodeDecodeError) as error:
            _log.warning("%s: %s", self.client_address[0], error)
            self._answer(403, "")

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing: events are logged where they happen."""


def claim(settings: Settings, credential: str, address: str) -> str | None:
    """Returns the name for the instance that asks from that address; None while none is needed. One
    that cannot be a node says why, which becomes the reason of the nodes that never joined. Raises
    UntrustedMessage for a request that root of one of the nodes did not make."""
    question, uid = munge.decode(settings, credential)
    if uid != 0:
        raise munge.UntrustedMessage(f"user {uid} is not root")
    scale_set, instance = (str(question.get(key, "")) for key in ("scale_set", "id"))
    vm, host, resource = (_word(question.get(key)) for key in ("vm", "host", "resource"))
    if scale_set not in settings.scale_sets or not vm or not _NUMBER.fullmatch(instance):
        raise munge.UntrustedMessage("no instance of a scale set of ours")
    trouble = commands.one_line(str(question.get("trouble", "")))
    with open_registry(settings, scale_set) as registry:
        if trouble and question.get("hardware"):
            registry.fail_host(host, trouble)
        trouble = trouble or registry.refusal(vm, host, settings.refuse_host)
        if trouble:
            registry.troubles[instance] = trouble
        else:
            name = registry.claim(vm, instance, address, host)
    if trouble:
        _log.error("%s instance %s at %s: %s", scale_set, instance, address, trouble)
        return None
    _log.info("%s instance %s at %s is %s", scale_set, instance, address, name or "not needed")
    if name:
        # The node's comment identifies its machine, for `fairway nodes report`.
        comment = f"comment=host={host},vm={vm},resource={resource}"
        try:
            commands.run_command(settings, "scontrol", "update", f"nodename={name}", comment)
        except commands.CommandFailed as error:
            _log.warning("%s", error)
    return name


def _word(value: object) -> str:
    """Returns another machine's name or resource id, which becomes part of a comma-separated list;
    "" if it cannot."""
    text = str(value or "")
    return text if _WORD.fullmatch(text) else ""


def main() -> int:
    """Serves until it is stopped."""
    settings, _ = begin()
    ClaimServer(settings).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

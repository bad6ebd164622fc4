"""Commands of a user that disturb nodes and requests:

    bin/batch-simulator preempt|lose|restore NODE
    bin/batch-simulator fault KIND [--share 0.3] …

They address the simulator named by the variables of its file. Exit codes: 2 the node is unknown, an
option is wrong, or the variables are not set; 5 the simulator does not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import urllib.error
import urllib.request
from typing import Any

from fairway_simulator.batch.simulator import DEFAULT_POOL
from fairway_simulator.command import StandInCommand, number

COMMAND = StandInCommand("batch-simulator", "fairway_simulator.batch")
_OF_NODES = ("preempt", "lose", "restore")
ACTIONS = (*_OF_NODES, "fault")
_OFF = "off"
_KINDS = ("status", "timeout", "cut", "torn", "slow", "latency", "half", "expired")
# Fields of a fault that are sent only if they are given.
_FAULT = ("status", "share", "count", "skip", "seconds", "method", "path", "applied", "retry_after")


def order(words: list[str]) -> int:
    """Runs a command and returns the exit code."""
    options = _options(words)
    try:
        base = os.environ["AZURE_BATCH_ENDPOINT"].rstrip("/")
        key = os.environ["AZURE_BATCH_ACCESS_KEY"]
    except KeyError:
        return COMMAND.say("say which simulator: source ./sim.env", 2)
    method, path, body = _request(options)
    request = urllib.request.Request(  # noqa: S310 - the user's own address
        f"{base}/simulator/{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Key {key}", "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310
            return 0
    except urllib.error.HTTPError as error:
        if error.code == 404 and options.action in _OF_NODES:
            return COMMAND.say(
                f"there is no node `{options.node}`: fairway nodes list batch-sim", 2
            )
        return COMMAND.say(f"{base} refuses: {error}", 5)
    except OSError as error:
        return COMMAND.say(f"{base} does not answer: {error}", 5)


def _request(options: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """Returns method, path and body of the request to the simulator."""
    if options.action in _OF_NODES:
        path = f"pools/{DEFAULT_POOL}/nodes/{options.node}/{options.action}"
        return "POST", path, {"notice": getattr(options, "notice", 0)}
    if options.kind == _OFF:
        return "DELETE", "faults", {}
    given = {name: value for name in _FAULT if (value := getattr(options, name)) is not None}
    return "POST", "faults", {"kind": options.kind, **given}


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"bin/{COMMAND.name}")
    actions = parser.add_subparsers(dest="action", required=True)
    preempt = actions.add_parser("preempt", help="evict a Spot node; its tasks start again")
    preempt.add_argument("--notice", type=float, default=0, metavar="SECONDS")
    lose = actions.add_parser("lose", help="make a node stop responding; its tasks start again")
    restore = actions.add_parser("restore", help="replace a lost node with a new one")
    for each in (preempt, lose, restore):
        each.add_argument("node", help="a name from: fairway nodes list batch-sim")
    _add_fault(actions.add_parser("fault", help="make requests fail, until `fault off`"))
    return parser.parse_args(words)


def _add_fault(fault: argparse.ArgumentParser) -> None:
    whole = number(0, 10**9)
    seconds = number(0.0, 86_400.0)
    fault.add_argument(
        "kind",
        choices=(*_KINDS, _OFF),
        help="status: answer with --status; timeout: be silent for --seconds; cut: hang up; torn: "
        "reset in the middle of the answer; slow: send the answer slowly, for --seconds; latency: "
        "answer after --seconds; half: fail single tasks of a request; expired: refuse the "
        "token; off: end all of these",
    )
    fault.add_argument(
        "--status",
        type=number(400, 599),
        metavar="CODE",
        help="status code of `status` (503)",
    )
    fault.add_argument(
        "--share",
        type=number(0.0, 1.0),
        metavar="0…1",
        help="share of the requests (1: all)",
    )
    fault.add_argument(
        "--count", type=whole, metavar="N", help="at most this many requests (no limit)"
    )
    fault.add_argument("--skip", type=whole, metavar="N", help="leave the first N requests alone")
    fault.add_argument("--seconds", type=seconds, metavar="N")
    fault.add_argument("--method", choices=("GET", "POST", "PUT", "PATCH", "DELETE"))
    fault.add_argument(
        "--path", type=_pattern, metavar="REGEX", help="only requests whose path matches"
    )
    fault.add_argument(
        "--applied",
        action="store_true",
        default=None,
        help="apply the request, but lose its answer",
    )
    fault.add_argument(
        "--retry-after", type=seconds, metavar="SECONDS", help="value of the header Retry-After"
    )


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"no regular expression: {error}") from None
    return text

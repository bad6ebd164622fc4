"""`bin/batch-simulator preempt|lose|restore NODE`: what Azure does to nodes, done by a person.

It speaks to the simulator that the variables of its file name. Exit codes: 2 there is no such
node, or no variables; 5 the simulator does not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

from fairway_simulator.batch.simulator import DEFAULT_POOL

ACTIONS = ("preempt", "lose", "restore")


def order(words: list[str]) -> int:
    """Does what the words say; returns the exit code."""
    options = _options(words)
    try:
        base = os.environ["AZURE_BATCH_ENDPOINT"].rstrip("/")
        key = os.environ["AZURE_BATCH_ACCESS_KEY"]
    except KeyError:
        return _say("say which simulator: source ./sim.env", 2)
    request = urllib.request.Request(  # noqa: S310 - the user's own address
        f"{base}/simulator/pools/{DEFAULT_POOL}/nodes/{options.node}/{options.action}",
        json.dumps({"notice": getattr(options, "notice", 0)}).encode(),
        {"Authorization": f"Key {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310
            return 0
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return _say(f"there is no node `{options.node}`: fairway nodes list batch-sim", 2)
        return _say(f"{base} refuses: {error}", 5)
    except OSError as error:
        return _say(f"{base} does not answer: {error}", 5)


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/batch-simulator")
    actions = parser.add_subparsers(dest="action", required=True)
    preempt = actions.add_parser("preempt", help="take a Spot node away; its tasks begin again")
    preempt.add_argument("--notice", type=float, default=0, metavar="SECONDS")
    lose = actions.add_parser("lose", help="let a node fall silent; its tasks begin again")
    restore = actions.add_parser("restore", help="bring a node back that was lost, as a new one")
    for each in (preempt, lose, restore):
        each.add_argument("node", help="as fairway nodes list batch-sim names it")
    return parser.parse_args(words)


def _say(message: str, code: int) -> int:
    sys.stderr.write(f"batch-simulator: {message}\n")
    return code

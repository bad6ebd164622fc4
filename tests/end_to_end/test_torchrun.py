"""The template `torchrun` on two nodes, with a program of that name that only records."""

import itertools
import os

from program import Fairway
from programs import executable

TORCHRUN = """#!/usr/bin/env bash
# Stands in for torchrun: writes down what it was called with, and then does as it was told.
set -euo pipefail
{ printf '%s\\n' "$@"; } >"$RECORD/argv.$FAIRWAY_NODE_RANK"
env >"$RECORD/env.$FAIRWAY_NODE_RANK"
eval "$ON_NODE"
"""


def test_torchrun_starts_one_agent_per_node_with_one_rendezvous(fairway: Fairway) -> None:
    programs = fairway.folder / "programs"
    executable(programs / "torchrun", TORCHRUN)
    # What follows --no_python is the program of one process.
    ranks = "export LOCAL_RANK=0 RANK=$((3 * FAIRWAY_NODE_RANK)); "
    program = ranks + 'while [ "$1" != --no_python ]; do shift; done; "${@:2}"'
    job = fairway.job(
        "printf '<%s>\\n' {{ params.x }}",
        template="torchrun",
        nodes=2,
        processes_per_node=3,
        params={"x": "it's $5"},
        options={"label_ranks": True},
        env={"RECORD": str(fairway.folder), "ON_NODE": program, "RDZV": "mine"},
    )
    # Programs of an environment that is activated go before Fairway's own.
    path = f"{programs}:{os.environ['PATH']}"
    run = fairway.ok("submit", job, "--watch", PATH=path, VIRTUAL_ENV=str(programs))
    for rank in (0, 3):
        assert run.count(f"\n[{rank}] <it's $5>\n") == 1
    assert len(list(fairway.folder.glob("argv.*"))) == 2
    ports = set()
    for rank in (0, 1):
        call = (fairway.folder / f"argv.{rank}").read_text().splitlines()
        options = dict(itertools.pairwise(call))
        assert options["--nnodes"] == "2"
        assert options["--nproc_per_node"] == "3"
        assert options["--rdzv_backend"] == "c10d"
        host, port = options["--rdzv_endpoint"].split(":")
        assert (host, port.isdecimal()) == ("localhost", True)
        ports.add(port)
    [port] = ports
    for rank in (0, 1):
        env = (fairway.folder / f"env.{rank}").read_text().splitlines()
        for line in (f"FAIRWAY_NODE_RANK={rank}", "FAIRWAY_WORLD_SIZE=6", "RDZV=mine"):
            assert line in env
        assert f"FAIRWAY_MAIN_PORT={port}" in env

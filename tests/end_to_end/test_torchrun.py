"""The template `torchrun` on two nodes, with a program of that name that only records."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess

    from conftest import Fairway, Pipe

TORCHRUN = """#!/usr/bin/env bash
# Stands in for torchrun: writes down what it was called with, and then does as it was told.
set -euo pipefail
{ printf '%s\\n' "$@"; } >"$RECORD/argv.$FAIRWAY_NODE_RANK"
env >"$RECORD/env.$FAIRWAY_NODE_RANK"
eval "$ON_NODE"
"""


class TestTorchrun:
    """The template `torchrun`, with a program of that name that only records."""

    def submit(self, fairway: Fairway, on_node: str) -> subprocess.CompletedProcess[str]:
        programs = fairway.folder / "programs"
        programs.mkdir()
        (programs / "torchrun").write_text(TORCHRUN)
        (programs / "torchrun").chmod(0o755)
        job = fairway.job(
            "printf '<%s>\\n' {{ params.x }}",
            template="torchrun",
            nodes=2,
            processes_per_node=3,
            params={"x": "it's $5"},
            options={"label_ranks": True},
            env={"RECORD": str(fairway.folder), "ON_NODE": on_node, "RDZV": "mine"},
        )
        # Programs of an environment that is activated go before Fairway's own.
        path = f"{programs}:{os.environ['PATH']}"
        return fairway("submit", job, "--watch", PATH=path, VIRTUAL_ENV=str(programs))

    def test_torchrun_starts_one_agent_per_node_with_one_rendezvous(self, fairway: Fairway) -> None:
        # What follows --no_python is the program of one process.
        ranks = "export LOCAL_RANK=0 RANK=$((3 * FAIRWAY_NODE_RANK)); "
        program = ranks + 'while [ "$1" != --no_python ]; do shift; done; "${@:2}"'
        run = self.submit(fairway, program)
        assert run.returncode == 0, run.stdout + run.stderr
        for rank in (0, 3):
            assert run.stdout.count(f"\n[{rank}] <it's $5>\n") == 1
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

    @pytest.mark.nightly
    def test_a_failing_node_fails_the_run_and_ends_the_others(
        self, fairway: Fairway, pipe: Pipe
    ) -> None:
        other = f'exec 9>"{pipe.path}"; echo up >&9; while :; do sleep 60 9>&-; done'
        first = f'[ "$(cat <"{fairway.folder}/up")" = up ]; echo "node 1 fails" >&2; exit 7'
        os.mkfifo(fairway.folder / "up")
        other = other.replace("echo up >&9", f'echo up >&9; echo up >"{fairway.folder}/up"')
        run = self.submit(fairway, f"if [ $FAIRWAY_NODE_RANK = 0 ]; then {other}; else {first}; fi")
        assert run.returncode == 7, run.stdout + run.stderr
        assert "node 1 fails" in run.stdout
        assert pipe.rest() == "up\n"

"""The synthesis as a program: the runner starts it, and knows nothing of what is in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.environment.selection import VARIABLE, environment_file
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping


def synth_command() -> list[str]:
    """The command line that writes the Terraform of the environment that FAIRWAY_ENVIRONMENT
    names: see `fairway_stacks.app`."""
    # -P: a file of the user's that is called like one of Python's modules does no harm.
    return [sys.executable, "-P", "-m", "fairway_stacks.app"]


def synth_variables(choice: str | None) -> dict[str, str]:
    """The variables of the process with which the synthesis takes the environment `choice`.

    Raises UserError where there is no such environment.
    """
    return {**os.environ, VARIABLE: str(environment_file(choice).absolute())}


def synthesized(choice: str | None) -> Mapping[str, Mapping[str, Any]]:
    """The content of each stack's `cdk.tf.json` by the stack's name; nothing is kept.

    Raises SynthesisFailed with what the synthesis said where it refuses the environment.
    """
    variables = synth_variables(choice)
    with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
        variables |= {"CDKTF_OUTDIR": folder, "FAIRWAY_STACKS": ""}
        done = subprocess.run(
            synth_command(), env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SynthesisFailed(done.stderr, done.returncode)
        files = Path(folder).glob("stacks/*/cdk.tf.json")
        return {file.parent.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


class SynthesisFailed(UserError):
    """The synthesis refused the environment; `said` is what it printed of that."""

    def __init__(self, said: str, exit_code: int) -> None:
        super().__init__((), exit_code=exit_code)
        self.said = said

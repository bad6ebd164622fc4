"""Plans without an Azure account: a stand-in for Azure, and states in a folder of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fairway_stacks.plan.stacks import StackFolder

_FAILED = 5


@contextmanager
def loopback_azure() -> Iterator[dict[str, str]]:
    """Runs the stand-in; yields the environment variables that make the provider use it as Azure.

    It ends with this process, even if that is killed: it reads the other end of a pipe.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "fairway_simulator.azure"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        line = program.stdout.readline()
        if not line:
            message = "the stand-in for Azure did not start"
            hint = "see why: python -P -m fairway_simulator.azure"
            raise UserError.of("no-stand-in", message, hint, exit_code=_FAILED)
        try:
            yield json.loads(line)
        finally:
            program.stdin.close()


# A user's settings for the real Azure; none may reach the stand-in's provider.
FOREIGN = ("ARM_", "AZURE_", "TF_CLI_ARGS", "TF_WORKSPACE", "TF_DATA_DIR", "TF_VAR_")


def keep_states_in(folder: Path, stacks: Sequence[StackFolder]) -> None:
    """Makes the synthesized stacks keep their states, which stay empty, in `folder`."""
    for stack in stacks:
        file = stack.folder / "cdk.tf.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        path = str(folder / f"{stack.name}.tfstate")
        document["terraform"]["backend"] = {"local": {"path": path}}
        file.write_text(json.dumps(document, indent=1), encoding="utf-8")

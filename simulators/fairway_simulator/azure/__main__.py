"""`python -m fairway_simulator.azure`: the stand-in, until its standard input ends.

Prints one line of JSON when it is ready: the variables that lead Terraform to it. The program that
starts it holds the other end of the pipe, so it always ends with that program.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from fairway_simulator.azure.control_plane import ControlPlane


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="fairway-azure-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        sys.stdout.write(json.dumps(plane.environment()) + "\n")
        sys.stdout.flush()
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()

"""What a node needs before a task starts on it, which is what one behind ssh needs too.

Started as `prepare RUN_FOLDER` on each node of a task. Its folder on the local disk is
another: Slurm gives each job one of its own. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fairway_agent.prepare import prepare
from fairway_agent.slurm.task import prepare_scratch


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    prepare(Path(sys.argv[1]), lambda: prepare_scratch(Path(os.environ["FAIRWAY_SCRATCH_DIR"])))


if __name__ == "__main__":
    main()

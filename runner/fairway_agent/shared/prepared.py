"""One attempt of a task, on its main host: prepares its nodes, and becomes the task's command.

Started as `prepared RUN_FOLDER OPTION COMMAND…` with the contract in its environment; OPTION is
what FAIRWAY_EACH_NODE takes to be outside of the job's container, or empty. What the job's setup
prints goes to the setup's log. Standard library only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from fairway_agent import bundle, prepare
from fairway_agent.setup import has_setup, set_up


def main() -> None:
    """The program; see the module's docstring for its arguments."""
    run, option, *command = Path(sys.argv[1]), *sys.argv[2:]
    prepare_all = partial(_prepare, run, option)
    code = set_up(run, prepare_all) if has_setup(run) else prepare_all(None)
    if code:
        sys.exit(code)
    os.execvp(command[0], command)  # noqa: S606 - it takes this one's place


def _prepare(run: Path, option: str, printed: int | None) -> int:
    """Prepares every node; the first exit code that is not 0."""
    words = [*bundle.program(prepare.__name__), str(run)]
    if os.environ["FAIRWAY_NODES"] != "1":
        # On the nodes themselves, whatever container the job has.
        words = [os.environ["FAIRWAY_EACH_NODE"], *([option] if option else []), *words]
    code = subprocess.call(words, stdout=printed, stderr=printed)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()

"""Where the program `fairway` begins: with nothing that takes long to import.

Ctrl-C while the rest is imported ends the program as later on, with 130 and no traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> None:
    """The program; see `fairway_cli.main`."""
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.argv[1:2] == ["synth"]:
        # A short life: to look for garbage among thousands of classes is a twentieth of it. And
        # Node.js takes longer to be ready than all that Python imports meanwhile.
        gc.disable()
        from fairway_constructs.node import start_node_ahead

        start_node_ahead()
    from fairway_cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()

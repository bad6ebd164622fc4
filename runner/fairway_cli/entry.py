"""Start of the program `fairway`, without slow imports.

Ctrl-C during the remaining imports, or as the program ends, works as at any other time: the exit
code is 130, and there is no traceback.
"""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> None:
    """Runs the program; see `fairway_cli.main`."""
    # A command creates thousands of classes, but hardly any garbage.
    gc.set_threshold(100_000, 50, 100)
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # Set by `cdktf synth --hcl`. Node.js would see it too, and write cdktf's own HCL.
    hcl = os.environ.pop("SYNTH_HCL_OUTPUT", "") in ("true", "1")
    if sys.argv[1:2] in (["synth"], ["review"]):
        # The process is short-lived, and collecting garbage would take a twentieth of its time.
        gc.disable()
    if sys.argv[1:2] == ["synth"]:
        if hcl:
            sys.argv.insert(2, "--hcl")
        # Node.js starts more slowly than Python can import everything meanwhile.
        from fairway_constructs.node import start_node_ahead

        start_node_ahead()
    from fairway_cli.main import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:  # while it was already ending
        os._exit(130)
    finally:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        gc.freeze()  # otherwise Python collects garbage in all modules just before it exits


if __name__ == "__main__":
    main()

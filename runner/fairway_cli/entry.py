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
    # Thousands of classes are made on the way to a command, and hardly any garbage.
    gc.set_threshold(100_000, 50, 100)
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    # What `cdktf synth --hcl` sets; Node.js would see it too, and write HCL of cdktf's own.
    hcl = os.environ.pop("SYNTH_HCL_OUTPUT", "") in ("true", "1")
    if sys.argv[1:2] in (["synth"], ["review"]):
        # A short life: to look for garbage among thousands of classes is a twentieth of it.
        gc.disable()
    if sys.argv[1:2] == ["synth"]:
        if hcl:
            sys.argv.insert(2, "--hcl")
        # Node.js takes longer to be ready than all that Python imports meanwhile.
        from fairway_constructs.node import start_node_ahead

        start_node_ahead()
    from fairway_cli.main import main as run

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:  # as it was about to end
        os._exit(130)
    finally:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        gc.freeze()  # or Python looks for garbage in all that was imported, and then ends anyway


if __name__ == "__main__":
    main()

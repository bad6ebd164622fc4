"""Entry point of the bundle for Python: answers a request, or runs one of its modules as a program.

    python3 BUNDLE call MODULE.VERB SHARED   answers the request on standard input by that function
    python3 BUNDLE MODULE ARGUMENT…          is `python3 -m MODULE ARGUMENT…`

A request is one line of JSON, followed by the payload. The answer is the last line, after a mark,
because a login shell may print more. Standard library only; Pythons that are too old for the other
modules must be able to parse this file.
"""

from __future__ import annotations

import json
import os
import re
import sys

MARK = "fairway-answer:"
OLD_PYTHON = 67
OLDEST = (3, 10)
# A file with the proxy of an environment: jobs are not started by a login shell, which would read a
# profile.
PROXY = "/etc/fairway/proxy"
# A pod's first process ignores signals before it has a handler: they stay pending until that is
# imported. See `processes.handle_term`.
_PODS = ("fairway_agent.kubernetes.pod", "fairway_agent.kubernetes.controller")
_LINE = re.compile(r"((?:https?|no)_proxy|(?:HTTPS?|NO)_PROXY)=(\S+)")


def answer(called: str, shared: str) -> None:
    """Reads the request that belongs to the verb, and prints the answer or an error."""
    from importlib import import_module
    from pathlib import Path

    from fairway_agent.shared.reports import REQUESTS
    from fairway_boot.files import AgentError

    module, _, verb = called.rpartition(".")
    payload, act = sys.stdin.buffer, getattr(import_module(module), verb)
    request = REQUESTS[verb].from_json(json.loads(payload.readline()))
    value: dict[str, object]
    try:
        value = {"answer": act(Path(shared).expanduser(), request, payload).to_json()}
    except AgentError as fault:
        value = {"fault": fault.record}
    except OSError as error:
        where = error.filename or shared
        message = f"{where}: {error.strerror or error}"
        value = {"fault": {"id": "host-failed", "message": message, "hint": "", "exit_code": 5}}
    sys.stdout.write(f"\n{MARK}{json.dumps(value)}\n")
    sys.stdout.flush()


def use_proxy() -> None:
    """Sets the machine's proxy for everything that jobs start, without replacing the job's own."""
    try:
        with open(PROXY, encoding="utf-8") as file:  # noqa: PTH123
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return
    for found in filter(None, map(_LINE.fullmatch, lines)):
        os.environ.setdefault(found[1], found[2])


def main() -> None:
    if sys.version_info < OLDEST:
        sys.stderr.write(f"Python {sys.version.split()[0]} is too old\n")
        sys.exit(OLD_PYTHON)
    use_proxy()
    if sys.argv[1] == "call":
        answer(sys.argv[2], sys.argv[3])
        return
    import runpy

    sys.argv = sys.argv[1:]
    if sys.argv[0] in _PODS:
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

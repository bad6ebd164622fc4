"""What the patterns of metrics find; in a process of its own for threads, in which nothing can
stop them.

`python -m` this module answers each line of its input, a search, with a line: what was found, or
null where that takes without end. It ends with its input, however the program that started it
ends.
"""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fairway_agent import cpu_limit
from fairway_agent.metric_logs import values_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class PatternProcess:
    """The process, started when it is first needed; one search at a time."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def search(self, pattern: re.Pattern[str], texts: Sequence[str]) -> list[tuple[int, float]]:
        """As `values_of`, within the limit on processor time; OverLimit where it is over."""
        order = {"pattern": pattern.pattern, "texts": texts, "limit": cpu_limit.CPU_LIMIT}
        with self._alone:
            answer = self._ask(json.dumps(order))
        if answer is None:
            raise cpu_limit.OverLimit
        return [(index, value) for index, value in answer]

    def close(self) -> None:
        """Ends it, until it is needed again."""
        if self._process is not None:
            with suppress(BrokenPipeError), self._process as process:
                process.kill()
            self._process = None

    def _ask(self, order: str) -> Any:
        if self._process is None or self._process.poll() is not None:
            self.close()
            atexit.unregister(self.close)
            atexit.register(self.close)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="ascii",
                start_new_session=True,  # Ctrl-C is not meant for it
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(order + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        return json.loads(answer) if answer else None  # killed, as by what its memory may be


def main() -> None:
    """Answers until the input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        cpu_limit.CPU_LIMIT = order["limit"]
        try:
            with cpu_limit.cpu_limit():
                found = values_of(re.compile(order["pattern"]), order["texts"])
        except cpu_limit.OverLimit:
            found = None
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Targets that do not answer: how long they are retried, and how the wait is announced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.findings import UserError, printable

if TYPE_CHECKING:
    import threading

    from fairway_runner.runs.folder import RunFolder

USUAL = 600.0  # seconds
LEAST = 5.0
"""Minimum seconds of one try, however soon the deadline is: enough for any working service."""


class Choice:
    """Choice made with `--deadline`; a program has one command line. It is `offered` if the command
    has the option, and it is worth a hint."""

    seconds: float | None = None
    offered: bool = False


def deadline() -> float:
    """Returns for how many seconds a failing service is retried."""
    return USUAL if Choice.seconds is None else Choice.seconds


def brief() -> float:
    """Returns the seconds for a target that a command can do without, as one of many."""
    return LEAST if Choice.seconds is None else Choice.seconds


def choose(seconds: float | None, *, offered: bool = True) -> None:
    """Sets the value of `--deadline` for the rest of the command."""
    Choice.seconds, Choice.offered = seconds, offered


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limits `deadline` to these seconds within the block, or to LEAST; never prolongs it."""
    usual = Choice.seconds
    if seconds < deadline():
        Choice.seconds = min(deadline(), max(LEAST, seconds))
    try:
        yield
    finally:
        Choice.seconds = usual


class Patient:
    """Base of clients that retry a failing service for `deadline` seconds."""

    deadline: float

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limits retries to these seconds within the block."""
        usual = self.deadline
        self.deadline = min(usual, seconds)
        try:
            yield
        finally:
            self.deadline = usual


FAILED_PREDECESSOR = "failed-predecessor"
"""ID of the finding that a run did not end as a run that waits for it requires."""

NO_LISTENER = "no-listener"
"""ID of the finding that nothing listens at a target's address on this machine, such as a tunnel's
that is not up. Nothing starts there by itself: no retry helps, but another target may."""


class Unavailable(UserError):
    """Error of a target that does not accept the run now; it may later."""


class RunRefused(Unavailable):
    """Error of a target that does not accept such a run."""


@contextmanager
def no_refusal(before: object) -> Iterator[None]:
    """Makes RunRefused in the block an error after which nothing is forgotten, if the run has a
    submission `before`, of which tasks may run."""
    try:
        yield
    except RunRefused as error:
        if before is None:
            raise
        raise UserError(error.findings, exit_code=error.exit_code) from None


class TargetUnavailable(UserError):
    """Error of a target, or a service that it needs, that does not answer now; it may later."""


class StillUnavailable(TargetUnavailable):
    """Error of a target that has not answered until the deadline."""


def join_errors(errors: Sequence[UserError]) -> UserError:
    """Joins errors into one: a mistake of the user's, unless all are targets that do not answer."""
    away = all(isinstance(error, TargetUnavailable) for error in errors)
    kind = TargetUnavailable if away else UserError
    findings = dict.fromkeys(each for error in errors for each in error.findings)
    return kind(findings, exit_code=min(error.exit_code for error in errors))


def gone_input(name: str, path: str) -> UserError:
    """Returns the error for an input from another run that no longer exists."""
    message = f"the input `{name}` no longer exists: {path}"
    hint = "was its run removed? name another under `inputs`, or run that again"
    return RunRefused.of("no-input", message, hint)


@dataclass
class OutageTolerance:
    """Looks at a run that is followed, and tolerates that its target does not answer for `deadline`
    seconds. It warns once, with the time of the last answer. A run whose submission was interrupted
    is not followed, unless it `ends`: nobody completes it."""

    run: RunFolder
    deadline: float
    ends: bool = False
    answered: float = field(default_factory=time.monotonic)
    warned: bool = False

    def call(self, ask: Callable[[], object]) -> None:
        """Calls `ask`. Raises UserError once the deadline is over, or if retrying is pointless."""
        try:
            ask()
        except StillUnavailable:
            raise
        except TargetUnavailable as error:
            left = self.answered + self.deadline - time.monotonic()
            if left <= 0:
                raise
            if not self.warned:
                self.warned = True
                warn(
                    "%s; %s is as last known at %s; retrying until %s, Ctrl-C ends it",
                    printable(error.findings[0].message),
                    self.run.id,
                    clock(self.run.last_known),
                    _until(left),
                )
        else:
            self.answered, self.warned = time.monotonic(), False
            if not self.ends:
                self.run.require_submitted()


def polling_pauses(longest: float) -> Iterator[float]:
    """Yields the seconds between one look at a run and the next, up to the `longest`: short ones at
    first, as many a run has almost ended when somebody waits for it."""
    pause = 0.2
    while True:
        yield min(pause, longest)
        pause *= 1.5


def clock(seconds: float) -> str:
    """Formats a time since 1970 in this time zone, without the date if that is today."""
    then = datetime.fromtimestamp(seconds).astimezone()
    same = then.date() == datetime.now().astimezone().date()
    return f"{then:%H:%M:%S}" if same else f"{then:%Y-%m-%d %H:%M:%S}"


def warn(text: str, *facts: object) -> None:
    """Warns of a target that does not answer; imports logging now, as that is slow."""
    import logging

    logging.getLogger("fairway").warning(text, *facts)


def _until(seconds: float) -> str:
    return f"{datetime.now().astimezone() + timedelta(seconds=seconds):%H:%M:%S}"


_QUIET = 5.0  # seconds of silence before a message
_FIRST, _LONGEST = 0.5, 15.0  # seconds between two tries
_DOUBLED = 5  # times until the longest
_UNKNOWN = 3  # tries of a host that never answered: its name or the network may be wrong


@dataclass(eq=False)
class Tries:
    """Tries of one request, of which the first begins now, and the last within `deadline` seconds;
    no other is to follow once `stopped` is set."""

    deadline: float
    stopped: threading.Event | None = None
    clock: Callable[[], float] = time.monotonic
    count: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the first try began."""
        return self.clock() - self.began

    @property
    def left(self) -> float:
        """Seconds that are left; negative if none are."""
        return self.began + self.deadline - self.clock()

    def pause(self, *, reached: bool = True, asked: float | None = None) -> bool:
        """Waits for the next try: for the seconds that a service has `asked` for, or up to twice as
        long as the last time. Returns False if there is to be none: time is up, or the host was not
        `reached` in a few."""
        import random

        self.count += 1
        left = self.left
        usual = min(_LONGEST, _FIRST * 2 ** min(self.count - 1, _DOUBLED))
        # Calls that failed together are not repeated together.
        pause = asked or min(left, usual * random.uniform(0.5, 1.0))  # noqa: S311
        if left <= 0 or pause > left or (not reached and self.count >= _UNKNOWN):
            return False
        if self.stopped is None:
            time.sleep(pause)
            return True
        return not self.stopped.wait(pause)


@dataclass(eq=False)
class WatchedCall(Tries):
    """A call in progress: the last failure of its `service`, and since when nobody has answered, on
    the monotonic clock, None while somebody does."""

    service: str = ""
    since: float | None = field(default_factory=time.monotonic)
    reason: str = ""

    def answered(self) -> None:
        """Records that the service has answered: any further delay is its work."""
        self.since = None

    def failed(self, reason: str) -> None:
        """Records a failure that is retried."""
        self.reason = reason
        if self.since is None:
            self.since = time.monotonic()


class SlowCallNotice:
    """Reports once that a service does not answer, and again only after it has answered."""

    def __init__(self) -> None:
        import threading  # commands that only read local state need none

        self._open: set[WatchedCall] = set()
        self._lock = threading.Lock()
        self._warned = self._has_thread = False

    @contextmanager
    def watch(
        self,
        service: str,
        deadline: float,
        stopped: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Iterator[WatchedCall]:
        """Watches one call in the block, with tries as in `Tries`."""
        import threading

        call = WatchedCall(deadline, stopped, clock, service=service)
        with self._lock:
            self._open.add(call)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._look, name="slow-call-notice", daemon=True).start()
        try:
            yield call
        finally:
            with self._lock:
                self._open.discard(call)
                self._warned = self._warned and bool(self._open)

    def _look(self) -> None:
        while True:
            time.sleep(_QUIET / 5)
            now = time.monotonic()
            with self._lock:
                if not self._open:
                    self._has_thread = False  # the next call starts another
                    return
                late = [call for call in self._open if now - (call.since or now) >= _QUIET]
            if late and not self._warned:
                self._warned = True
                why = f" ({late[0].reason})" if late[0].reason else ""
                text = "%s does not answer%s; trying until %s, Ctrl-C ends it"
                warn(text, late[0].service, why, _until(late[0].left))

"""How many calls are done at once, and for whom."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import anyio
import pytest

from fairway_web import threads
from fairway_web.roles import ALONE, Person, RequestContext, Role, in_context

if TYPE_CHECKING:
    from collections.abc import Callable

ANN = Person("id-ann", "ann", Role.SUBMITTER)
BOB = Person("id-bob", "bob", Role.SUBMITTER)


@pytest.mark.parametrize(
    ("call", "most"),
    [
        (threads.reading, "_MOST_READS"),
        (threads.checking, "_MOST_CHECKS"),
        (threads.submitting, "_MOST_SUBMISSIONS"),
        (threads.acting, "MOST"),
    ],
)
@pytest.mark.parametrize(("person", "at_once"), [(ANN, 2), (ALONE, 4)])
def test_web_threads_of_one_of_several_people_leave_half_of_the_room(
    call: Callable[..., object],
    most: str,
    person: Person,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, most, 4)
    begun, go_on = threading.Semaphore(0), threading.Event()
    counted = [0, 0]

    def wait() -> None:
        counted[0] += 1
        counted[1] = max(counted)
        begun.release()
        go_on.wait()
        counted[0] -= 1

    async def ask(who: Person, do: Callable[[], object]) -> None:
        with in_context(RequestContext(who)):
            await call(do)

    async def all_() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(9):
                group.start_soon(ask, person, wait)
            for _ in range(at_once):
                await anyio.to_thread.run_sync(begun.acquire)
            if person is ANN:
                await ask(BOB, lambda: None)
            assert counted[0] == at_once
            go_on.set()

    with ThreadPoolExecutor(1) as alone:  # a browser's loop may run in this thread
        alone.submit(anyio.run, all_).result()
    assert counted == [0, at_once]

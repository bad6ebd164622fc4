"""Assertions on the results of commands, calls and requests, in one line of a test."""

from collections.abc import Callable

import pytest
from httpx import Response

from fairway_core.findings import Finding, UserError


def refused(do: Callable[[], object], match: str | None = None, code: int | None = None) -> Finding:
    """Asserts that a call raises UserError with that exit code; returns its only finding."""
    with pytest.raises(UserError, match=match) as caught:
        do()
    assert code in (None, caught.value.exit_code)
    (finding,) = caught.value.findings
    return finding


def ends(done: tuple[int, str, str], code: int, *errors: str, printed: str | None = None) -> None:
    """Asserts that a command ended with that exit code, and that its errors contain these texts."""
    assert done[0] == code, done[2]
    for each in errors:
        assert each in done[2]
    assert printed is None or done[1] == printed


def answers(answer: Response, status: int, *texts: str) -> None:
    """Asserts that a response has that status and contains these texts."""
    assert answer.status_code == status, answer.text
    for each in texts:
        assert each in answer.text

"""Assertions on the ends of commands and calls of a server, in one line of a test."""

from collections.abc import Callable

import pytest
from httpx import Response

from fairway_core.findings import Finding, UserError


def refused(do: Callable[[], object], match: str | None = None) -> Finding:
    """The only finding with which a call is refused."""
    with pytest.raises(UserError, match=match) as caught:
        do()
    (finding,) = caught.value.findings
    return finding


def ends(done: tuple[int, str, str], code: int, *errors: str, printed: str | None = None) -> None:
    """A command has ended with that exit code, and its errors have these texts."""
    assert done[0] == code, done[2]
    for each in errors:
        assert each in done[2]
    assert printed is None or done[1] == printed


def answers(answer: Response, status: int, *texts: str) -> None:
    """An answer has that status, and these texts."""
    assert answer.status_code == status, answer.text
    for each in texts:
        assert each in answer.text

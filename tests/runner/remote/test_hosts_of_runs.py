"""What is said of a run that has no node yet, and of this machine, which needs no tunnel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from fairway_core.findings import Finding, UserError
from fairway_runner.engines.remote.remote_host import connection_to
from fairway_runner.engines.ssh.engine import SshEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_runner.runs.store import Run


def _refused(call: Callable[[], object]) -> Finding:
    with pytest.raises(UserError) as caught:
        call()
    (finding,) = caught.value.findings
    return finding


def test_a_run_that_waits_has_no_node_yet(make_run: Callable[..., Run]) -> None:
    run = make_run("job-aaaaaa", [{"state": "queued"}], state="queued", engine="ssh")
    engine: Any = SshEngine.__new__(SshEngine)
    for call, said in (
        (lambda: engine.main_host(run), "job-aaaaaa has no node yet"),
        (lambda: engine.enter(run, 0, 0, []), "task 0 of job-aaaaaa has no node yet"),
    ):
        found = _refused(call)
        assert found.message == said
        assert found.hint == "wait until it runs: fairway show job-aaaaaa"


def test_this_machine_needs_no_tunnel() -> None:
    here = connection_to("localhost", "")
    found = _refused(lambda: here.interactive([], forward="6007:localhost:6006"))
    assert found.message == f"{here.name} needs no tunnel"
    assert found.hint == "connect to localhost:6006"

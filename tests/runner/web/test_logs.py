"""What is read of a log, and for how long."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio

from fairway_web.logs import MOST, follow, last_part

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MakeRun
    from starlette.testclient import TestClient


def test_a_log_that_is_followed_is_brought_here_to_the_end(make_run: MakeRun) -> None:
    """Each look says that somebody reads: what runs elsewhere is only brought while one does."""
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    looks: list[str] = []

    def watch(name: str) -> None:
        looks.append(name)
        if len(looks) == 4:
            (run.folder / "new").write_text(json.dumps({"state": "failed"}))
            (run.folder / "new").replace(run.folder / "state.json")

    async def read() -> list[str]:
        return [event async for event in follow(run, run.log(0), 0, watch)]

    first, *_, last = anyio.run(read)
    assert first == 'id: 4\ndata: "one\\n"\n\n'
    assert last == 'event: end\nid: 4\ndata: "failed"\n\n'
    assert looks == ["job-a"] * 4


def test_the_end_of_a_long_log_begins_with_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"x" * MOST + b"\nlast\n")
    assert last_part(log, ended=True) == ("last\n", MOST + 6)


def test_a_bar_that_never_ends_its_line_is_shown(client: TestClient, make_run: MakeRun) -> None:
    bar = "".join(f"\r{step} steps done" for step in range(30_000))
    assert len(bar) > MOST
    make_run("job-a", [{"log": bar}])
    assert ">29999 steps done</pre>" in client.get("/runs/job-a").text

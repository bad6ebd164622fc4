"""The command lines of ssh and rsync: whatever a host is called, it is no option."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING

import pytest

from fairway_core.findings import UserError
from fairway_runner.engines.remote.ssh import Ssh

if TYPE_CHECKING:
    from pathlib import Path

# Stands in for ssh and rsync: notes its words, and makes the socket as a master connection does.
_PROGRAM = """#!{python}
import json, pathlib, sys
words = [pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
if "-M" in words:
    path = next(word for word in words if word.startswith("ControlPath="))
    pathlib.Path(path.removeprefix("ControlPath=")).touch()
sys.exit(1 if "check" in words else 0)
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command lines of the programs that are found first, a line of JSON each."""
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    for name in ("ssh", "rsync"):
        (programs / name).write_text(_PROGRAM.format(python=sys.executable, log=str(log)))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    return log


def test_the_destination_stands_behind_the_end_of_the_options(log: Path, tmp_path: Path) -> None:
    host = Ssh("-oProxyCommand=x", "")
    host.run(["true"], deadline=1.0)
    host.upload(tmp_path, "/there", deadline=1.0)
    host.download("/there", ["a"], tmp_path / "back", deadline=1.0)
    host.has_rsync = False
    host.upload(tmp_path / "back", "/there", deadline=1.0)
    host.interactive([])
    host.interactive(["true"])
    host.interactive([], forward="1:localhost:2")
    host.interactive(["true"], forward="1:localhost:2")
    host.close()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line[0] for line in lines} == {"ssh", "rsync"}
    assert len(lines) >= 10
    for words in lines:
        (place,) = [at for at, word in enumerate(words) if word.startswith(host.name)]
        assert "--" in words[:place], words


@pytest.mark.parametrize(("address", "tries"), [("127.0.0.1", 1), ("10.0.0.4", 3)])
def test_what_refuses_on_this_machine_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, tries: int
) -> None:
    count, program = tmp_path / "count", tmp_path / "programs" / "ssh"
    program.parent.mkdir()
    said = f"ssh: connect to host {address} port 22: Connection refused"
    script = f'case "$*" in *-M*) echo >>{count}; echo "{said}" >&2; exit 255 ;; esac; exit 1'
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr("fairway_runner.engines.remote.backoff._FIRST", 0.0)
    host = Ssh(address, "")
    with pytest.raises(UserError, match="Connection refused") as caught:
        host.run(["true"], deadline=600.0)
    assert caught.value.exit_code == 5
    assert len(count.read_text().splitlines()) == tries
    host.close()


def test_a_host_that_is_waited_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ssh stands still until somebody was told about it."""
    monkeypatch.setattr("fairway_runner.engines.silence._QUIET", 0.05)
    told = tmp_path / "told"
    os.mkfifo(told)

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.write_text(record.getMessage() + "\n")

    monkeypatch.setattr(logging.getLogger("fairway"), "handlers", [Teller()])
    program = tmp_path / "programs" / "ssh"
    program.parent.mkdir()
    script = f'case "$*" in *-M*) cat {told} >&2; exit 255 ;; esac; exit 1'
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    host = Ssh("10.0.0.4", "me")
    with pytest.raises(UserError) as caught:
        host.run(["true"], deadline=0.0)
    assert "me@10.0.0.4 does not answer; trying until" in str(caught.value)
    host.close()


@pytest.mark.parametrize(
    ("there", "said"),
    [("10.0.0.6", ["10.0.0.5", "10.0.0.6"]), ("none", ["10.0.0.5", "10.0.0.6", "10.0.0.4"])],
)
def test_another_node_serves_where_the_main_host_is_gone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    there: str,
    said: list[str],
) -> None:
    """As Azure has replaced it. Once one was reached it stays the one."""
    tried, program = tmp_path / "tried", tmp_path / "programs" / "ssh"
    program.parent.mkdir()
    program.write_text(
        f"""#!/bin/sh
for host; do :; done
case "$*" in
*-M*)
    echo "$host" >>{tried}
    if [ "$host" != {there} ]; then
        echo "ssh: connect to host $host port 22: timed out" >&2
        exit 255
    fi
    for word; do case $word in ControlPath=*) touch "${{word#*=}}" ;; esac; done ;;
*" check "*) exit 1 ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr("fairway_runner.engines.remote.backoff._FIRST", 0.0)
    host = Ssh("10.0.0.4", "", others=("10.0.0.5", "10.0.0.6"))
    if there == "none":
        with pytest.raises(UserError, match=r"10\.0\.0\.4 cannot be reached"):
            host.run(["true"], deadline=600.0)
    else:
        assert host.run(["true"], deadline=600.0).code == 0
        assert host.run(["true"], deadline=600.0).code == 0
        assert host.name == there
    host.close()
    assert tried.read_text().split()[: len(said) + 1] == ["10.0.0.4", *said]
    assert [record.args[1] for record in caplog.records if "takes no" in record.msg] == said

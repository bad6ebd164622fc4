"""The command lines of ssh and rsync: whatever a host is called, it is no option."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

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

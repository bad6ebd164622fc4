"""Sessions of `fairway dev` on this machine: their idle time, and Jupyter."""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from program import Fairway, Gate, Pipe
from programs import executable, finished
from waiting import lines_until, until

# Gets its port and its token file as JupyterLab does, and answers requests that have the token.
_JUPYTER = """\
#!{python}
import http.server, os, sys
token = open(os.environ["JUPYTER_TOKEN_FILE"]).read()
assert not any(token in word for word in sys.argv)
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "token " + token
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(os.environ["MINE"].encode() if known else b"")
    def log_message(self, *_): pass
address = options["ServerApp.ip"], int(options["ServerApp.port"])
server = http.server.HTTPServer(address, Handler)
print("it serves", os.getcwd() == options["ServerApp.root_dir"], flush=True)
server.serve_forever()
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first in PATH, with the test's folder as home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "bin"
    folder.mkdir()
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{folder}:{own}:/usr/bin:/bin")
    return folder


def test_dev_session_is_not_idle_while_a_command_runs_in_it(
    fairway: Fairway, path: Path, pipe: Pipe, gate: Gate
) -> None:
    """The test sets the pace: the session checks for use whenever the gate is opened."""
    executable(
        path / "sleep",
        f"#!/bin/sh\nif [ $1 = infinity ]; then exec /usr/bin/sleep $1; fi\n"
        f"echo pause $1 >{pipe.path}; read -r _ <{gate.path}\n",
    )
    held_by = path / "held-by"
    os.mkfifo(held_by)
    inner = os.open(held_by, os.O_RDWR)
    writer = os.open(pipe.path, os.O_WRONLY)  # keeps the pipe open after its first writer
    try:
        run = json.loads(fairway("dev", "local", "--idle", "35s", "--detach", "--json").stdout)
        pipe.lines(1)
        held = f"echo in use >{pipe.path}; read -r _ <{held_by}"
        used = fairway.start("exec", run["run_id"], "--", "sh", "-c", held)
        assert sorted(pipe.lines(2)) == ["in use", "pause 3"]
        for look in range(15):  # twelve checks are more than 35 s
            gate.open()
            pipe.lines(3 + look)
        os.write(inner, b"go\n")
        assert used.wait() == 0
        gate.open(12)
        assert fairway.within("wait", run["run_id"]).returncode == 124
        os.close(writer)
        assert set(pipe.rest().splitlines()) == {"in use", "pause 3"}
        # The twelfth check after the last one that saw it in use has ended the session.
        assert pipe.rest().count("pause") == 1 + 15 + 11
    finally:
        os.close(inner)


def test_dev_jupyter_serves_with_a_token_that_only_the_user_can_read(
    fairway: Fairway, path: Path
) -> None:
    executable(path / "jupyter-lab", _JUPYTER.format(python=sys.executable))
    job = fairway.job("true", env={"MINE": "of the job"})
    process = fairway.start("dev", "local", "--job", str(job), "--jupyter")
    said = "\n".join(lines_until(process, "are copied there"))
    run = said.split()[0]
    [address] = re.findall(r"http://localhost:\d+/lab", said)
    [shown] = re.findall(r"its token: fairway (exec .*)", said)
    told = finished(f"{fairway.command()[0]} {shown}", shell=True, cwd=fairway.folder, check=True)
    token = told.stdout
    assert re.fullmatch(r"[0-9a-f]{48}", token)
    until(lambda: "it serves True" in fairway.within("logs", run).stdout)
    request = urllib.request.Request(address, headers={"Authorization": f"token {token}"})
    assert urllib.request.urlopen(request).read() == b"of the job"
    with pytest.raises(urllib.error.HTTPError, match="403") as refused:
        urllib.request.urlopen(address)
    refused.value.close()
    # The token is in one file that only its user can read, and nowhere else.
    assert token not in said
    kept = [each for each in fairway.folder.rglob("*") if each.is_file()]
    [file] = [each for each in kept if token.encode() in _content(each)]
    assert (file.name, file.stat().st_mode & 0o777) == ("jupyter-token", 0o600)
    lines_of_all = [_content(each) for each in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(token.encode() in line for line in lines_of_all)
    assert fairway.within("dev", "stop", run).returncode == 0
    assert process.wait() == 130
    assert not file.exists()


def test_dev_jupyter_without_jupyter_lab_fails_with_a_hint(fairway: Fairway, path: Path) -> None:
    done = fairway("dev", "local", "--jupyter")
    assert done.returncode == 4
    assert "fairway: there is no jupyter-lab on PATH here: install jupyterlab" in done.stdout


def test_dev_session_started_elsewhere_is_not_synced(fairway: Fairway, path: Path) -> None:
    run = fairway.submit(fairway.job("true", template="dev", options={"idle": 0}))
    process = fairway.start("dev", "local")
    lines_until(process, "end it:")
    assert fairway.within("dev", "stop", run).returncode == 0
    _, said = process.communicate()
    assert "its code is not kept in sync from here: it was started elsewhere" in said


def _content(file: Path) -> bytes:
    """Returns the content of a file, or nothing if the file no longer exists."""
    try:
        return file.read_bytes()
    except OSError:
        return b""

"""Fixtures of the runner's end-to-end tests: the program `fairway`, in a folder of its own."""

import contextlib
import importlib.util
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import Fairway, Gate, Pipe, Signs
from registries import Registry, registry
from waiting import PATIENCE, until

from fairway_agent.fanout.launchers import free_port


@pytest.fixture
def fairway(tmp_path: Path) -> Iterator[Fairway]:
    """The program, in the test's own folder."""
    program = Fairway(tmp_path)
    yield program
    program.end()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """Pipe that the job's programs write to, in the job's folder under the name `pipe`."""
    with contextlib.closing(Pipe(tmp_path / "pipe")) as pipe:
        yield pipe


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Gate that the job's programs wait at, in the job's folder under the name `gate`."""
    with contextlib.closing(Gate(tmp_path / "gate")) as gate:
        yield gate


@pytest.fixture
def signs(tmp_path: Path) -> Iterator[Signs]:
    """Signs of programs through the named pipe `signs` in the test's folder."""
    with contextlib.closing(Signs(tmp_path / "signs")) as signs:
        yield signs


_HELLO = """
import http.server, sys
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200), self.end_headers(), self.wfile.write(b"hello")
server = http.server.HTTPServer(("127.0.0.1", 0), Hello)
open(sys.argv[1], "w").write(f"{server.server_port}\\n")
server.serve_forever()
"""


@pytest.fixture
def hello(fairway: Fairway, signs: Signs) -> Callable[..., str]:
    """A function that runs a web server on a target and reaches it through `fairway tunnel`."""

    def heard(port: int) -> bytes:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5) as said,
        ):
            return bytes(said.read())
        return b""

    def is_refused(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    def through(*target: str) -> str:
        (fairway.folder / "hello.py").write_text(_HELLO)
        job = fairway.job(f"exec python hello.py {signs}", "hello.yaml", template="plain")
        run = fairway.submit(job, *target)
        [port] = signs.lines(1)
        here = free_port()
        tunnel = fairway.start("tunnel", run, port, "--local-port", str(here))
        assert f"localhost:{here}" in tunnel.stdout.readline()
        assert until(lambda: heard(here)) == b"hello"
        tunnel.send_signal(signal.SIGINT)
        tunnel.communicate(timeout=PATIENCE)
        assert tunnel.returncode == 130
        until(lambda: is_refused(here))
        return run

    return through


@pytest.fixture(scope="session")
def resnet50(repository: Path) -> Path:
    """The folder of that example. Skips the test if a package is not installed."""
    for module, package in (("torch", "torch==2.13.0"), ("PIL", "pillow")):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"not installed: {module}; .venv/bin/pip install {package}")
    return repository / "examples" / "resnet50"


@pytest.fixture
def lab() -> Iterator[Registry]:
    """A registry from which users' nodes pull an image with Podman; see `Registry.allow`."""
    if shutil.which("podman") is None or shutil.which("newuidmap") is None:
        pytest.skip("no podman; on Debian: sudo apt-get install podman crun uidmap")
    spaces = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "true")
    if subprocess.run(["runuser", "-u", "nobody", "--", *spaces], check=False).returncode:
        hint = "on Ubuntu: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        pytest.skip(f"this machine lets root alone make user namespaces; {hint}")
    with registry() as found:
        yield found

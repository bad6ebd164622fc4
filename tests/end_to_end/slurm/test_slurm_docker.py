"""Docker on a node of a real Slurm: a container is the daemon's child, and none of the job's.

So what Slurm sends to a job's processes reaches the client alone; see "Foreground", "--sig-proxy"
and "PID namespaces" in the reference of `docker run`.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Fairway, Signs
from programs import executable

from fairway_simulator.slurm import SlurmCluster

pytestmark = pytest.mark.nightly


TARGET = ("--target", "slurm-sim")

# Runs what clients send, with no variable but those that they name; answers with the exit code.
_DAEMON = """
import json, socket, subprocess, sys, threading

def serve(connection):
    with connection, connection.makefile("rw") as talk:
        request = json.loads(talk.readline())
        print(subprocess.call(**request, stdin=subprocess.DEVNULL), file=talk, flush=True)

with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("up", flush=True)
    while True:
        threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""

# Passes signals to nobody: the first process of a container is deaf to those it does not wait for.
_CLIENT = """#!{python}
import json, os, signal, socket, sys
words = sys.argv[1:]
if words[0] != "run":
    sys.exit()
signal.signal(signal.SIGTERM, lambda *_: None)
names = [word.removeprefix("--env=") for word in words if word.startswith("--env=")]
environment = {{name: os.environ[name] for name in ["PATH", *names] if "=" not in name}}
command = words[words.index("contoso.example/train:1") + 1:]
with socket.socket(socket.AF_UNIX) as daemon, daemon.makefile("rw") as talk:
    daemon.connect({socket!r})
    request = {{"args": command, "cwd": os.getcwd(), "env": environment}}
    print(json.dumps(request), file=talk, flush=True)
    sys.exit(int(talk.readline()))
"""

_PROGRAM = """
import signal, sys

def save(*_):
    print("saved", file=open(sys.argv[1], "w"), flush=True)
    sys.exit(3)

signal.signal(signal.SIGTERM, save)
print("up", file=open(sys.argv[1], "w"), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def docker(slurm: SlurmCluster) -> Iterator[Path]:
    """A stand-in of Docker on the first node: its daemon is a process of the node, outside of
    every job."""
    socket = slurm.folder / "docker.sock"
    client = executable(
        slurm.folder / "home" / "bin" / "docker",
        _CLIENT.format(python=sys.executable, socket=str(socket)),
    )
    words = ["nsenter", f"--target={_first_process(slurm)}", "--mount", "--uts", "--pid", "--"]
    daemon = subprocess.Popen(
        [*words, sys.executable, "-c", _DAEMON, str(socket)], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout.readline() == "up\n"
    yield client
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()


def _first_process(slurm: SlurmCluster) -> str:
    """Of the first node's own processes: the child of what made its namespaces."""
    maker = slurm._daemons["sim-0"].process.pid
    return Path(f"/proc/{maker}/task/{maker}/children").read_text().split()[0]


@pytest.mark.parametrize("way", ["scancel", "fairway cancel"])
@pytest.mark.usefixtures("docker")
def test_a_program_in_a_container_hears_of_its_end(
    fairway: Fairway, slurm: SlurmCluster, signs: Signs, way: str
) -> None:
    """Also where a person ends the job behind Fairway's back: it has Slurm's KillWait then."""
    (fairway.folder / "program.py").write_text(_PROGRAM)
    container = {"image": "contoso.example/train:1"}
    command = f"{sys.executable} program.py {signs}; exit $?"
    job = fairway.job(command, template="plain", container=container)
    run = fairway.submit(job, *TARGET)
    assert signs.lines(1) == ["up"]
    if way == "scancel":
        slurm.run("scancel", f"--user={slurm.login.user}")
    else:
        assert fairway("cancel", run).returncode == 0
    assert signs.lines(2) == ["up", "saved"]
    assert fairway.within("wait", run).returncode == 130

"""Launchers' scripts, executed with this machine's MPI, and with stand-ins for missing programs.
Each test acts as the engine and exports the contract variables."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import executable, finished
from rendered import cluster_of, contract, rendered

from fairway_agent import processes
from fairway_agent.fanout.launchers import free_port
from fairway_agent.task_logs import split_label
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.launcher import render_once_a_node

pytestmark = pytest.mark.integration

# Text that a shell, a here-document or JSON could trip over.
HOSTILE = "it's \"$HOME\" `id` \\n $(id)\nEOF\n  'x' é"

# Runs a command on each node, all on this machine, in a new environment with only the contract
# variables, PATH and HOME.
EACH_NODE = """#!/usr/bin/env bash
mapfile -t contract < <(compgen -e | grep ^FAIRWAY_)
nodes=()
for ((rank = 0; rank < FAIRWAY_NODES; rank++)); do
    variables=("PATH=$PATH" "HOME=$HOME" "FAIRWAY_NODE_RANK=$rank")
    for name in "${contract[@]}"; do variables+=("$name=${!name}"); done
    env -i "${variables[@]}" "$@" &
    nodes+=($!)
done
status=0
for node in "${nodes[@]}"; do wait "$node" || status=$?; done
exit "$status"
"""

# Replaces ssh for mpirun: drops the host and starts the daemon with a minimal environment.
AGENT = """#!/usr/bin/env bash
shift
exec env -i PATH="$PATH" HOME="$HOME" OMPI_ALLOW_RUN_AS_ROOT=1 \\
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 bash -c "$*"
"""


class Engine:
    """An engine with two simulated nodes; programs in `bin` take precedence over the machine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        executable(root / "each-node", EACH_NODE)
        executable(root / "agent", AGENT)

    def run(self, *, size: str = "local", **job: Any) -> subprocess.CompletedProcess[str]:
        """Renders a job of two nodes with two processes each, and runs its script."""
        defaults = {"name": "train", "nodes": 2, "processes_per_node": 2, "command": "true"}
        resolved, text = rendered(self.root, cluster_of(size), **{**defaults, **job})
        script = self.root / "launch.sh"
        script.write_text(text)
        return finished(
            ["bash", str(script)],
            env=self.contract(resolved.nodes, resolved.processes_per_node, list(resolved.outputs)),
            cwd=self.root,
        )

    def contract(self, nodes: int, width: int, outputs: list[str]) -> dict[str, str]:
        """Returns the environment variables that an engine exports on the main host."""
        directories = {f"FAIRWAY_OUTPUT_{name.upper()}": f"out/{name}" for name in outputs}
        directories |= {"FAIRWAY_SCRATCH_DIR": "scratch", "FAIRWAY_SHARED_DIR": "shared"}
        for folder in directories.values():
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        own = {
            "PATH": f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.root),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "FAIRWAY_RUN": "train-abc234",
            "FAIRWAY_TASK": "0",
            "FAIRWAY_ATTEMPT": "0",
            "FAIRWAY_MAIN_HOST": "127.0.1.1",
            "FAIRWAY_MAIN_PORT": str(free_port(8)),
            "FAIRWAY_EACH_NODE": str(self.root / "each-node"),
            "FAIRWAY_MPI_ARGS": f"--bind-to none --prtemca plm_ssh_agent {self.root / 'agent'}",
            "TOKEN": "hush",
        }
        own |= {name: str(self.root / folder) for name, folder in directories.items()}
        return contract(self.root, nodes, width, **own)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """Two simulated nodes."""
    return Engine(tmp_path)


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the lines that a successful run printed, sorted and without labels."""
    assert done.returncode == 0, done.stderr
    split = (split_label(line.encode())[1].decode() for line in done.stdout.splitlines())
    return sorted(split)


def ranks(done: subprocess.CompletedProcess[str]) -> list[int | None]:
    """Returns the ranks that label the lines of a run, sorted."""
    return sorted((split_label(line.encode())[0] for line in done.stdout.splitlines()), key=str)


# Open MPI's mpirun hangs in about one of a hundred runs if the ranks end while its daemon on
# another host is still connecting. Ranks that have initialized MPI end after that.
MEET = 'python -c "from mpi4py import MPI" && '

SHOW = "python -c " + shlex.quote(
    "import json, os; print(json.dumps([os.environ.get(name) for name in"
    " ('VALUE', 'FAIRWAY_WORLD_SIZE', 'FAIRWAY_RUN', 'TOKEN')]))"
)


def test_launcher_passes_env_secrets_and_contract_to_ranks_on_another_node(engine: Engine) -> None:
    # mpirun does not take the node's address for its own. With two such nodes, whose daemons
    # share a hostname here, mpirun of Open MPI 5.0 sometimes does not end.
    done = engine.run(
        template="openmpi",
        command=MEET + SHOW,
        env={"VALUE": HOSTILE},
        secrets={"TOKEN": "env:TOKEN"},
        nodes=1,
    )
    seen = [json.loads(line) for line in lines(done)]
    assert seen == [[HOSTILE, "2", "train-abc234", "hush"]] * 2
    assert ranks(done) == [0, 1]  # Open MPI 5 is here


def test_launcher_lists_each_host_once_in_the_hostfile_of_mpirun(engine: Engine) -> None:
    executable(
        engine.bin / "mpirun", '#!/bin/sh\nwhile [ $1 != --hostfile ]; do shift; done; cat "$2"\n'
    )
    assert lines(engine.run(template="openmpi")) == ["127.0.1.1 slots=2", "127.0.1.2 slots=2"]
    launch = (engine.root / "launch.sh").read_text()
    given = engine.contract(3, 2, [])
    (engine.root / "hosts").write_text("one\ntwo\none\n")
    done = finished(["bash", "-c", launch], env=given)
    assert done.stdout == "one slots=4\ntwo slots=2\n"


@pytest.mark.parametrize("template", ["every-node", "plain"])
def test_launcher_passes_values_to_the_command_unchanged(engine: Engine, template: str) -> None:
    command = f"{SHOW} && printf '%s\\n' {shlex.quote(HOSTILE)} >&2"
    options = {"label_ranks": False} if template == "every-node" else {}
    done = engine.run(template=template, command=command, env={"VALUE": HOSTILE}, options=options)
    times = 2 if template == "every-node" else 1
    seen = [json.loads(line)[0] for line in lines(done)]
    assert seen == [HOSTILE] * times
    # Two ranks write line by line, so their lines may alternate.
    assert sorted(done.stderr.splitlines()) == sorted(HOSTILE.splitlines() * times)


def test_launcher_passes_variables_to_scripts_run_once_per_node_unchanged() -> None:
    job = Job(name="a", command="true", env={"VALUE": HOSTILE})
    script = render_once_a_node("before the tasks", 'printf %s "$VALUE"', job)
    assert finished(["bash", "-c", script]).stdout == HOSTILE


# 135,200 characters, with everything that quoting could change. A single argument or environment
# variable has at most 131,072 bytes.
LONG = (HOSTILE + " 🚀 %s {#! # \\\n") * 2600
LONG_JOB = {
    "env": {f"TEXT{number}": LONG[number : number + 60_000] for number in range(3)},
    "command": "compgen -e | grep -c FAIRWAY_LONG; [[ ! -e /dev/fd/3 ]] || echo open\n"
    'printf %s "$TEXT0$TEXT1$TEXT2" | sha256sum\n'
    f"sha256sum <<'END'\n{LONG}\nEND",
}


@pytest.mark.parametrize(
    ("template", "ranks"), [("openmpi", 4), ("every-node", 2), ("plain", 1), ("tensorflow", 4)]
)
def test_launcher_passes_long_commands_and_variables_to_each_rank_unchanged(
    engine: Engine, template: str, ranks: int
) -> None:
    digests = [
        f"{hashlib.sha256(text.encode()).hexdigest()}  -"
        for text in (f"{LONG}\n", "".join(LONG_JOB["env"].values()))
    ]
    done = engine.run(template=template, **LONG_JOB)
    assert lines(done) == sorted(["0", *digests] * ranks)


def test_launcher_passes_variables_of_maximum_size_and_rank_to_every_node(engine: Engine) -> None:
    env = {f"TEXT{number}": "x" * (131_000 - len("TEXT0=")) for number in range(5)}
    command = f": {'y' * 189_000}\nprintenv TEXT4 | sha256sum"
    done = engine.run(env=env, template="every-node", command=command)
    digest = hashlib.sha256(f"{env['TEXT4']}\n".encode()).hexdigest()
    assert lines(done) == [f"{digest}  -"] * 2
    done = engine.run(template="every-node", nodes=3, command="echo node $FAIRWAY_NODE_RANK")
    assert lines(done) == ["node 0", "node 1", "node 2"]
    assert ranks(done) == [0, 2, 4]  # the first of each node


@pytest.mark.parametrize("template", ["openmpi", "every-node", "plain", "tensorflow"])
def test_launcher_exits_with_the_code_of_the_command(engine: Engine, template: str) -> None:
    command = f"{MEET if template == 'openmpi' else ''}exit 7"
    assert engine.run(template=template, command=command, nodes=1).returncode == 7


# Processes left by a rank: in its process group, in a separate session, and ignoring SIGTERM.
LEFT = """
for left in sleep 'setsid sleep' "env --ignore-signal=TERM sleep"; do $left 3600 & done
echo ${left:+trained}
"""


@pytest.mark.parametrize(
    ("template", "folder", "launcher"),
    [
        ("openmpi", "", "mpirun"),
        pytest.param("mpich", "mpich", "mpiexec", marks=pytest.mark.nightly),
        pytest.param("intelmpi", "intelmpi", "mpiexec.hydra", marks=pytest.mark.nightly),
    ],
)
def test_launcher_ends_processes_left_by_a_rank(
    engine: Engine, template: str, folder: str, launcher: str
) -> None:
    """Otherwise the end of a rank goes unnoticed: launchers wait until its output is closed."""
    programs = Path(sys.prefix, folder, "bin")
    if not (programs / launcher).exists():
        pytest.skip(f"not installed: {programs / launcher}")
    executable(engine.bin / launcher, f'exec {programs / launcher} "$@"')
    done = engine.run(template=template, command=LEFT, nodes=1)
    assert lines(done) == ["trained", "trained"]
    assert not processes.sessions_with(f"FAIRWAY_SCRATCH_DIR={engine.root}/scratch")


def test_launcher_prints_the_last_line_of_a_rank_and_reports_its_signal(engine: Engine) -> None:
    done = engine.run(template="openmpi", command="exec > >(sed s/^/a/); echo b", nodes=1)
    assert lines(done) == ["ab", "ab"]
    done = engine.run(template="openmpi", command="kill -SEGV $$", nodes=1)
    assert done.returncode == 128 + 11
    assert "kill -SEGV" not in done.stdout + done.stderr  # the command is not repeated


# Sends mpirun two signals, the second once this rank has received the first.
TOLD = """
import os, pathlib, signal
signals = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
launcher = int(pathlib.Path("launcher").read_text())
for number in sorted(signals):
    os.kill(launcher, number)
    print("told", signal.sigwait(signals).name, flush=True)
"""


def test_launcher_forwards_each_signal_to_a_rank_once(engine: Engine) -> None:
    mpirun = Path(sys.executable).with_name("mpirun")
    executable(engine.bin / "mpirun", f'echo $$ >launcher\nexec {mpirun} "$@"')
    command = f"{MEET}python -c {shlex.quote(TOLD)}"
    done = engine.run(template="openmpi", command=command, nodes=1, processes_per_node=1)
    assert lines(done) == ["told SIGUSR1", "told SIGUSR2"]


def test_horovod_template_sets_its_options_and_job_env_overrides_them(engine: Engine) -> None:
    done = engine.run(
        template="horovod",
        options={"fusion_mib": 128, "cycle_ms": 2.5, "autotune": True, "timeline": "trace"},
        outputs={"trace": {}},
        env={"HOROVOD_CYCLE_TIME": "9"},
        command=MEET + "env | grep ^HOROVOD | sort | tr '\\n' ' '; echo",
        processes_per_node=1,
        nodes=1,
    )
    timeline = f"HOROVOD_TIMELINE={engine.root}/out/trace/timeline.json"
    wanted = (
        f"HOROVOD_AUTOTUNE=1 HOROVOD_CYCLE_TIME=9 HOROVOD_FUSION_THRESHOLD=134217728 {timeline}"
    )
    assert lines(done) == [f"{wanted} "]


# --- DeepSpeed ---------------------------------------------------------------------------------

# Reads its arguments and starts processes as deepspeed.launcher.launch of DeepSpeed 0.18 does.
DEEPSPEED = """
import argparse, base64, json, os, subprocess, sys
parser = argparse.ArgumentParser()
for name in ("world_info", "master_addr"):
    parser.add_argument(f"--{name}")
for name in ("node_rank", "master_port"):
    parser.add_argument(f"--{name}", type=int)
for name in ("no_python", "no_local_rank"):
    parser.add_argument(f"--{name}", action="store_true", required=True)
parser.add_argument("program")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
given = parser.parse_args()
world = json.loads(base64.urlsafe_b64decode(given.world_info))
own = list(world.values())[given.node_rank]
before = sum(len(ids) for ids in list(world.values())[: given.node_rank])
for local in range(len(own)):
    os.environ |= {"LOCAL_RANK": str(local), "RANK": str(before + local)}
    os.environ |= {"WORLD_SIZE": str(sum(map(len, world.values())))}
    subprocess.run([given.program, *given.arguments], check=True)
"""


def test_deepspeed_template_starts_the_processes_of_each_node(engine: Engine) -> None:
    package = engine.root / "deepspeed/launcher"
    package.mkdir(parents=True)
    (package / "launch.py").write_text(DEEPSPEED)
    done = engine.run(
        template="deepspeed", env={"X": HOSTILE}, command="echo $RANK $LOCAL_RANK $WORLD_SIZE"
    )
    assert lines(done) == ["0 0 4", "1 1 4", "2 0 4", "3 1 4"]
    assert ranks(done) == [0, 1, 2, 3]


# --- torchrun ----------------------------------------------------------------------------------

TORCHRUN = """#!/usr/bin/env bash
echo "$FAIRWAY_NODE_RANK ${*:1:14} $OMP_NUM_THREADS"
exit $(cat "$HOME/exit-$FAIRWAY_NODE_RANK" 2>/dev/null || echo 0)
"""


@pytest.fixture
def torchrun(engine: Engine) -> Engine:
    """Nodes whose torchrun prints its arguments and exits with the code in a file."""
    script = TORCHRUN.replace("$HOME", str(engine.root))
    executable(engine.bin / "torchrun", script)
    return engine


def test_torchrun_template_connects_agents_to_the_main_host(torchrun: Engine) -> None:
    first, second = lines(torchrun.run(template="torchrun", env={"OMP_NUM_THREADS": "3"}))
    assert first.startswith("0 --nnodes 2 --nproc_per_node 2 --rdzv_endpoint 127.0.1.1:")
    assert "--rdzv_backend c10d --rdzv_conf is_host=1 --local_addr 127.0.1.1" in first
    assert "--rdzv_backend c10d --rdzv_conf is_host=0 --local_addr 127.0.1.2" in second
    assert "--rdzv_id train-abc234-0-0 " in second
    assert second.endswith(" 3")


@pytest.mark.parametrize(("node", "code"), [(1, 0), (0, 5)])
def test_torchrun_template_continues_an_elastic_run_without_a_worker_node(
    torchrun: Engine, node: int, code: int
) -> None:
    (torchrun.root / f"exit-{node}").write_text("5")
    done = torchrun.run(template="torchrun", options={"min_nodes": 1})
    assert done.returncode == code
    assert "--nnodes 1:2" in done.stdout
    assert ("node 127.0.1.2 has left the run: exit code 5" in done.stderr) == (node == 1)
    assert torchrun.run(template="torchrun").returncode == 5


# --- TensorFlow --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "roles"),
    [
        (0, ["worker 0", "worker 1", "worker 2", "worker 3"]),
        (2, ["chief 0", "ps 0", "ps 1", "worker 0"]),
    ],
)
def test_tensorflow_template_gives_each_process_its_role_in_the_cluster(
    engine: Engine, servers: int, roles: list[str]
) -> None:
    # Every process waits for the others, as the end of the chief would end them.
    others = "until (($(ls seen-* | wc -l) == 4)); do :; done"
    command = f'echo "$TF_CONFIG"; touch "seen-$BASHPID"; {others}'
    done = engine.run(
        template="tensorflow", options={"parameter_servers": servers}, command=command
    )
    configs = [json.loads(line) for line in lines(done)]
    assert ranks(done) == [0, 1, 2, 3]
    assert len({json.dumps(config["cluster"]) for config in configs}) == 1
    tasks = sorted(f"{each['task']['type']} {each['task']['index']}" for each in configs)
    assert tasks == roles
    cluster = configs[0]["cluster"]
    addresses = [address for role in ("chief", "ps", "worker") for address in cluster.get(role, [])]
    assert len(set(addresses)) == 4
    assert [address.split(":")[0] for address in addresses] == ["127.0.1.1"] * 2 + ["127.0.1.2"] * 2


def test_tensorflow_template_ends_the_others_when_a_parameter_server_fails(engine: Engine) -> None:
    command = """if [[ $TF_CONFIG == *'"type": "ps"'* ]]; then exit 7; fi; exec sleep 300"""
    servers = {"parameter_servers": 1}
    done = engine.run(
        template="tensorflow", options=servers, command=command, nodes=1, processes_per_node=3
    )
    assert done.returncode == 7

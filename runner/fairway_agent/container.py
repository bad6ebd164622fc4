"""Runs a command in the container of a run's job, with the container runtime of this host.

Started as `container RUN_FOLDER COMMAND…` with the contract in its environment. The container
mounts the directories that the contract names, at the same paths.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent import job_facts, processes, scratch
from fairway_agent.fanout import launchers
from fairway_agent.quick import dataclass
from fairway_agent.resources import CORES, GPUS
from fairway_boot import files
from fairway_boot.files import AgentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_agent.job_facts import Container, TargetFacts

# Rootless Podman, for users who may not use Docker. Root inside is the user outside, who owns its
# files, and no copy of the image with other owners is needed. It stays among the task's processes,
# also in Slurm's cgroup: their limits apply, and it ends with them. Sources: podman(1),
# podman-run(1).
_ROOTLESS = (
    "--cgroups=disabled",
    "--group-add=keep-groups",  # gives access to shared folders and AMD's GPUs
    "--log-driver=none",
    "--pull=never",
    "--security-opt=label=disable",  # SELinux would block the host's folders
    "--ulimit=host",
    "--user=0:0",
)
"""Options of each `podman run`: root inside is the user, whatever user the image names."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def image_store_options() -> tuple[str, ...]:
    """Returns options that give this user's tasks an image store on the node's local disk: a home
    on NFS cannot hold layers, and a login session's runtime directory disappears with the session.
    Raises AgentError if the folder belongs to another user."""
    place = scratch.own_folder(scratch.root() / "podman")
    state, boot = place / "run", _BOOT.read_text(encoding="ascii")
    os.environ["XDG_RUNTIME_DIR"] = str(state)
    with files.hold_lock(place / "lock"):
        mark = state / "boot"
        if not mark.exists() or mark.read_text(encoding="ascii") != boot:
            # Containers from before a reboot would count as running.
            shutil.rmtree(state, ignore_errors=True)
            state.mkdir(mode=0o700, exist_ok=True)
            mark.write_text(boot, encoding="ascii")
    folders = {"root": place / "store", "runroot": state, "tmpdir": state / "tmp"}
    no_systemd = ("--cgroup-manager=cgroupfs", "--events-backend=file")
    own = (f"--{name}={folder}" for name, folder in folders.items())
    return (*own, "--storage-driver=overlay", *no_systemd)


def fetch_image(podman: Sequence[str], image: str, environment: Mapping[str, str]) -> None:
    """Pulls the image unless the host has it, once for all tasks that want it at the same time, and
    first removes what killed tasks have left. `environment` must not be a task's: Podman leaves a
    process behind for later use. Raises AgentError if the image cannot be pulled."""
    with _kept_image(image) as file:
        # Containers of Fairway whose starter is gone: its process ID ends the name.
        listing = [*podman, "ps", "--all", "--filter=label=fairway.run", "--format={{.Names}}"]
        listed = subprocess.run(listing, env=environment, stdout=subprocess.PIPE)
        for name in listed.stdout.decode().split():
            if not Path("/proc", name.rpartition("-")[2]).exists():
                words = [*podman, "rm", "--force", name]
                subprocess.run(words, env=environment, capture_output=True)
        if subprocess.call([*podman, "image", "exists", image], env=environment) == 0:
            return
        words = [*podman, "pull", "--quiet", image]
        own = {**environment, "TMPDIR": str(file.parent)}  # as large as the image
        if code := subprocess.call(words, env=own, stdout=subprocess.DEVNULL):
            login = "podman login --authfile ~/.config/containers/auth.json SERVER"
            hint = f"its own message is above; for a registry that asks who you are: {login}"
            raise AgentError("no-image", f"Podman cannot pull {image}", hint, code)


RUNTIMES = ("docker", "podman", "apptainer", "singularity", "enroot")
"""Supported runtimes, the preferred first: Docker if its daemon answers, Podman if it works."""

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PATIENCE = 30.0  # seconds for Docker's daemon to answer
# Docker's subcommand asks its daemon; Podman has none.
_ASKED = {"docker": "version", "podman": "--version"}

# Docker's default of 64 MB makes MPI and data loaders crash.
_SHARED_MEMORY = "8g"

# Files of the HPC image: NCCL's settings, and the topology files that they name.
IMAGE_FILES = ("/opt/microsoft", "/etc/nccl.conf")

# Variables for the container: the contract, and settings of its libraries by engines and fabrics.
_PASSED_ON = re.compile(
    r"(https?|no)_proxy|(HTTPS?|NO)_PROXY|"
    r"(FAIRWAY|OMPI|PRTE|PMIX|UCX|NCCL|RCCL|OMP|CUDA|ROCR|GLOO|TP|I_MPI|FI|MV2|SHARP)_\w+|SLURM_\w+"
)
# Variables that make MPI start other hosts' ranks with programs that the container lacks.
_OF_HOSTS = re.compile(r"OMPI_MCA_plm_rsh_agent|PRTE_MCA_plm_ssh_agent|I_MPI_HYDRA_BOOTSTRAP\w*")
# Variables that identify a task's processes: a daemon's container is no child of the task, and its
# client can signal only the first process, which is a shell or a launcher.
_MARKS = ("_FAIRWAY_MARK", "_FAIRWAY_LEASE", "_FAIRWAY_CHANNEL")
_CLIENT = "_FAIRWAY_CONTAINER"  # marks a process that waits outside for a container
_DIRECTORY = re.compile(r"FAIRWAY_(INPUT_\w+|OUTPUT_\w+|\w+_DIR|TASK_FOLDER)")
_OWN = ("FAIRWAY", "_FAIRWAY")


@dataclass(frozen=True)
class Runtime:
    """A container runtime: its name, its path, and the options of all its commands."""

    name: str
    program: str
    options: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        return [self.program, *self.options]

    @property
    def is_oci(self) -> bool:
        """True if the runtime is Docker, or accepts the same command line."""
        return self.name in ("docker", "podman")

    @property
    def is_rootless(self) -> bool:
        """True if root in the container is this user outside."""
        return self.name == "podman" and os.getuid() != 0


def find_runtime() -> Runtime | None:
    """Returns this host's runtime, or None if there is none that this user may use."""
    for name in RUNTIMES:
        if program := shutil.which(name):
            with suppress(OSError, subprocess.SubprocessError):  # it does not answer
                if name in _ASKED:
                    words = [program, _ASKED[name]]
                    subprocess.run(words, capture_output=True, timeout=_PATIENCE, check=True)
                return Runtime(name, program)
    return None


def entry(run: Path) -> list[str]:
    """Returns the command prefix that runs a command in the job's container; empty without one."""
    if job_facts.of_job(run).container is None:
        return []
    return [*processes.program("fairway_agent.container", waits=True), str(run)]


def command_line(
    runtime: Runtime,
    container: Container,
    command: Sequence[str],
    *,
    seen: Sequence[str],
    names: Sequence[str],
    name: str,
) -> list[str]:
    """Returns the command line that runs a command in the container, in this process's directory.
    `seen` lists the host paths to mount, `names` the variables to pass. With enroot the image is a
    file that was imported before."""
    here, image, options = str(Path.cwd()), container.image, container.options
    bound = [*seen, *(f"{path}:{path}:ro" for path in IMAGE_FILES if Path(path).exists())]
    if runtime.is_oci:
        words = [*runtime.words, "run", "--rm", f"--name={name}", "--network=host"]
        # Finds a container whose starter was killed; Slurm's Epilog looks for the job.
        words.append(f"--label=fairway.run={os.environ['FAIRWAY_RUN']}")
        if job := os.environ.get("SLURM_JOB_ID"):
            words.append(f"--label=fairway.slurm-job={job}")
        words += [f"--workdir={here}", "--entrypoint=", *_devices(runtime.name)]
        if runtime.is_rootless:
            words += _ROOTLESS
        else:
            # The user who started it owns the files that it writes.
            words += [f"--user={os.getuid()}:{os.getgid()}"] if os.getuid() else []
            words += ["--ulimit=memlock=-1", "--ulimit=stack=-1"]
        # Not the client's own HOME, where the client finds its settings.
        home = os.environ.get("FAIRWAY_SCRATCH_DIR", "/tmp")  # noqa: S108 - in there
        words.append(f"--env=HOME={home}")
        if (cores := os.environ.get(CORES)) and runtime.name == "docker":
            words.append(f"--cpuset-cpus={cores}")  # its daemon starts it, on all of them otherwise
        words.append(f"--shm-size={container.shm_size or _SHARED_MEMORY}")
        words += [f"--volume={path if ':' in path else f'{path}:{path}'}" for path in bound]
        words += [f"--env={each}" for each in names]
        return [*words, *options, image, *command]
    if runtime.name == "enroot":
        words = [runtime.program, "start", "--rw"]
        words += [f"--mount={path.split(':')[0]}:{path.split(':')[0]}" for path in bound]
        words += [f"--env={each}" for each in names]
        inside = ["sh", "-c", f'cd {shlex.quote(here)} && exec "$@"', "sh", *command]
        return [*words, *options, image, *inside]
    return [*apptainer(runtime.program, container, bound, here), *command]


def apptainer(program: str, container: Container, bound: Sequence[str], here: str) -> list[str]:
    """Returns the command prefix of an Apptainer container that starts in the directory `here`."""
    gpus = ["--nv"] if Path("/dev/nvidia0").exists() else []
    words = [program, "exec", *gpus, "--bind", ",".join(bound), "--pwd", here]
    return [*words, *container.options, f"docker://{container.image}"]


def require_memory(container: Container) -> None:
    """Raises AgentError if the host's /dev/shm, which the container shares, is too small."""
    wanted = container.shm_size
    if not wanted:
        return
    size = int(wanted[:-1]) * _UNITS[wanted[-1]]
    have = shutil.disk_usage("/dev/shm").total  # noqa: S108 - the node's shared memory
    if have < size:
        message = f"the node has {have >> 20} MiB of shared memory, and the job needs {wanted}"
        raise AgentError("no-memory", message, "use a larger VM size, or set a smaller shm_size", 2)


def missing(where: str) -> tuple[str, str]:
    """Returns the message and the hint for a host without a container runtime."""
    message = f"{where} runs no containers: it has none of {', '.join(RUNTIMES)}"
    return message, "install one: Podman needs no rights; Docker's daemon must accept this user"


def main() -> None:
    try:
        sys.exit(_run(Path(sys.argv[1]), sys.argv[2:]))
    except AgentError as fault:
        hint = fault.record["hint"]
        sys.stderr.write(f"error: {fault}{hint and f' ({hint})'}\n")
        sys.exit(int(str(fault.record["exit_code"])))


def _run(run: Path, command: Sequence[str]) -> int:
    job, target = job_facts.of_job(run), job_facts.of_target(run)
    container = job.container
    assert container is not None, "only what runs in one is started by this"
    runtime = find_runtime()
    if runtime is None:
        raise AgentError("no-containers", *missing(os.uname().nodename), 4)
    if runtime.is_rootless and target.engine != "local":
        runtime = replace(runtime, options=image_store_options())
    environment = _environment(runtime, target)
    if not runtime.is_oci:
        require_memory(container)
    own = {*_MARKS, *job.secrets}
    names = [each for each in environment if _PASSED_ON.fullmatch(each) or each in own]
    login: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        if target.engine != "local":
            from fairway_agent import access  # slow to import

            login = access.log_in(runtime.name, runtime.program, container.image, folder)
            environment |= login
        if runtime.is_rootless:
            fetch_image(runtime.words, container.image, _unmarked(job.secrets) | login)
        if runtime.name == "enroot":
            container = replace(container, image=_import(runtime, container.image))
        name = f"fairway-{os.environ['FAIRWAY_RUN']}-{os.environ['FAIRWAY_TASK']}"
        name += f"-{os.environ['FAIRWAY_ATTEMPT']}-{os.getpid()}"
        if runtime.is_oci:
            environment[_CLIENT] = name
        seen = _seen(run, target)
        words = command_line(runtime, container, command, seen=seen, names=names, name=name)
        guard = _guard([*runtime.words, "rm", "--force", name]) if runtime.is_oci else None
        # Signals are for the container; the client gets them too.
        processes.ignore_signals(*processes.TASK_SIGNALS)
        code = subprocess.call(words, env=environment)
        if guard is not None:
            os.close(guard)
        return 128 - code if code < 0 else code


def _environment(runtime: Runtime, target: TargetFacts) -> dict[str, str]:
    """Returns the environment of the client, from which the container's variables are chosen."""
    found = {name: value for name, value in os.environ.items() if not _OF_HOSTS.fullmatch(name)}
    if target.engine == "local":
        # Inside, its folder is not on PATH.
        found["FAIRWAY_EACH_NODE"] = str(processes.PACKAGE / "fanout/local/fairway-each-node")
    if runtime.is_oci and (gpus := os.environ.get(GPUS)):
        # Inside it has no other GPUs, whatever their numbers are outside.
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(len(gpus.split(",")))))
        found["ROCR_VISIBLE_DEVICES"] = gpus
    # Not really root, but Open MPI refuses any.
    return found | launchers.AS_ROOT if runtime.is_rootless else found


def _guard(remove: Sequence[str]) -> int:
    """Removes the container when this process ends, even if it is killed: a daemon's container
    outlives the program that started it. Returns the descriptor to keep open until then."""
    gone, alive = os.pipe()
    null = subprocess.DEVNULL
    subprocess.Popen(
        ["sh", "-c", 'read -r _; exec "$@"', "sh", *remove],
        stdin=gone,
        stdout=null,
        stderr=null,
        env=_unmarked(),
        cwd="/",
        start_new_session=True,
    )
    os.close(gone)
    return alive


def _unmarked(secrets: Collection[str] = ()) -> dict[str, str]:
    """Returns an environment for processes that do not belong to the task and outlive it."""
    kept = (name for name in os.environ if not name.startswith(_OWN) and name not in secrets)
    return {name: os.environ[name] for name in kept}


def _seen(run: Path, target: TargetFacts) -> list[str]:
    """Returns the directories that the container shares with the host; none lies within another."""
    named = [value for name, value in os.environ.items() if _DIRECTORY.fullmatch(name)]
    named += [str(run), str(Path.cwd()), str(processes.PACKAGE), *target.mounts.values()]
    found: list[str] = []
    for path in sorted({path for path in named if path.startswith("/") and Path(path).is_dir()}):
        if not any(path.startswith(f"{other}/") for other in found):
            found.append(path)
    return found


def _devices(runtime: str) -> list[str]:
    """Returns the options for the task's GPUs and for InfiniBand, if this host has any."""
    words = []
    own = os.environ.get(GPUS, "all")
    if Path("/dev/nvidia0").exists() and own:
        if runtime == "docker":
            words.append("--gpus=all" if own == "all" else f'--gpus="device={own}"')
        else:
            words += [f"--device=nvidia.com/gpu={each}" for each in own.split(",")]
    if Path("/dev/kfd").exists():
        words += ["--device=/dev/kfd", "--device=/dev/dri"]
    if Path("/dev/infiniband").exists():
        words.append("--device=/dev/infiniband")
    return words


@contextmanager
def _kept_image(image: str) -> Iterator[Path]:
    """Yields the file of an image on this host, under a lock: one program at a time fetches it."""
    folder = scratch.own_folder(scratch.root() / "images")
    file = folder / f"{hashlib.sha256(image.encode()).hexdigest()[:16]}.sqsh"
    with files.hold_lock(file.with_suffix(".lock")):
        yield file


def _import(runtime: Runtime, image: str) -> str:
    """Returns the image's file, which is imported once per host. Raises AgentError if that
    fails."""
    with _kept_image(image) as file:
        if not file.exists():
            draft = file.with_suffix(".new")
            draft.unlink(missing_ok=True)
            address = f"docker://{for_enroot(image)}"
            if code := subprocess.call([runtime.program, "import", "--output", draft, address]):
                hint = f"see why on the node: enroot import {address}"
                raise AgentError("no-image", f"enroot cannot import {image}", hint, code)
            draft.replace(file)
    return str(file)


def for_enroot(image: str) -> str:
    """Returns the image's name as Enroot writes it, with `#` after the registry.

    >>> for_enroot("contoso.azurecr.io/train:1")
    'contoso.azurecr.io#train:1'
    >>> for_enroot("ubuntu:24.04")
    'ubuntu:24.04'
    """
    server, slash, rest = image.partition("/")
    return f"{server}#{rest}" if slash and re.search("[.:]", server) else image


if __name__ == "__main__":
    main()

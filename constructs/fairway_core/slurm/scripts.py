"""The programs that Slurm calls on schedulers and nodes, as files."""

from __future__ import annotations

import bz2
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import fairway_agent
from fairway_core.slurm.cluster import PROGRAMS
from fairway_core.slurm.rendering import template

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE = "fairway_slurm"
"""What the package of the programs is called where they run."""

LIBRARY = "/usr/local/lib/fairway"
"""The folder of that package on a VM."""

SETTINGS = "/etc/fairway/slurm.json"
"""Where the programs of a VM find their settings."""

_COMMON = ("__init__", "log", "munge", "settings", "slurm")
SCHEDULER_MODULES = (
    *_COMMON,
    *("capacity", "claim_service", "holds", "ledger", "munge_key", "program", "reconcile"),
    *("resume", "resume_fail", "scale_set", "suspend", "vault"),
)
"""The modules that a scheduler needs."""

NODE_MODULES = (*_COMMON, "eviction", "hardware", "node", "vault")
"""The modules that a node needs."""

# Of the agent, what these programs ask Azure with. All else of it may change without another
# custom data, with which Terraform would make every scheduler anew.
_AGENT = ("azure/http", "azure/imds", "azure/keyvault")
_PACKAGES = ("fairway_agent/__init__.py", "fairway_agent/azure/__init__.py")

_CALLED = {
    "resume": ("resume", "ResumeProgram"),
    "suspend": ("suspend", "SuspendProgram"),
    "resume-fail": ("resume_fail", "ResumeFailProgram"),
}


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """What a sound node has: the health check drains one that lacks any of it.

    `adapter_gbps` is the rate of each InfiniBand adapter in Gb/s; `mounts` are paths that must
    be mounted, `folders` those that must have `free_gib` GiB free, if they are there.
    With `image_checks`, the name of a size as the HPC image's own checks have it, these run too
    before a node takes its first job.
    """

    gpus: int = 0
    vendor: Literal["nvidia", "amd"] = "nvidia"
    adapters: int = 0
    adapter_gbps: int = 0
    mounts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("/", "/tmp")  # noqa: S108 - where jobs write
    free_gib: int = 2
    image_checks: str = ""


def node_scripts(facts: NodeFacts, *, scratch: str, slurm_conf: str = "") -> dict[str, str]:
    """Prolog, epilog and health check by the names that they have below PROGRAMS.

    A job gets a folder of its own below `scratch`, where that exists. `slurm_conf` is for
    nodes that do not fetch their configuration.
    """
    from fairway_core.catalog.gpu_faults import fatal_xids

    return {
        "prolog": template("prolog.sh.j2", scratch=scratch),
        "epilog": template("epilog.sh.j2", scratch=scratch),
        "health-check": template(
            "health-check.sh.j2", facts=facts, xids=sorted(fatal_xids()), slurm_conf=slurm_conf
        ),
    }


def cloud_programs(
    *, library: str = LIBRARY, settings: str = SETTINGS, python: str = "/usr/bin/python3"
) -> dict[str, str]:
    """What slurmctld calls, by the names that they have below PROGRAMS.

    `library` is the folder that holds the package, see `modules`.

    >>> sorted(cloud_programs())
    ['resume', 'resume-fail', 'suspend']
    """
    return {
        name: template(
            "program.sh.j2",
            module=module,
            purpose=f"Slurm's {purpose}",
            library=library,
            settings=settings,
            python=python,
        )
        for name, (module, purpose) in _CALLED.items()
    }


def modules(names: Iterable[str] = ()) -> dict[str, str]:
    """The text of the package's modules, all by default, and of those of the agent that they
    need, by their path below the library."""
    folder, agent = Path(__file__).parent / "programs", Path(fairway_agent.__file__).parent
    chosen = sorted(names) or sorted(file.stem for file in folder.glob("*.py"))
    files = {f"{PACKAGE}/{name}.py": folder / f"{name}.py" for name in chosen}
    files |= {f"fairway_agent/{name}.py": agent / f"{name}.py" for name in _AGENT}
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    return {**dict.fromkeys(_PACKAGES, ""), **texts}


def archive(files: Mapping[str, str]) -> bytes:
    """The files as a tar file that bzip2 has made small: the same bytes on every machine.

    Other compressors have several implementations, whose bytes differ; and where these differ
    Terraform would make a VM anew.
    """
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(files):
            data = files[path].encode()
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o644
            tar.addfile(member, io.BytesIO(data))
    return bz2.compress(raw.getvalue(), compresslevel=9)


def install(
    folder: Path,
    *,
    settings: str,
    python: str,
    facts: NodeFacts | None = None,
    slurm_conf: str = "",
) -> dict[str, Path]:
    """Writes the programs below a folder of one's own; answers with their paths by name.

    For a cluster on one machine: `resume`, `suspend` and `resume-fail`, and with `facts` also
    `prolog`, `epilog` and `health-check`, which then take `slurm_conf`.
    """
    for path, text in modules().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    scripts = cloud_programs(library=str(folder), settings=settings, python=python)
    if facts:
        scratch = folder / "scratch"
        scratch.mkdir(exist_ok=True)
        scripts |= node_scripts(facts, scratch=str(scratch), slurm_conf=slurm_conf)
    found = {}
    for name, text in scripts.items():
        found[name] = folder / Path(PROGRAMS).name / name
        found[name].parent.mkdir(exist_ok=True)
        found[name].write_text(text, encoding="utf-8")
        found[name].chmod(0o755)
    return found

"""Programs that Slurm calls on schedulers and nodes, as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fairway_core.archives import NODE, SCHEDULER, boot_files
from fairway_core.slurm.cluster import PROGRAMS
from fairway_core.slurm.rendering import template

if TYPE_CHECKING:
    from fairway_core.catalog import VmSize

LIBRARY = "/usr/local/lib/fairway"
"""The folder of the programs' package on a VM."""

SETTINGS = "/etc/fairway/slurm.json"
"""The file of settings for the programs of a VM."""

LOG = "/var/log/slurm/fairway.log"
"""The log of the scheduler's programs."""

_CALLED = {
    "resume": "ResumeProgram",
    "suspend": "SuspendProgram",
    "resume-fail": "ResumeFailProgram",
}


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """Facts about a healthy node: the health check drains a node that does not match.

    With `nvlink` all links of its GPUs must be up, as in Azure's own checks of sizes with several
    GPUs and InfiniBand: https://github.com/Azure/azurehpc-health-checks (check_nvlink_status).
    `adapter_gbps` is the rate of each InfiniBand adapter in Gb/s; `mounts` are paths that must be
    mounted, `folders` those that must have `free_gib` GiB free, if they exist. With `image_checks`,
    a size's name in the HPC image's own checks, these run too before a node's first job.

    >>> facts = NodeFacts(gpus=8, nvlink=True, adapters=8, adapter_gbps=400)
    """

    gpus: int = 0
    vendor: Literal["nvidia", "amd"] = "nvidia"
    nvlink: bool = False
    adapters: int = 0
    adapter_gbps: int = 0
    mounts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("/", "/tmp")  # noqa: S108 - where jobs write
    free_gib: int = 2
    image_checks: str = ""

    @classmethod
    def of(cls, size: VmSize) -> NodeFacts:
        """Returns the devices of a VM size.

        >>> from fairway_core.catalog import vm_size
        >>> NodeFacts.of(vm_size("Standard_ND96isr_H100_v5")).adapter_gbps
        400
        """
        infiniband = size.infiniband if size.rdma else None
        gpus, vendor = (size.gpu.count, size.gpu.vendor) if size.gpu else (0, "nvidia")
        return cls(
            gpus=gpus,
            vendor=vendor,
            nvlink=bool(infiniband) and gpus > 1 and vendor == "nvidia",
            adapters=infiniband.adapters if infiniband else 0,
            adapter_gbps=infiniband.gbps if infiniband else 0,
        )


def node_scripts(facts: NodeFacts, *, scratch: str, slurm_conf: str = "") -> dict[str, str]:
    """Returns prolog, epilog and health check, by their names below PROGRAMS.

    A job gets its own folder below `scratch`, if that exists. `slurm_conf` is for nodes that do not
    fetch their configuration.
    """
    return {
        "prolog": template("prolog.sh.j2", scratch=scratch),
        "epilog": template("epilog.sh.j2", scratch=scratch),
        "health-check": health_check(facts, slurm_conf=slurm_conf),
    }


def health_check(facts: NodeFacts, *, slurm_conf: str = "") -> str:
    """Returns the program that compares a node with `facts`; Kubernetes nodes run it too."""
    from fairway_core.catalog.faults import fatal_xids

    return template(
        "health-check.sh.j2", facts=facts, xids=sorted(fatal_xids()), slurm_conf=slurm_conf
    )


def cloud_programs(
    *,
    library: str = LIBRARY,
    settings: str = SETTINGS,
    python: str = "/usr/bin/python3",
    log: str = LOG,
    proxy: bool = False,
) -> dict[str, str]:
    """Returns the programs that slurmctld calls, by their names below PROGRAMS.

    `library` is the folder of their package, `log` the file of their log. With `proxy` they reach
    Azure by the machine's proxy: slurmctld passes them no environment variables of its own.

    >>> sorted(cloud_programs())
    ['mail', 'resume', 'resume-fail', 'suspend']
    """
    called = {
        name: template(
            "program.sh.j2",
            action=name,
            purpose=f"Slurm's {purpose}",
            library=library,
            settings=settings,
            python=python,
            proxy=proxy,
        )
        for name, purpose in _CALLED.items()
    }
    return {**called, "mail": template("mail.sh.j2", log=log)}


def install(
    folder: Path,
    *,
    settings: str,
    python: str,
    facts: NodeFacts | None = None,
    slurm_conf: str = "",
) -> dict[str, Path]:
    """Writes the programs below a folder, and returns their paths by name.

    This is for a cluster on one machine: `resume`, `suspend`, `resume-fail` and `mail`, and with
    `facts` also `prolog`, `epilog` and `health-check`, which then use `slurm_conf`.
    """
    for path, text in boot_files({*SCHEDULER, *NODE}).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    log = str(folder / "programs.log")
    scripts = cloud_programs(library=str(folder), settings=settings, python=python, log=log)
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

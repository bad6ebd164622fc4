"""The stacks of an environment: synthesized by a program of its own, in their order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from fairway_core.environment.selection import VARIABLE, environment_file, project_folder
from fairway_core.findings import UserError


@dataclass(frozen=True)
class StackFolder:
    """A synthesized stack: its name, the folder for Terraform, and the stacks before it."""

    name: str
    folder: Path
    dependencies: tuple[str, ...] = ()


class SynthesisFailed(UserError):
    """The synthesis has said already what is wrong."""

    def __init__(self, exit_code: int) -> None:
        super().__init__((), exit_code=exit_code)


def usual_folder() -> Path:
    """Where `bin/synth` and cdktf write: CDKTF_OUTDIR, or cdktf.out beside cdktf.json."""
    given = os.environ.get("CDKTF_OUTDIR")
    return Path(given) if given else (project_folder() or Path.cwd()) / "cdktf.out"


def synthesize(choice: str | None, outdir: Path) -> list[StackFolder]:
    """Writes the stacks of the environment to `outdir`; answers with them in their order.

    Raises SynthesisFailed where the environment is refused; what is wrong with it, and what
    is only worth a warning, has gone to standard error then.
    """
    variables = {
        **os.environ,
        VARIABLE: str(environment_file(choice).absolute()),
        "CDKTF_OUTDIR": str(outdir),
        "FAIRWAY_STACKS": "",
    }
    # -P: a file of the user's that is called like one of Python's modules does no harm.
    command = [sys.executable, "-P", "-m", "fairway_stacks.app"]
    done = subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SynthesisFailed(done.returncode)
    return in_order(outdir)


def in_order(outdir: Path) -> list[StackFolder]:
    """The stacks that the manifest in `outdir` lists, each after those that it reads from."""
    manifest = json.loads((outdir / "manifest.json").read_text(encoding="utf-8"))
    stacks = {
        name: StackFolder(
            name,
            (outdir / each["workingDirectory"]).resolve(),
            tuple(each.get("dependencies") or ()),
        )
        for name, each in manifest["stacks"].items()
    }
    sorter = TopologicalSorter({name: sorted(each.dependencies) for name, each in stacks.items()})
    return [stacks[name] for name in sorter.static_order()]

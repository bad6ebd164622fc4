"""Writes the Terraform of an environment: what `fairway synth` does, and every plan begins with.

What is written goes to a folder a stack below CDKTF_OUTDIR, or to cdktf.out beside cdktf.json.
Stacks of another environment that were written there before are taken away, but not what
Terraform keeps beside them. Nothing is written where the environment is not right, or where
its Terraform breaks a rule: see `fairway_core.checks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.findings import Severity, UserError
from fairway_stacks.adoption import adopt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fairway_core.environment import Environment
    from fairway_core.findings import Finding

    Warn = Callable[[Finding], None]


# A stack in either of Terraform's languages, and what cdktf wants beside HCL.
_LANGUAGES, _METADATA = ("cdk.tf", "cdk.tf.json"), "metadata.json"


@dataclass(frozen=True)
class WrittenStack:
    """A stack on disk: its name, how many resources it has, and the folder for Terraform."""

    name: str
    resources: int
    folder: Path


def write_stacks(
    file: Path, outdir: Path | None = None, *, warn: Warn, state: bool = False, hcl: bool = False
) -> list[WrittenStack]:
    """Checks the environment in `file` and writes its stacks, all of them or none.

    `outdir` is the folder that CDKTF_OUTDIR names where it is not given. `state` asks for the
    stack of the account that holds the others' state, and nothing else: see docs/state.md. With
    `hcl` the stacks are `cdk.tf` in place of `cdk.tf.json`. `warn` is called with each warning.
    Raises UserError with the errors.
    """
    from fairway_core.checks import check_environment
    from fairway_core.environment import read_environment
    from fairway_stacks.extension import project_extension

    loaded = read_environment(file)
    environment, ignore = loaded.environment, loaded.environment.checks.ignore
    _report(check_environment(environment, loaded.document, ignore=ignore), warn)
    project, extension = _project_folder(), None if state else project_extension()
    outdir = outdir or usual_outdir()
    # Beside where it belongs, and of no use to Terraform, until it has been checked.
    draft = outdir.with_name(f".{outdir.name}.{os.getpid()}")
    try:
        if state:
            stacks = synthesize_state(environment, project=project, outdir=draft)
        else:
            stacks = synthesize(environment, project=project, outdir=draft, extension=extension)
        drafts = {name: draft / "stacks" / name / "cdk.tf.json" for name in stacks}
        if not state:  # the state's own storage is made by Fairway alone
            adopt(loaded, drafts)
        resources = _checked(environment, drafts, warn)
        if hcl:
            drafts = _as_hcl(draft, drafts)
        files = {name: _publish(file, draft, outdir) for name, file in drafts.items()}
        for file in (draft / "manifest.json", *draft.glob(f"stacks/*/{_METADATA}")):
            _publish(file, draft, outdir)
        _remove_others(outdir, environment.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return [WrittenStack(name, resources[name], file.parent) for name, file in files.items()]


def usual_outdir() -> Path:
    """Output folder of `fairway synth` and cdktf: CDKTF_OUTDIR, or cdktf.out beside cdktf.json, or
    here where no folder above has one."""
    return Path(os.environ.get("CDKTF_OUTDIR") or _project_folder() / "cdktf.out")


def synthesize(
    environment: Environment, *, project: Path, outdir: Path, extension: Path | None = None
) -> list[str]:
    """Writes a folder a stack under `outdir`/stacks; answers with the stacks' names, in order.

    `project` is the folder of cdktf.json, where Terraform's state files lie; `extension` is a
    Python file that adds resources. The SSH keys of the environment must be keys, as
    `load_environment` makes them.
    """
    # Only now: cdktf starts a Node.js, and a faulty file has been answered without one.
    from fairway_constructs.cdk import App
    from fairway_stacks.compute import ComputeStack
    from fairway_stacks.data import DataStack
    from fairway_stacks.network import NetworkStack
    from fairway_stacks.stack import Project

    _make(outdir)
    app = App(outdir=str(outdir))
    here = Project(app=app, folder=project, outdir=outdir)
    network = NetworkStack(here, environment)
    data = DataStack(here, environment, network.network)
    gateway = network.gateway.address if network.gateway else ""
    compute = ComputeStack(here, environment, network.network, data, gateway=gateway)
    if extension is None:
        app.synth()
    else:
        from fairway_stacks.extension import extend, faults_of

        extend(extension, network, data, compute)
        with faults_of(extension):
            app.synth()
    return [f"{environment.name}-{role}" for role in ("network", "data", "compute")]


def synthesize_state(environment: Environment, *, project: Path, outdir: Path) -> list[str]:
    """Writes the stack of the account that holds the others' state, and nothing else.

    Raises UserError where the environment keeps its state in files.
    """
    from fairway_constructs.cdk import App
    from fairway_stacks.stack import Project, StateStack, state_to_make

    state = state_to_make(environment)
    _make(outdir)
    app = App(outdir=str(outdir))
    StateStack(Project(app=app, folder=project, outdir=outdir), environment, state)
    app.synth()
    return [f"{environment.name}-state"]


def _as_hcl(draft: Path, files: Mapping[str, Path]) -> dict[str, Path]:
    """Puts HCL in place of the JSON of each stack, as cdktf's manifest says then.

    What cdktf's command line asks of a stack is in a file beside it.
    """
    from fairway_constructs.hcl import to_hcl

    found = {name: file.with_name("cdk.tf") for name, file in files.items()}
    for name, file in files.items():
        document = json.loads(file.read_text(encoding="utf-8"))
        found[name].write_text(to_hcl(document), encoding="utf-8")
        asked = {section: document[section] for section in ("//", "terraform")}
        file.with_name(_METADATA).write_text(json.dumps(asked, indent=1), encoding="utf-8")
    manifest = draft / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("cdk.tf.json", "cdk.tf"), encoding="utf-8")
    return found


def _publish(file: Path, draft: Path, outdir: Path) -> Path:
    """Moves a file of the draft to its place; what Terraform keeps beside it stays there.

    Terraform would read the stack twice where it lay there in its other language.
    """
    target = outdir / file.relative_to(draft)
    _make(target.parent)
    if target.name in _LANGUAGES:
        for other in {*_LANGUAGES, _METADATA} - {target.name}:
            target.with_name(other).unlink(missing_ok=True)
    file.replace(target)
    return target


def _remove_others(outdir: Path, environment: str) -> None:
    """Takes the Terraform of other environments away, so that nobody deploys it by mistake.

    What Terraform keeps in their folders stays: a provider, its lock, where the state is.
    """
    from fairway_stacks.stack import ROLES

    own = {f"{environment}-{role}" for role in (*ROLES, "state")}
    written = {*_LANGUAGES, _METADATA}
    for file in [file for file in outdir.glob("stacks/*/*") if file.name in written]:
        if file.parent.name not in own:
            with contextlib.suppress(FileNotFoundError):  # another synthesis was quicker
                file.unlink()
            with contextlib.suppress(OSError):  # Terraform has been here
                file.parent.rmdir()


def _make(outdir: Path) -> None:
    """Makes the folder with those above it, which cdktf does not."""
    try:
        outdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError.of(
            "no-outdir",
            f"{outdir}: {error.strerror}",
            "set CDKTF_OUTDIR to a folder that can be written",
        ) from None


def _project_folder() -> Path:
    """The nearest folder above with a cdktf.json, or where we are."""
    from fairway_core.environment.selection import project_folder

    return project_folder() or Path.cwd()


def _checked(environment: Environment, files: Mapping[str, Path], warn: Warn) -> dict[str, int]:
    """The number of resources of each stack; UserError where a check finds a fault in one."""
    from fairway_core.checks import Asked, check_stack

    asked, counts = Asked.by(environment), {}
    found: list[Finding] = []
    for name, file in files.items():
        stack = json.loads(file.read_text(encoding="utf-8"))
        counts[name] = sum(len(instances) for instances in stack["resource"].values())
        found += [
            replace(finding, message=f"{name}: {finding.path}: {finding.message}")
            for finding in check_stack(stack, asked, ignore=environment.checks.ignore)
        ]
    _report(found, warn)
    return counts


def _report(findings: Iterable[Finding], warn: Warn) -> None:
    """Hands the warnings on; raises UserError with the errors."""
    errors = []
    for finding in findings:
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        else:
            warn(finding)
    if errors:
        raise UserError(errors)

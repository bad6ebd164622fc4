"""Synthesis of an environment's Terraform, for `fairway synth` and as the first step of every plan.

Each stack gets a folder below CDKTF_OUTDIR, by default cdktf.out beside cdktf.json. Stacks of
another environment that were written there before are removed, except the files that Terraform
keeps beside them. Nothing is written if the environment is invalid, or if its Terraform breaks a
rule: see `fairway_core.checks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_agent.quick import dataclass
from fairway_core.findings import Severity, UserError
from fairway_stacks.adoption import adopt

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from fairway_constructs.cdk import Stack
    from fairway_core.environment import Environment
    from fairway_core.findings import Finding

    Warn = Callable[[Finding], None]


# A stack in either of Terraform's languages, and the file that cdktf needs beside HCL.
_LANGUAGES, _METADATA = ("cdk.tf", "cdk.tf.json"), "metadata.json"
# Source: Terraform's and OpenTofu's documentation of configuration files and variable files; both
# skip configuration whose name begins with a dot.
_READ = re.compile(r"(^[^.].*\.(tf|tofu)|(^terraform|\.auto)\.tfvars)(\.json)?$")


@dataclass(frozen=True)
class WrittenStack:
    """A stack on disk: its name, its number of resources, and its folder."""

    name: str
    resources: int
    folder: Path


def write_stacks(
    file: Path, outdir: Path | None = None, *, warn: Warn, state: bool = False, hcl: bool = False
) -> list[WrittenStack]:
    """Checks the environment in `file` and writes all of its stacks, or none.

    `outdir` defaults to the folder that CDKTF_OUTDIR names. With `state` only the stack of the
    account that holds the others' state is written: see docs/state.md. With `hcl` the stacks are
    `cdk.tf` in place of `cdk.tf.json`. `warn` is called with each warning. Raises UserError with
    the errors.
    """
    from fairway_core.checks import check_environment
    from fairway_core.environment import read_environment
    from fairway_stacks.extension import project_extension

    loaded = read_environment(file)
    environment, ignore = loaded.environment, loaded.environment.checks.ignore
    _report(check_environment(environment, loaded.document, ignore=ignore), warn)
    project, extension = _project_folder(), None if state else project_extension()
    outdir = outdir or usual_outdir()
    # Beside its final place, where Terraform does not read it, until it has been checked.
    draft = outdir.with_name(f".{outdir.name}.{os.getpid()}")
    try:
        if state:
            stacks = synthesize_state(environment, project=project, outdir=draft)
        else:
            stacks = synthesize(environment, project=project, outdir=draft, extension=extension)
        drafts = {name: draft / "stacks" / name / "cdk.tf.json" for name in stacks}
        if not state:  # only Fairway creates the storage of the state
            adopt(loaded, drafts)
        resources = _checked(environment, drafts, warn)
        if hcl:
            drafts = _as_hcl(draft, drafts, stacks)
        for name in drafts:
            _refuse_additions(outdir / "stacks" / name)
        files = {name: _publish(file, draft, outdir) for name, file in drafts.items()}
        for file in (draft / "manifest.json", *draft.glob(f"stacks/*/{_METADATA}")):
            _publish(file, draft, outdir)
        _remove_others(outdir, environment.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return [WrittenStack(name, resources[name], file.parent) for name, file in files.items()]


def usual_outdir() -> Path:
    """Returns the output folder of `fairway synth` and cdktf: CDKTF_OUTDIR, or cdktf.out beside the
    nearest cdktf.json at or above the current folder, or in the current folder."""
    return Path(os.environ.get("CDKTF_OUTDIR") or _project_folder() / "cdktf.out")


def synthesize(
    environment: Environment, *, project: Path, outdir: Path, extension: Path | None = None
) -> dict[str, Stack]:
    """Writes a folder for each stack under `outdir`/stacks; returns the stacks by name, in order.

    `project` is the folder of cdktf.json, in which Terraform's state files lie; `extension` is a
    Python file that adds resources. The environment's SSH keys must be resolved, as
    `load_environment` does.
    """
    # Only now: cdktf starts Node.js, and an invalid file is reported without it.
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
    return {stack.node.id: stack for stack in (network, data, compute)}


def synthesize_state(environment: Environment, *, project: Path, outdir: Path) -> dict[str, Stack]:
    """Writes only the stack of the account that holds the others' state.

    Raises UserError if the environment keeps its state in files.
    """
    from fairway_constructs.cdk import App
    from fairway_stacks.stack import Project, StateStack, state_to_make

    state = state_to_make(environment)
    _make(outdir)
    app = App(outdir=str(outdir))
    stack = StateStack(Project(app=app, folder=project, outdir=outdir), environment, state)
    app.synth()
    return {stack.node.id: stack}


def _as_hcl(draft: Path, files: Mapping[str, Path], stacks: Mapping[str, Stack]) -> dict[str, Path]:
    """Converts each stack from JSON to HCL, and changes cdktf's manifest accordingly."""
    from fairway_constructs.cdk.synthesis import typed_document
    from fairway_constructs.hcl import write_hcl

    for name, file in files.items():
        document = json.loads(file.read_text(encoding="utf-8"))
        write_hcl(typed_document(document, stacks[name]), file.parent)
    manifest = draft / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("cdk.tf.json", "cdk.tf"), encoding="utf-8")
    return {name: file.with_name("cdk.tf") for name, file in files.items()}


def _refuse_additions(stack: Path) -> None:
    """Raises UserError if there are files in a stack's folder that Terraform would read too, and
    that nobody has checked."""
    found = [
        each
        for each in (sorted(stack.iterdir()) if stack.is_dir() else ())
        if _READ.search(each.name) and each.name not in _LANGUAGES
    ]
    if found:
        names = ", ".join(map(str, found))
        message = f"{names}: Terraform would read this too, and Fairway did not write it"
        hint = f"rm {shlex.join(map(str, found))}\nadd resources with `extend:` in fairway.yaml, "
        hint += "take some over with `imports:` and `moved:` in the environment file"
        raise UserError.of("foreign-file", message, hint)


def _publish(file: Path, draft: Path, outdir: Path) -> Path:
    """Moves a file of the draft to its place, and leaves the files that Terraform keeps beside it.

    Removes the stack in the other language: Terraform would read both.
    """
    target = outdir / file.relative_to(draft)
    _make(target.parent)
    if target.name in _LANGUAGES:
        for other in {*_LANGUAGES, _METADATA} - {target.name}:
            target.with_name(other).unlink(missing_ok=True)
    file.replace(target)
    return target


def _remove_others(outdir: Path, environment: str) -> None:
    """Removes the Terraform of other environments, so that nobody deploys it by mistake.

    The files that Terraform keeps in their folders stay: providers, lock and backend settings.
    """
    from fairway_core.review.plan import ROLES

    own = {f"{environment}-{role}" for role in (*ROLES, "state")}
    written = {*_LANGUAGES, _METADATA}
    for file in [file for file in outdir.glob("stacks/*/*") if file.name in written]:
        if file.parent.name not in own:
            with contextlib.suppress(FileNotFoundError):  # another synthesis has removed it
                file.unlink()
            with contextlib.suppress(OSError):  # Terraform has been here
                file.parent.rmdir()


def _make(outdir: Path) -> None:
    """Creates the folder and its parents, which cdktf does not."""
    try:
        outdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError.of(
            "no-outdir",
            f"{outdir}: {error.strerror}",
            "set CDKTF_OUTDIR to a folder that can be written",
        ) from None


def _project_folder() -> Path:
    """Returns the nearest folder with a cdktf.json from here up, by default the current one."""
    from fairway_core.environment.selection import project_folder

    return project_folder() or Path.cwd()


def _checked(environment: Environment, files: Mapping[str, Path], warn: Warn) -> dict[str, int]:
    """Returns the number of resources of each stack. Raises UserError if a check finds an error."""
    from fairway_core.checks import CheckContext, check_stack

    context, counts = CheckContext.from_environment(environment), {}
    found: list[Finding] = []
    taken: dict[Hashable, str] = {}
    for name, file in files.items():
        stack = json.loads(file.read_text(encoding="utf-8"))
        counts[name] = sum(len(instances) for instances in stack["resource"].values())
        found += [
            replace(finding, message=f"{name}: {finding.path}: {finding.message}")
            for finding in check_stack(
                stack, context, ignore=environment.checks.ignore, name=name, taken=taken
            )
        ]
    _report(found, warn)
    return counts


def _report(findings: Iterable[Finding], warn: Warn) -> None:
    """Passes warnings to `warn`. Raises UserError with the errors."""
    errors = []
    for finding in findings:
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        else:
            warn(finding)
    if errors:
        raise UserError(errors)

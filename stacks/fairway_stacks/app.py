"""Writes the Terraform of an environment: `python -m fairway_stacks.app`, which cdktf runs.

The environment is chosen by FAIRWAY_ENVIRONMENT, a file or the name of one in the project's
folder `environments` or among those that come with Fairway, or else by `environment:` in the
project's fairway.yaml, or as the only one of the project. What is written goes to CDKTF_OUTDIR,
or to cdktf.out beside cdktf.json. Prints a line a stack. Stacks of another environment that were
written there before are taken away, but not what Terraform keeps beside them. With
FAIRWAY_STACKS=state it writes the account that holds the state of the others, and nothing else:
see docs/state.md. Exits with 2, and writes nothing, where the environment is not right, and with
2 where what was written breaks a rule: see `fairway_core.checks`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.findings import Severity, UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fairway_core.environment import Environment
    from fairway_core.findings import Finding

_STACKS = "FAIRWAY_STACKS"


def main(arguments: Sequence[str] = ()) -> int:
    """Synthesizes the chosen environment; answers with the exit code."""
    from fairway_core.checks import check_environment
    from fairway_core.environment import read_environment
    from fairway_core.environment.selection import environment_file

    try:
        _refuse(arguments)
        loaded = read_environment(environment_file())
        environment, ignore = loaded.environment, loaded.environment.checks.ignore
        _report(check_environment(environment, loaded.document, ignore=ignore))
        project = _project_folder()
        outdir = Path(os.environ.get("CDKTF_OUTDIR") or project / "cdktf.out")
        # Beside where it belongs, and of no use to Terraform, until it has been checked.
        draft = outdir.with_name(f".{outdir.name}.{os.getpid()}")
        try:
            stacks = _chosen()(environment, project=project, outdir=draft)
            drafts = {name: draft / "stacks" / name / "cdk.tf.json" for name in stacks}
            resources = _checked(environment, drafts)
            files = {name: _publish(file, draft, outdir) for name, file in drafts.items()}
            _publish(draft / "manifest.json", draft, outdir)
            _remove_others(outdir, environment.name)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except UserError as error:
        for finding in error.findings:
            sys.stderr.write(format_finding(finding) + "\n")
        return error.exit_code
    for name, file in files.items():
        sys.stdout.write(f"{name}: {resources[name]} resources -> {_shown(file.parent)}\n")
    return 0


def synthesize(environment: Environment, *, project: Path, outdir: Path) -> list[str]:
    """Writes a folder a stack under `outdir`/stacks; answers with the stacks' names, in order.

    `project` is the folder of cdktf.json, where Terraform's state files lie. The SSH keys
    of the environment must be keys, as `load_environment` makes them.
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
    ComputeStack(here, environment, network.network, data)
    app.synth()
    return [f"{environment.name}-{role}" for role in ("network", "data", "compute")]


def synthesize_state(environment: Environment, *, project: Path, outdir: Path) -> list[str]:
    """Writes the stack of the account that holds the others' state, and nothing else.

    Raises UserError where the environment keeps its state in files.
    """
    from fairway_constructs.cdk import App
    from fairway_stacks.stack import Project
    from fairway_stacks.state_stack import StateStack, state_to_make

    state = state_to_make(environment)
    _make(outdir)
    app = App(outdir=str(outdir))
    StateStack(Project(app=app, folder=project, outdir=outdir), environment, state)
    app.synth()
    return [f"{environment.name}-state"]


def _chosen() -> Callable[..., list[str]]:
    """What FAIRWAY_STACKS asks for: `state` alone, or the stacks of the environment."""
    choice = os.environ.get(_STACKS, "")
    if choice not in ("", "state"):
        raise UserError.of(
            "unknown-stacks", f"{_STACKS}: no stacks `{choice}`", "set it to `state`, or unset it"
        )
    return synthesize_state if choice else synthesize


def _refuse(arguments: Sequence[str]) -> None:
    """Nothing is told by arguments: a name that was taken for one would be ignored."""
    if arguments:
        first = arguments[0] if not arguments[0].startswith("-") else "demo"
        raise UserError.of(
            "unexpected-argument",
            f"unexpected argument `{arguments[0]}`",
            f"the environment is chosen by a variable: FAIRWAY_ENVIRONMENT={shlex.quote(first)}",
        )


def _publish(file: Path, draft: Path, outdir: Path) -> Path:
    """Moves a file of the draft to its place; what Terraform keeps beside it stays there."""
    target = outdir / file.relative_to(draft)
    _make(target.parent)
    file.replace(target)
    return target


def _remove_others(outdir: Path, environment: str) -> None:
    """Takes the Terraform of other environments away, so that nobody deploys it by mistake.

    What Terraform keeps in their folders stays: a provider, its lock, where the state is.
    """
    from fairway_stacks.stack import ROLES

    own = {f"{environment}-{role}" for role in (*ROLES, "state")}
    for file in outdir.glob("stacks/*/cdk.tf.json"):
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
    """The nearest folder above with a cdktf.json, or the repository, or where we are."""
    from fairway_core.environment.selection import project_folder

    repository = Path(__file__).resolve().parents[2]
    return project_folder() or (repository if (repository / "cdktf.json").is_file() else Path.cwd())


def _checked(environment: Environment, files: Mapping[str, Path]) -> dict[str, int]:
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
    _report(found)
    return counts


def _report(findings: Iterable[Finding]) -> None:
    """Prints the warnings; raises UserError with the errors."""
    errors = []
    for finding in findings:
        if finding.severity is Severity.ERROR:
            errors.append(finding)
        else:
            sys.stderr.write(format_finding(finding) + "\n")
    if errors:
        raise UserError(errors)


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


if __name__ == "__main__":
    # A short life: to look for garbage among cdktf's thousands of classes, now and at the
    # end, and for pydantic's plugins among all installed packages, is a tenth of it.
    from fairway_constructs.node import start_node_ahead

    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    ahead = start_node_ahead()
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        code = 141  # the reader went away, as in `bin/synth | head -1`
    sys.stderr.flush()
    if code:
        # A faulty file is answered at once, and not when Node.js has started in vain.
        os._exit(code)
    ahead.join()
    gc.freeze()

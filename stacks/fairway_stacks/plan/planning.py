"""Plans the stacks of an environment one after the other, against Azure or its stand-in."""

from __future__ import annotations

import os
import tempfile
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.environment.selection import project_folder
from fairway_core.review.plan import read_plan
from fairway_stacks.app import usual_outdir
from fairway_stacks.plan.locks import alone_in
from fairway_stacks.plan.loopback import (
    FOREIGN,
    keep_states_in,
    loopback_azure,
    name_vaults_in_keys,
)
from fairway_stacks.plan.stacks import synthesize
from fairway_stacks.plan.terraform import Terraform, cache_variables, require, waits_for_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fairway_core.findings import UserError
    from fairway_core.review.plan import Plan
    from fairway_stacks.plan.stacks import StackFolder

    Say = Callable[[str], None]


LOCK = "terraform.lock.hcl"
"""Beside cdktf.json: the providers that may run, with their hashes, as Terraform writes them."""


@dataclass(frozen=True)
class StackPlan:
    """The plan of a stack: Terraform's own file, and what `fairway review` reads of it.

    Where the stack waits for the outputs of another, `review` is the plan as far as it goes, or
    the log that says so. Where Terraform gave up before the plan was whole, `error` is why.
    """

    stack: str
    file: Path
    review: Path
    waits: bool = False
    error: UserError | None = None

    @property
    def argument(self) -> str:
        """The plan as `fairway review` takes it."""
        return f"{self.stack}={self.review}"


@contextmanager
def plan_folder(given: Path | None) -> Iterator[Path]:
    """The folder for plans, which hold secrets in clear text: for nobody else to read.

    Without one that is given it is gone afterwards.
    """
    if given is None:
        with tempfile.TemporaryDirectory(prefix="fairway-plan-") as folder:
            yield Path(folder)
        return
    given.mkdir(parents=True, exist_ok=True, mode=0o700)
    given.chmod(0o700)
    yield given.resolve()


def plan_live(environment: str | None, folder: Path, say: Say) -> list[StackPlan]:
    """Plans every stack against its state and Azure; nothing is changed, no state is locked."""
    require()
    plans = []
    with alone_in_outdir(say):
        for stack in synthesize(environment, usual_outdir()):
            say(f"{stack.name}: init, validate, plan")
            plans.append(prepare_and_plan(live_terraform(stack), folder, lock=False))
    return plans


def alone_in_outdir(say: Say) -> AbstractContextManager[None]:
    """Holds the folder of the synthesized stacks, in which Terraform works too."""
    outdir = usual_outdir()
    return alone_in(outdir, waiting=lambda: say(f"{outdir}: waiting for another plan to end"))


def live_terraform(stack: StackFolder) -> Terraform:
    """Terraform in the stack's folder, with the user's own credentials and the project's lock."""
    project = project_folder()
    lock = project / LOCK if project else None
    held = lock if lock is not None and lock.is_file() else None
    return Terraform(stack.name, stack.folder, _usual_variables(), held)


def plan_offline(environment: str | None, folder: Path, say: Say) -> list[StackPlan]:
    """Plans every stack from an empty state against the stand-in for Azure.

    Each stack but the last is applied to the stand-in, so that the next sees its outputs.
    Nothing that the user has is touched: neither cdktf.out, nor a state, nor Azure.
    """
    require()
    with tempfile.TemporaryDirectory(prefix="fairway-offline-") as text:
        here = Path(text)
        (here / "states").mkdir()
        stacks = synthesize(environment, here / "cdktf.out")
        keep_states_in(here / "states", stacks)
        name_vaults_in_keys(stacks)
        with _only_what_is_ours(), loopback_azure() as azure:
            return [
                _plan_and_apply(stack, azure, folder, say, apply=stack is not stacks[-1])
                for stack in stacks
            ]


def _plan_and_apply(
    stack: StackFolder, azure: dict[str, str], folder: Path, say: Say, *, apply: bool
) -> StackPlan:
    then = ", apply to the stand-in" if apply else ""
    say(f"{stack.name}: init, validate, plan{then}")
    # The provider is downloaded with the usual authorities, and then trusts the stand-in's.
    usual = _usual_variables()
    Terraform(stack.name, stack.folder, usual).init()
    terraform = Terraform(stack.name, stack.folder, {**usual, **azure})
    terraform.validate()
    plan = make_plan(terraform, folder)
    if plan.error:
        raise plan.error
    if apply:
        terraform.apply(plan.file)
    return plan


def prepare_and_plan(terraform: Terraform, folder: Path, *, lock: bool) -> StackPlan:
    """Init, validate and plan, of one stack."""
    terraform.init()
    terraform.validate()
    return make_plan(terraform, folder, lock=lock)


def make_plan(terraform: Terraform, folder: Path, *, lock: bool = True) -> StackPlan:
    """The plan of one stack, as two files in `folder`.

    An errored plan, which `prevent_destroy` has refused, is a plan too: the review says what
    it would have done. Raises UserError where there is none.
    """
    file = folder / f"{terraform.stack}.tfplan"
    review = folder / f"{terraform.stack}.json"
    file.unlink(missing_ok=True)
    log, failed = terraform.plan(file, lock=lock)
    if failed and waits_for_inputs(log):
        _write(review, terraform.show(file) if file.exists() else log)
        return StackPlan(terraform.stack, file, review, waits=True)
    if not file.exists():
        raise terraform.failed(log)
    _write(review, terraform.show(file))
    error = terraform.failed(log) if failed else None
    return StackPlan(terraform.stack, file, review, error=error)


def _write(file: Path, text: str) -> None:
    """A file for nobody else to read: there are secrets in it."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def _usual_variables() -> dict[str, str]:
    return {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **cache_variables()}


@contextmanager
def _only_what_is_ours() -> Iterator[None]:
    """Takes the settings for the real Azure out of this process's variables for a while."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(FOREIGN)}
    for name in kept:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


def base_plans(given: str, say: Say) -> list[Plan]:
    """A plan of the base, named as `fairway review` takes it, or those of a folder that --out has
    filled; UserError where one is missing or is not a plan."""
    folder = Path(given)
    if not folder.is_dir():
        return [read_plan(given)]
    files = sorted(folder.glob("*.json"))
    if not files:
        say(f"{folder} holds no plans: there is nothing to compare with")
    return [read_plan(f"{file.stem}={file}") for file in files]

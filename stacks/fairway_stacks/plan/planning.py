"""Plans of an environment's stacks, one after the other, against Azure or its stand-in."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.checks.resource_change import locks_to_lift
from fairway_core.environment import read_environment
from fairway_core.environment.selection import environment_file
from fairway_core.findings import Finding, UserError
from fairway_core.review.plan import UNLOCKED, WAITS_FOR, read_plan, read_plans
from fairway_stacks.app import usual_outdir
from fairway_stacks.plan.promised import (
    FOREIGN,
    keep_states_in,
    loopback_azure,
    outputs_of,
    private_for_now,
    with_previewed_outputs,
    write_private,
)
from fairway_stacks.plan.provider_lock import lock_of_project
from fairway_stacks.plan.stacks import print_progress, synthesize
from fairway_stacks.plan.terraform import (
    Terraform,
    cache_variables,
    lock_folder,
    require,
    waits_for_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fairway_core.review.plan import Plan
    from fairway_stacks.plan.promised import Outputs
    from fairway_stacks.plan.stacks import StackFolder


@dataclass(frozen=True)
class StackPlan:
    """The plan of a stack: Terraform's own file, and its JSON for `fairway review`.

    If the stack waits for the outputs of another, there is no `file`, and `review` is the plan with
    the promised outputs, or the incomplete plan, or the log with the errors. If Terraform gave up
    before the plan was complete, `error` is why. `unlocked` are the addresses of omitted locks,
    below which the plan deletes something.
    """

    stack: str
    file: Path
    review: Path
    waits: bool = False
    error: UserError | None = None
    unlocked: tuple[str, ...] = ()

    @property
    def argument(self) -> str:
        """The plan as an argument of `fairway review`."""
        return f"{self.stack}={self.review}"


@contextmanager
def plan_folder(given: Path | None) -> Iterator[Path]:
    """Yields the folder for plans, which hold secrets in clear text: a new one is readable only by
    the user, as is each plan. Without `given` it is temporary."""
    if given is None:
        with tempfile.TemporaryDirectory(prefix="fairway-plan-") as folder:
            yield Path(folder)
        return
    given.mkdir(parents=True, exist_ok=True, mode=0o700)
    yield given.resolve()


def plan_live(
    environment: str | None, folder: Path, allow: Collection[str] = (), *, state: bool = False
) -> list[StackPlan]:
    """Plans every stack, or only the account of their `state`, against its state and Azure.
    Changes nothing and locks no state."""
    require()
    with lock_outdir():
        return plan_in_turn(synthesize(environment, usual_outdir(), state=state), folder, allow)


def plan_in_turn(
    stacks: Sequence[StackFolder], folder: Path, allow: Collection[str] = ()
) -> list[StackPlan]:
    """Returns the plans of these stacks, which come in deployment order.

    A stack that waits for outputs is planned with those that the plans before it promise, so that
    everything is known except their values. `allow` holds the addresses of locks that may be
    removed if something below them is deleted.
    """
    plans: dict[str, StackPlan] = {}
    for stack in stacks:
        print_progress(f"{stack.name}: init, validate, plan")
        terraform = live_terraform(stack)
        plan = prepare_and_plan(terraform, folder, lock=False, allow=allow)
        if plan.waits:
            _plan_as_promised(stack, terraform, plan, plans, allow)
        plans[stack.name] = plan
    return list(plans.values())


def _plan_as_promised(
    stack: StackFolder,
    terraform: Terraform,
    plan: StackPlan,
    before: Mapping[str, StackPlan],
    allow: Collection[str],
) -> None:
    """Rewrites the review of a waiting stack's plan, made with the outputs that others promise.

    Leaves it as it is if one of their plans is incomplete, or if Terraform fails.
    """
    promised = _promises(stack, before)
    if not promised:
        return
    with tempfile.TemporaryDirectory(prefix="fairway-promised-") as folder:
        try:
            with with_previewed_outputs(stack, promised):
                found = make_plan(terraform, Path(folder), lock=False, allow=allow)
        except UserError:
            return
        if found.waits or found.error:
            return
        document = _document(found.review)
    document[WAITS_FOR] = read_plan(plan.argument).waits_for
    write_private(plan.review, json.dumps(document))
    plan.file.unlink(missing_ok=True)  # a plan of promised outputs is never applied


def _promises(stack: StackFolder, before: Mapping[str, StackPlan]) -> dict[str, Outputs] | None:
    """Returns the promised outputs of the stacks that this one reads; None for an incomplete plan.

    Stacks without a plan here are read from their states.
    """
    promised = {}
    for name in filter(before.__contains__, stack.dependencies):
        outputs = outputs_of(_document(before[name].review))
        if outputs is None:
            return None
        promised[name] = outputs
    return promised


def _document(review: Path) -> dict[str, Any]:
    """Returns the plan in a file, or an empty one if the file is the log of a failed plan."""
    try:
        found: dict[str, Any] = json.loads(review.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return found


def lock_outdir() -> AbstractContextManager[None]:
    """Locks the folder of the synthesized stacks, in which Terraform works too."""
    outdir = usual_outdir()
    return lock_folder(
        outdir, waiting=lambda: print_progress(f"{outdir}: waiting for another plan to end")
    )


def live_terraform(stack: StackFolder) -> Terraform:
    """Returns the stack's Terraform, with the user's credentials and the project's lock."""
    return Terraform(stack.name, stack.folder, _usual_variables(), lock_of_project())


def plan_offline(environment: str | None, folder: Path, *, state: bool = False) -> list[StackPlan]:
    """Plans every stack, or only the account of their `state`, from an empty state against the
    stand-in for Azure.

    Nothing is applied: a stack reads the outputs that the plans before it promise. Nothing of the
    user's is touched: neither cdktf.out, nor a state, nor Azure. Raises UserError for an
    environment with an existing resource, which the stand-in does not have.
    """
    _refuse_existing(environment_file(environment))
    require()
    with tempfile.TemporaryDirectory(prefix="fairway-offline-") as text:
        here = Path(text)
        stacks = synthesize(environment, here / "cdktf.out", state=state)
        keep_states_in(here, stacks)
        plans: dict[str, StackPlan] = {}
        with _only_what_is_ours(), loopback_azure() as azure:
            for stack in stacks:
                print_progress(f"{stack.name}: init, validate, plan")
                with with_previewed_outputs(stack, _promises(stack, plans) or {}):
                    # The provider is downloaded with the usual authorities, and then trusts the
                    # stand-in's.
                    live_terraform(stack).init()
                    variables = {**_usual_variables(), **azure}
                    terraform = Terraform(stack.name, stack.folder, variables)
                    terraform.validate()
                    plan = plans[stack.name] = make_plan(terraform, folder)
                if plan.error:
                    raise plan.error
    return list(plans.values())


def _refuse_existing(file: Path) -> None:
    loaded = read_environment(file)
    findings = [
        Finding(
            "not-offline",
            f"`{section}.existing` names what only Azure has, so this cannot be planned offline",
            f"plan it against Azure: fairway plan {file}",
            f"{section}.existing",
            location=loaded.document.location((section, "existing"), of_key=True),
        )
        for section in ("network", "resource_group", "storage")
        if getattr(getattr(loaded.environment, section), "existing", None)
    ]
    if findings:
        raise UserError(findings)


def prepare_and_plan(
    terraform: Terraform, folder: Path, *, lock: bool, allow: Collection[str] = ()
) -> StackPlan:
    """Runs init, validate and plan for one stack."""
    terraform.init()
    terraform.validate()
    return make_plan(terraform, folder, lock=lock, allow=allow)


def make_plan(
    terraform: Terraform, folder: Path, *, lock: bool = True, allow: Collection[str] = ()
) -> StackPlan:
    """Returns the plan of one stack, as two files in `folder`.

    A plan that `prevent_destroy` has refused is a plan too: the review shows its changes. Azure
    deletes nothing below a lock: if the plan would, it is made again without the locks of `allow`
    and those that do not exist yet. Nothing else records these locks: the next plan creates them.
    Raises UserError if there is no plan.
    """
    plan = _plan_once(terraform, folder, lock)
    locks = locks_to_lift(_document(plan.review).get("resource_changes") or (), allow)
    if not locks or plan.waits or plan.error:
        return plan
    file = terraform.folder / "cdk.tf.json"
    with private_for_now(file, _without(locks, file.read_text(encoding="utf-8"))):
        plan = _plan_once(terraform, folder, lock)
    if plan.waits or plan.error:
        return plan
    write_private(plan.review, json.dumps({**_document(plan.review), UNLOCKED: locks}))
    return replace(plan, unlocked=locks)


def _without(addresses: Collection[str], configuration: str) -> str:
    """Returns the stack without these resources, to which nothing else in it refers."""
    document = json.loads(configuration)
    for address in addresses:
        kind, _, name = address.partition(".")
        document["resource"].get(kind, {}).pop(name, None)
        if not document["resource"].get(kind):  # Terraform refuses an empty section
            document["resource"].pop(kind, None)
    return json.dumps(document, indent=1)


def plan_to_destroy(terraform: Terraform, folder: Path) -> StackPlan:
    """Runs init for one stack, and returns a plan that destroys everything in it.

    No lock is left out: Terraform deletes locks before the resources below them.
    """
    terraform.init()
    return _plan_once(terraform, folder, lock=False, destroy=True)


def _plan_once(
    terraform: Terraform, folder: Path, lock: bool, *, destroy: bool = False
) -> StackPlan:
    file = folder / f"{terraform.stack}.tfplan"
    review = folder / f"{terraform.stack}.json"
    file.unlink(missing_ok=True)
    log, failed = terraform.plan(file, lock=lock, destroy=destroy)
    if failed and waits_for_inputs(log):
        write_private(review, terraform.show(file) if file.exists() else log)
        return StackPlan(terraform.stack, file, review, waits=True)
    if not file.exists():
        raise terraform.failed(log)
    write_private(review, terraform.show(file))
    error = terraform.failed(log) if failed else None
    return StackPlan(terraform.stack, file, review, error=error)


def _usual_variables() -> dict[str, str]:
    return {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", **cache_variables()}


@contextmanager
def _only_what_is_ours() -> Iterator[None]:
    """Removes the real Azure's settings from this process's environment variables for a while."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(FOREIGN)}
    for name in kept:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


def base_plans(given: str) -> list[Plan]:
    """Returns the plans of the base: one, named as for `fairway review`, or those in a folder that
    --out has filled. Raises UserError if one is missing or is not a plan."""
    plans = read_plans(given)
    if not plans:
        print_progress(f"{given} holds no plans: there is nothing to compare with")
    return plans

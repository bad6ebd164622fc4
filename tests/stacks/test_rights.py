"""The roles that the documentation names deploy every environment, protected as by default."""

import re
from pathlib import Path

import pytest
from tests.stacks.documents import Written

from fairway_core.catalog.roles import (
    Permission,
    action_that_makes,
    allowed,
    built_in_roles,
    reads_of,
)
from fairway_core.environment import load_environment
from fairway_runner.live.requirements import actions_of

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = sorted((ROOT / "stacks" / "environments").glob("*.yaml"))


def _documented(slurm: bool) -> list[str]:
    """The roles that docs/pull-requests.md gives to the identity that deploys."""
    text = " ".join((ROOT / "docs" / "pull-requests.md").read_text().split())
    row = r"\| deploy \| [^|]* \| (.*?) on the subscription"
    slurms = r"give the deploy identity (.*?) there\."
    match = re.search(slurms if slurm else row, text)
    assert match
    return re.split(r", | and ", match[1])


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.stem)
def test_the_documented_roles_are_enough(written: Written, tmp_path: Path, file: Path) -> None:
    own = tmp_path / file.name
    own.write_text(file.read_text().replace("protect: false", "protect: true"))
    environment = load_environment(own)
    types = {type_ for stack in written(own).values() for type_ in stack["resource"]}
    needed = {action for type_ in types if (action := action_that_makes(type_))}
    assert needed == set(actions_of(environment))
    roles = _documented(slurm=environment.scheduler is not None)
    for action in [*needed, "Microsoft.Compute/virtualMachineScaleSets/write"]:
        assert allowed(action, [built_in_roles()[role] for role in roles]), (action, roles)


PLANNED = (
    (ROOT / "tests/stacks/sections/pods.yaml", ("engine: kubernetes",)),
    (ROOT / "tests/stacks/sections/box.yaml", ("schedule:",)),
    (ROOT / "tests/stacks/sections/own.yaml", ("storage: {customer_managed_key: true}",)),
)


def _planners(fields: tuple[str, ...]) -> list[Permission]:
    """Permissions that docs/pull-requests.md gives to the identity that plans environments with
    these fields: built-in roles by their names, and actions of a custom role."""
    lines = (ROOT / "docs" / "pull-requests.md").read_text().splitlines()
    given = [line.split("|")[2:] for line in lines if line.startswith("| plan |")]
    given += [line.split("|")[2:] for line in lines if any(f"`{one}`" in line for one in fields)]
    text = " ".join(cell for row in given for cell in row)
    roles = [role for name, role in built_in_roles().items() if f"{name} on" in text]
    return [*roles, Permission(tuple(re.findall(r"`(Microsoft\.[^`]+)`", text)))]


@pytest.mark.parametrize(("file", "fields"), PLANNED, ids=lambda each: getattr(each, "stem", ""))
def test_the_documented_roles_read_all_that_a_plan_reads(
    written: Written, file: Path, fields: tuple[str, ...]
) -> None:
    types = {type_ for stack in written(file).values() for type_ in stack["resource"]}
    actions, data = zip(*map(reads_of, types), strict=True)
    needed = {(each, False) for each in actions if each} | {(each, True) for each in data if each}
    assert needed
    for action, is_data in needed:
        assert allowed(action, _planners(fields), data=is_data), action
        # Else the table would name a role that nothing needs.
        assert is_data or not allowed(action, _planners(())), action

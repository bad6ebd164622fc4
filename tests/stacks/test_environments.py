"""Every shipped environment and every section of an environment file, synthesized: properties of
each of them, and of pages and diagrams about them.

The files in `sections/` set nearly every existing field: they reveal what works only if a test
passes it to a construct, and not if a user writes it in a file.

`golden/addresses.txt` lists each Terraform address and output with its environments, `*` for all of
them. It must change only on purpose: a deployed environment would lose resources that are destroyed
and recreated at another address. Then rewrite it in one process:

    FAIRWAY_GOLDEN=write bin/test tests/stacks/test_environments.py -k address -n 0
"""

import os
import re
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.stacks.documents import ENVIRONMENTS, FILES, SECTIONS, Stacks, Written

from fairway_core.catalog.roles import Permission, action_that_makes, allowed, built_in_roles
from fairway_core.catalog.tables import table
from fairway_core.checks import CheckContext, check_environment, check_stack
from fairway_core.diagram import draw
from fairway_core.diagram.build import EXISTING
from fairway_core.environment import load_environment, read_environment
from fairway_core.environment.model import Environment
from fairway_core.findings import Severity
from fairway_core.light_models import LightModel
from fairway_core.schema import models_in
from fairway_runner.live.requirements import actions_of

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


@pytest.mark.parametrize("name", FILES)
def test_environment_passes_checks_and_fits_the_provider_schema(
    written: Written, name: str
) -> None:
    loaded = read_environment(FILES[name])
    environment, ignore = loaded.environment, loaded.environment.checks.ignore
    found = check_environment(environment, loaded.document, ignore=ignore)
    taken: dict[Hashable, str] = {}
    for role, stack in written(FILES[name]).items():
        found += check_stack(
            stack, CheckContext.from_environment(environment), ignore=ignore, name=role, taken=taken
        )
    assert [each for each in found if each.severity is Severity.ERROR] == []


def test_environment_sections_together_use_every_model_and_field() -> None:
    used = {part for file in SECTIONS for part in _used(load_environment(file))}
    assert set(models_in(Environment)) - used == set()
    assert {f"Environment.{field}" for field in Environment.model_fields} - used == set()


def _used(value: object) -> Iterator[str]:
    """Yields the models in a value, and the fields of each that were set."""
    if isinstance(value, BaseModel | LightModel):
        yield type(value).__name__
        for field in getattr(value, "model_fields_set", vars(value)):
            yield f"{type(value).__name__}.{field}"
            yield from _used(getattr(value, field))
    elif isinstance(value, str) and " like " in value:
        yield "DescribedSize"  # which is stored as text
    elif isinstance(value, dict | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _used(item)


_GOLDEN = _HERE / "golden" / "addresses.txt"


def _addresses(stacks: Stacks) -> Iterator[str]:
    """Yields a line for each resource, data source and output of the stacks."""
    for role, stack in stacks.items():
        for kind, prefix in (("data", "data."), ("resource", "")):
            for type_, instances in stack.get(kind, {}).items():
                yield from (f"{role} {prefix}{type_}.{name}" for name in instances)
        yield from (f"{role} output.{name}" for name in stack.get("output", {}))


def _golden() -> dict[str, set[str]]:
    """Returns the environments by address."""
    rows = (line.split(": ") for line in _GOLDEN.read_text(encoding="utf-8").splitlines())
    return {address: {*FILES} if names == "*" else {*names.split()} for address, names in rows}


def _write(name: str, found: set[str]) -> None:
    known, rows = _golden(), []
    for address in sorted({*known, *found}):
        names = known.get(address, set()) - {name} | ({name} if address in found else set())
        if names:
            rows.append(f"{address}: {'*' if names == {*FILES} else ' '.join(sorted(names))}\n")
    _GOLDEN.write_text("".join(rows), encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_environment_addresses_equal_golden_file(written: Written, name: str) -> None:
    found = {*_addresses(written(FILES[name]))}
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        _write(name, found)
    assert found == {address for address, names in _golden().items() if name in names}, (
        "resources would be replaced where they are deployed"
    )


def test_environment_addresses_in_golden_file_are_of_known_environments() -> None:
    assert set().union(*_golden().values()) == {*FILES}


def test_documentation_lists_each_assigned_role_with_its_reason(
    written: Written,
) -> None:
    listed = (_ROOT / "docs/deploying.md").read_text().partition("## Roles that")[2]
    rows = [line for line in listed.splitlines() if line.startswith("| ")]
    for file in SECTIONS:
        for stack in written(file).values():
            for each in stack.get("resource", {}).get("azurerm_role_assignment", {}).values():
                reason, role = each["description"], each.get("role_definition_name") or ""
                reason = re.sub(
                    r"(container|blobs into) [\w-]+|^\w+(?= is stopped| stops itself)",
                    lambda found: f"{found[1]} NAME" if found[1] else "NAME",
                    reason,
                )
                assert [r for r in rows if r.endswith(f"| {reason} |") and role in r], each


# Types that every diagram must show.
_DRAWN = {
    *("azurerm_subnet", "azurerm_nat_gateway", "azurerm_bastion_host"),
    *("azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"),
    *("azurerm_batch_account", "azurerm_batch_pool", "azurerm_kubernetes_cluster"),
    *("azurerm_storage_account", "azurerm_key_vault", "azurerm_container_registry"),
    *("azurerm_managed_lustre_file_system", "azurerm_netapp_volume"),
    *("azurerm_log_analytics_workspace", "azurerm_recovery_services_vault"),
}


@pytest.mark.parametrize("name", ["company", "own", "page", "pods", "lustre-large"])
def test_diagram_boxes_have_names_of_their_resources(written: Written, name: str) -> None:
    stacks = list(written(FILES[name]).values())
    named = [
        one for stack in stacks for each in stack["resource"].values() for one in each.values()
    ]
    names = {re.sub(r"\$\{[^}]*\}", "…", str(one.get("name"))) for one in named}
    picture = draw(load_environment(FILES[name]), name)
    made = [box for box in picture.all_nodes() if not any(EXISTING in x for x in box.lines)]
    people = {box.title for box in made if box.lines[0].startswith("user or group")}
    assert {box.title for box in made} - people <= names
    drawn = {
        each.title for network in picture.groups for each in (*network.groups, *picture.all_nodes())
    }
    for stack in stacks:
        for type_ in _DRAWN & stack["resource"].keys():
            for one in stack["resource"][type_].values():
                assert re.sub(r"\$\{[^}]*\}", "…", one["name"]) in drawn, type_
    for group in (each for network in picture.groups for each in (network, *network.groups)):
        assert group.title in names or EXISTING in group.lines[-1]


_PAGE = _ROOT / "docs/pull-requests.md"


def _documented(slurm: bool) -> list[str]:
    """Returns the roles that docs/pull-requests.md gives to the identity that deploys."""
    text = " ".join(_PAGE.read_text().split())
    row = r"\| deploy \| [^|]* \| (.*?) on the subscription"
    slurms = r"give the deploy identity (.*?) there\."
    match = re.search(slurms if slurm else row, text)
    assert match
    return re.split(r", | and ", match[1])


@pytest.mark.parametrize("file", ENVIRONMENTS, ids=lambda file: file.stem)
def test_documented_roles_suffice_to_deploy_each_environment(
    written: Written, tmp_path: Path, file: Path
) -> None:
    """The environments are protected, as by default."""
    own = tmp_path / file.name
    own.write_text(file.read_text().replace("protect: false\n", ""))
    environment = load_environment(own)
    types = {type_ for stack in written(own).values() for type_ in stack["resource"]}
    needed = {action for type_ in types if (action := action_that_makes(type_))}
    assert needed == set(actions_of(environment))
    roles = _documented(slurm=environment.scheduler is not None)
    for action in [*needed, "Microsoft.Compute/virtualMachineScaleSets/write"]:
        assert allowed(action, [built_in_roles()[role] for role in roles]), (action, roles)


def _planners(*fields: str) -> list[Permission]:
    """Returns permissions that docs/pull-requests.md gives to the identity that plans environments
    with these fields: built-in roles by name, and actions of a custom role."""
    lines = _PAGE.read_text().splitlines()
    given = [line.split("|")[2:] for line in lines if line.startswith("| plan |")]
    given += [line.split("|")[2:] for line in lines if any(f"`{one}`" in line for one in fields)]
    text = " ".join(cell for row in given for cell in row)
    roles = [role for name, role in built_in_roles().items() if f"{name} on" in text]
    return [*roles, Permission(tuple(re.findall(r"`(Microsoft\.[^`]+)`", text)))]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("pods", "engine: kubernetes"),
        ("box", "schedule:"),
        ("own", "storage: {customer_managed_key: true}"),
    ],
)
def test_documented_roles_suffice_to_plan_and_none_is_superfluous(
    written: Written, name: str, field: str
) -> None:
    types = {type_ for stack in written(FILES[name]).values() for type_ in stack["resource"]}
    needed = {
        (action, name == "data_reads")
        for name in ("reads", "data_reads")
        for type_, action in table("roles")[name].items()
        if type_ in types
    }
    assert needed
    for action, is_data in needed:
        assert allowed(action, _planners(field), data=is_data), action
        # Otherwise the table would name a superfluous role.
        assert is_data or not allowed(action, _planners(), data=False), action

"""Role assignments, and types of resources that hold data."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.stacks.documents import only

from fairway_constructs.bindings.facts import kept_facts
from fairway_constructs.cdk import Stack
from fairway_constructs.identity import assign_role
from fairway_constructs.researchers import assign_user_role
from fairway_core.catalog.tables import table
from fairway_core.catalog.terraform_types import holds_data, is_nested, takes_tags
from fairway_core.environment.access import DEPLOYER, researchers_of

Synthesize = Callable[[Callable[[Stack], object]], dict[str, Any]]


@pytest.mark.parametrize("new", [True, False])
def test_role_assignment_skips_directory_check_only_for_new_identity(
    synthesize: Synthesize, *, new: bool
) -> None:
    document = synthesize(
        lambda stack: assign_role(
            stack, "reads", on="/disk", principal_id="p", role_name="Reader", why="Reads", new=new
        )
    )
    found = only(document, "azurerm_role_assignment")
    assert found["principal_type"] == "ServicePrincipal"
    assert found.get("skip_service_principal_aad_check", False) is new


def test_role_assignment_of_first_deployer_stays_when_another_deploys(
    synthesize: Synthesize,
) -> None:
    (named,) = researchers_of(["00000000-0000-0000-0000-00000000000a"])

    def build(stack: Stack) -> None:
        for person in (DEPLOYER, named):
            assign_user_role(
                stack, "disk-used", on="/disk", person=person, role_name="Reader", reason="Reads"
            )

    found = synthesize(build)["resource"]["azurerm_role_assignment"]
    first = found["disk-used-by-deployer"]
    assert first["principal_id"] == "${data.azurerm_client_config.current.object_id}"
    assert first["lifecycle"] == {"ignore_changes": ["principal_id"]}
    assert first["description"] == "Reads; deployed this first"
    other = found[f"disk-used-by-{named.object_id}"]
    assert other["principal_id"] == named.object_id
    assert "lifecycle" not in other


ROWS = table("terraform_types")


def test_terraform_types_take_tags_exactly_if_the_provider_does() -> None:
    for name, body in kept_facts().resources.items():
        assert takes_tags(name) == ("tags" in body.attributes), name


def test_terraform_types_listed_have_bindings_and_are_sorted() -> None:
    known = kept_facts().resources
    for list_ in ("holds_data", "inside_another", "untaggable"):
        assert set(ROWS[list_]) <= set(known)
        assert ROWS[list_] == sorted(ROWS[list_])


def test_terraform_types_inside_another_resource_hold_data_too() -> None:
    assert set(ROWS["inside_another"]) <= set(ROWS["holds_data"])
    assert holds_data("azurerm_storage_share")
    assert is_nested("azurerm_storage_share")
    assert not takes_tags("terraform_data")

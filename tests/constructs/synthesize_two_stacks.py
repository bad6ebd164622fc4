"""Script run by test_cdk.py that synthesizes two stacks, which use all of `cdk`, into a folder."""

import sys

import fairway_constructs as az
from fairway_constructs.azurerm.data_client_config import DataClientConfig
from fairway_constructs.azurerm.provider import AzurermProvider
from fairway_constructs.azurerm.resource_group import ResourceGroup
from fairway_constructs.azurerm.user_assigned_identity import UserAssignedIdentity
from fairway_constructs.cdk import Backend, Fn, IConstruct
from fairway_constructs.terraform_data import TerraformData


class Look(az.Aspect):
    """An aspect that records the paths of visited nodes."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def visit(self, node: IConstruct) -> None:
        """Records the path of a node."""
        self.seen.append(node.node.path)


def main(folder: str) -> None:
    """Synthesizes into `folder`, twice."""
    app = az.App(outdir=folder)
    first = az.Construct(app, "first")
    network, compute = az.Stack(first, "network"), az.Stack(app, "compute")
    az.Tags.of(first).add("owner", "me")
    az.Aspects.of(app).add(look := Look())
    for stack in (network, compute):
        Backend(stack, "local", {"path": f"/state/{stack.node.id}.tfstate"})
        AzurermProvider(stack)
    other = AzurermProvider(compute, "other", alias="other")
    group = ResourceGroup(network, "group", name="g", location="westeurope", tags={"a": "b"})
    client = DataClientConfig(compute, "client")
    marker = TerraformData(compute, "marker", input=[1, 2])
    identity = UserAssignedIdentity(
        compute,
        "identity",
        name=Fn.join("-", [group.name, client.client_id]),
        location=group.location,
        resource_group_name=group.name,
        tags=group.tags,
        provider=other,
        depends_on=[marker],
        lifecycle=az.Lifecycle(prevent_destroy=True, replace_triggered_by=[marker]),
    )
    az.Output(compute, "published", value={"id": identity.id, "tags": group.tags}, static_id=True)
    app.synth()
    seen = sorted(look.seen)
    assert {"first/network/group", "compute/identity"} <= set(seen)
    app.synth()
    assert sorted(look.seen) == sorted(2 * seen), "once for each synthesis"


if __name__ == "__main__":
    main(sys.argv[1])

"""Stand-in for Azure Resource Manager: its answers let the azurerm provider plan."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.identity import ClientSecretCredential

from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.cloud import NOBODY
from fairway_simulator.azure.resource_ids import ResourcePath

Client = Callable[..., tuple[int, dict[str, Any]]]

GROUP = f"/subscriptions/{NOBODY}/resourceGroups/lab"
NETWORK = f"{GROUP}/providers/Microsoft.Network"


def test_azure_metadata_endpoints_all_point_to_the_control_plane(
    plane: ControlPlane, azure: Client
) -> None:
    _, found = azure("GET", "/metadata/endpoints?api-version=2022-09-01")
    hosts = set(re.findall(r'https://([^/"]+)', json.dumps(found)))
    assert hosts == {plane.host}
    assert found["authentication"]["loginEndpoint"] == f"https://{plane.host}/"
    assert found["suffixes"]["storage"] == "core.windows.net"


def test_azure_login_gives_tokens_to_azure_identity(plane: ControlPlane, azure: Client) -> None:
    credential = ClientSecretCredential(
        NOBODY,
        NOBODY,
        "none",
        authority=f"https://{plane.host}",
        disable_instance_discovery=True,
        connection_verify=str(plane.authority),
    )
    token = credential.get_token(f"https://{plane.host}/.default").token
    credential.close()
    assert token.count(".") == 2
    assert token.endswith(".")


def test_azure_request_without_a_token_answers_401(azure: Client) -> None:
    azure.token = ""  # type: ignore[attr-defined]
    status, found = azure("GET", f"{GROUP}?api-version=1")
    assert (status, found["error"]["code"]) == (401, "AuthenticationFailed")


def test_azure_subscription_lists_all_groups_resources(plane: ControlPlane, azure: Client) -> None:
    for group in ("one", "two"):
        place = f"/subscriptions/{NOBODY}/resourceGroups/{group}/providers/A.B/things/x"
        plane.store.put(ResourcePath(place), {})
    plane.store.put(ResourcePath(f"{GROUP}/providers/A.B/things/x/parts/p"), {})
    assert azure("DELETE", f"{GROUP}/providers/A.B/things/x")[0] == 405
    _, found = azure("GET", f"/subscriptions/{NOBODY}/providers/A.B/things")
    assert [each["id"].split("/")[4] for each in found["value"]] == ["one", "two"]


def test_azure_roles_are_found_by_name_and_id(azure: Client) -> None:
    authority = "providers/Microsoft.Authorization"
    roles = f"{GROUP}/{authority}/roleDefinitions"

    def by_name(name: str) -> Any:
        _, found = azure("GET", f"{roles}?%24filter=roleName+eq+%27{name}%27")
        (role,) = found["value"]
        return role

    role = by_name("It%27%27s+Reader")
    assert role["properties"]["roleName"] == "It's Reader"
    assert azure("GET", role["id"])[0] == 200
    assert azure("GET", roles)[1] == {"value": []}
    own = f"/subscriptions/{NOBODY}/{authority}/roleDefinitions/{NOBODY}"
    assert azure("GET", own)[0] == 404


def test_azure_scale_set_has_instances_with_addresses_of_its_subnet(
    plane: ControlPlane, azure: Client
) -> None:
    subnet = f"{NETWORK}/virtualNetworks/net/subnets/compute"
    plane.store.put(ResourcePath(subnet), {"properties": {"addressPrefixes": ["10.40.0.0/24"]}})
    interface = {"ipConfigurations": [{"properties": {"subnet": {"id": subnet}}}]}
    network = {"networkInterfaceConfigurations": [{"properties": interface}]}
    scale_set = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/pair"
    body = {
        "sku": {"name": "Standard_ND96isr_H100_v5", "capacity": 2},
        "properties": {"virtualMachineProfile": {"networkProfile": network}},
    }
    plane.store.put(ResourcePath(scale_set), body)
    listed = azure("GET", f"{scale_set}/virtualMachines")[1]["value"]
    assert [each["instanceId"] for each in listed] == ["0", "1"]
    assert azure("GET", f"{scale_set}/virtualMachines/1")[1] == listed[1]
    assert azure("GET", f"{scale_set}/virtualMachines/2")[0] == 404
    (nic,) = azure("GET", f"{scale_set}/virtualMachines/1/networkInterfaces")[1]["value"]
    both = azure("GET", f"{scale_set}/networkInterfaces")[1]["value"]
    assert nic == both[1]
    (address,) = [each["properties"] for each in nic["properties"]["ipConfigurations"]]
    assert address["privateIPAddress"].startswith("10.40.0.")
    sets = azure("GET", f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets")[1]["value"]
    assert [each["name"] for each in sets] == ["pair"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_azure_request_with_an_invalid_json_body_answers_400(azure: Client, method: str) -> None:
    status, found = azure(method, GROUP, b"{")
    assert (status, found["error"]["code"]) == (400, "InvalidRequestContent")


def test_azure_control_plane_gives_a_prepared_answer(plane: ControlPlane, azure: Client) -> None:
    path = f"/subscriptions/{NOBODY}/providers/Microsoft.Compute/locations/x/usages"
    assert azure("GET", path) == (200, {"value": []})
    plane.give(path, {"error": {"code": "AuthorizationFailed"}}, status=403)
    assert azure("GET", f"{path}?api-version=1")[0] == 403


def test_azure_control_plane_program_serves_until_its_input_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fairway_simulator.azure"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        variables = json.loads(program.stdout.readline())
        authority = Path(variables["SSL_CERT_FILE"])
        assert variables["ARM_METADATA_HOSTNAME"].startswith("localhost:")
        assert "BEGIN CERTIFICATE" in authority.read_text()
        program.stdin.close()
        assert program.wait(timeout=300) == 0
    assert not authority.exists()

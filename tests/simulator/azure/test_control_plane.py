"""The stand-in for Azure Resource Manager answers as the azurerm provider needs it.

`requests.jsonl` holds what the real provider, version 5.2.0, asked when it applied 16
resources: method, path, the shape of the body, and the status that it went on with.
"""

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

Client = Callable[..., tuple[int, dict[str, Any]]]

RECORDED = [
    json.loads(line) for line in Path(__file__).with_name("requests.jsonl").read_text().splitlines()
]
GROUP = f"/subscriptions/{NOBODY}/resourceGroups/lab"
NETWORK = f"{GROUP}/providers/Microsoft.Network"


def _body(shape: Any) -> Any:
    """A body of the recorded shape, its values as empty as they may be."""
    if isinstance(shape, dict):
        return {key: _body(value) for key, value in shape.items()}
    if isinstance(shape, list):
        return dict.fromkeys(shape)
    return {"str": "text", "list": ["1"]}[shape]


def test_the_recorded_requests_get_the_recorded_answers(plane: ControlPlane, azure: Client) -> None:
    statuses = [
        azure(each["method"], each["path"], _body(each["body"]) if "body" in each else None)[0]
        for each in RECORDED
    ]
    assert len(statuses) == 62
    assert statuses == [each["status"] for each in RECORDED]
    assert [status for *_, status in plane.requests] == statuses


def test_every_endpoint_of_the_metadata_leads_back(plane: ControlPlane, azure: Client) -> None:
    _, found = azure("GET", "/metadata/endpoints?api-version=2022-09-01")
    hosts = set(re.findall(r'https://([^/"]+)', json.dumps(found)))
    assert hosts == {plane.host}
    assert found["authentication"]["loginEndpoint"] == f"https://{plane.host}/"
    assert found["suffixes"]["storage"] == "core.windows.net"


def test_a_sign_in_library_gets_a_token(plane: ControlPlane, azure: Client) -> None:
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


def test_a_request_without_a_token_is_refused(azure: Client) -> None:
    azure.token = ""  # type: ignore[attr-defined]
    status, found = azure("GET", f"{GROUP}?api-version=1")
    assert (status, found["error"]["code"]) == (401, "AuthenticationFailed")


def test_control_plane_keeps_a_resource_until_its_group_is_deleted(azure: Client) -> None:
    subnet = f"{NETWORK}/virtualNetworks/net/subnets/compute"
    assert azure("GET", subnet)[1]["error"]["code"] == "ResourceNotFound"
    azure("PUT", GROUP, {"location": "westeurope"})
    _, made = azure("PUT", subnet, {"properties": {"addressPrefixes": ["10.40.0.0/24"]}})
    assert made["id"] == subnet
    assert made["properties"]["provisioningState"] == "Succeeded"
    # Azure ignores case, and answers with those it was given.
    assert azure("GET", subnet.upper())[1] == made
    assert azure("GET", f"{NETWORK}/virtualNetworks/net/subnets")[1] == {"value": [made]}
    assert azure("DELETE", GROUP)[0] == 200
    assert azure("GET", subnet)[0] == 404
    assert azure("DELETE", GROUP)[0] == 204


def test_deletion_below_a_lock_is_refused_until_the_lock_is_gone(azure: Client) -> None:
    account = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/lab"
    authority = "providers/Microsoft.Authorization"
    role = f"{account}/blobServices/default/containers/code/{authority}/roleAssignments/one"
    lock = f"{account}/{authority}/locks/kept"
    for path in (GROUP, account, role, f"{account}er", lock):
        azure("PUT", path, {})
    for path in (role, role.upper(), account, GROUP):
        status, found = azure("DELETE", path)
        assert (status, found["error"]["code"]) == (409, "ScopeLocked")
        assert f"locked: '{account}'" in found["error"]["message"]
    assert azure("GET", role)[0] == 200
    assert azure("DELETE", f"{account}er")[0] == 200
    assert [azure("DELETE", path)[0] for path in (lock, role, account)] == [200, 200, 200]


def test_a_subscription_lists_resources_of_all_groups(azure: Client) -> None:
    for group in ("one", "two"):
        azure("PUT", f"/subscriptions/{NOBODY}/resourceGroups/{group}/providers/A.B/things/x", {})
    azure("PUT", f"{GROUP}/providers/A.B/things/x/parts/p", {})
    _, found = azure("GET", f"/subscriptions/{NOBODY}/providers/A.B/things")
    assert [each["id"].split("/")[4] for each in found["value"]] == ["one", "two"]


def test_a_machine_gets_an_address_of_its_subnet(azure: Client) -> None:
    subnet = f"{NETWORK}/virtualNetworks/net/subnets/storage"
    azure("PUT", subnet, {"properties": {"addressPrefixes": ["10.40.7.0/28"]}})
    nic = {"ipConfigurations": [{"name": "a", "properties": {"subnet": {"id": subnet}}}]}
    _, found = azure("PUT", f"{NETWORK}/networkInterfaces/nic", {"properties": nic})
    address = found["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
    assert address.startswith("10.40.7.")
    assert 4 <= int(address.rpartition(".")[2]) <= 14


def test_a_disk_is_attached_without_losing_the_identity(azure: Client) -> None:
    """Attaching puts the whole machine again, with its disks and without its identity."""
    path = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/nfs"
    identity = {"type": "SystemAssigned"}
    _, made = azure("PUT", path, {"location": "westeurope", "identity": identity})
    assert made["properties"]["storageProfile"]["dataDisks"] == []
    system = made["properties"]["storageProfile"]["osDisk"]["managedDisk"]["id"]
    assert azure("GET", system)[0] == 200
    made["identity"] = None
    made["properties"]["storageProfile"]["dataDisks"] = [{"lun": 0, "name": "data"}]
    _, found = azure("PUT", path, made)
    assert found["identity"]["principalId"]
    assert found["properties"]["storageProfile"]["dataDisks"][0]["name"] == "data"


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        ("Microsoft.ManagedIdentity/userAssignedIdentities", "principalId clientId tenantId"),
        ("Microsoft.Storage/storageAccounts", "primaryEndpoints"),
        ("Microsoft.KeyVault/vaults", "vaultUri"),
        ("Microsoft.ContainerRegistry/registries", "loginServer"),
        ("Microsoft.OperationalInsights/workspaces", "customerId"),
        ("Microsoft.Insights/dataCollectionRules", "immutableId"),
        ("Microsoft.Batch/batchAccounts", "accountEndpoint"),
        ("Microsoft.Batch/batchAccounts/a/pools", "allocationState"),
        ("Microsoft.Network/publicIPAddresses", "ipAddress"),
        ("Microsoft.StorageCache/amlFilesystems", "clientInfo"),
        ("Microsoft.NetApp/netAppAccounts/a/capacityPools/b/volumes", "mountTargets"),
    ],
)
def test_control_plane_returns_properties_added_by_the_service(
    azure: Client, type_: str, keys: str
) -> None:
    path = f"{GROUP}/providers/{type_}/it"
    _, made = azure("PUT", path, {"location": "westeurope", "properties": None})
    for key in keys.split():
        assert made["properties"][key]
    assert azure("GET", path)[1] == made


def test_a_private_zone_comes_with_its_start_of_authority(azure: Client) -> None:
    zone = f"{NETWORK}/privateDnsZones/privatelink.example"
    azure("PUT", zone, {"location": "global"})
    _, record = azure("GET", f"{zone}/SOA/@")
    assert record["properties"]["soaRecord"]["refreshTime"] == 3600


def test_roles_are_found_by_name_and_id_and_assigned_on_a_scope(azure: Client) -> None:
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
    # One's own is not there before it is made.
    id_ = "00000000-0000-0000-0000-000000000009"
    own = f"/subscriptions/{NOBODY}/{authority}/roleDefinitions/{id_}"
    assert azure("GET", own)[0] == 404
    assert azure("PUT", own, {"properties": {"roleName": "scales"}})[0] == 201
    assert azure("GET", own)[1]["properties"]["roleName"] == "scales"
    reader = by_name("Storage+Blob+Data+Reader")["id"]
    account = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/lab"
    path = f"{account}/{authority}/roleAssignments/one"
    _, made = azure("PUT", path, {"properties": {"roleDefinitionId": reader}})
    assert made["properties"]["scope"] == account
    assert azure("GET", reader)[1]["properties"]["roleName"] == "Storage Blob Data Reader"


@pytest.mark.parametrize("type_", ["virtualMachines", "virtualMachineScaleSets"])
def test_capabilities_that_are_off_are_not_answered(azure: Client, type_: str) -> None:
    path = f"{GROUP}/providers/Microsoft.Compute/{type_}/it"
    off = {"additionalCapabilities": {"ultraSSDEnabled": False}}
    assert "additionalCapabilities" not in azure("PUT", path, {"properties": off})[1]["properties"]
    on = {"additionalCapabilities": {"ultraSSDEnabled": True}}
    made = azure("PUT", path, {"properties": on})[1]["properties"]
    assert made["additionalCapabilities"] == {"ultraSSDEnabled": True}


def test_a_scale_set_has_instances_with_addresses_of_its_subnet(azure: Client) -> None:
    subnet = f"{NETWORK}/virtualNetworks/net/subnets/compute"
    azure("PUT", subnet, {"properties": {"addressPrefixes": ["10.40.0.0/24"]}})
    interface = {"ipConfigurations": [{"properties": {"subnet": {"id": subnet}}}]}
    network = {"networkInterfaceConfigurations": [{"properties": interface}]}
    scale_set = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/pair"
    body = {
        "sku": {"name": "Standard_ND96isr_H100_v5", "capacity": 2},
        "properties": {"virtualMachineProfile": {"networkProfile": network}},
    }
    azure("PUT", scale_set, body)
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


def test_changes_are_merged_and_null_removes(azure: Client) -> None:
    path = f"{GROUP}/providers/A.B/things/x"
    assert azure("PATCH", path, {"tags": {"a": "1"}})[0] == 404
    azure("PUT", path, {"tags": {"a": "1", "b": "2"}})
    _, found = azure("PATCH", path, {"tags": {"a": None, "c": "3"}})
    assert found["tags"] == {"b": "2", "c": "3"}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_body_that_is_no_json_is_refused(azure: Client, method: str) -> None:
    status, found = azure(method, GROUP, b"{")
    assert (status, found["error"]["code"]) == (400, "InvalidRequestContent")


def test_an_answer_can_be_given(plane: ControlPlane, azure: Client) -> None:
    path = f"/subscriptions/{NOBODY}/providers/Microsoft.Compute/locations/x/usages"
    assert azure("GET", path) == (200, {"value": []})
    plane.give(path, {"error": {"code": "AuthorizationFailed"}}, status=403)
    assert azure("GET", f"{path}?api-version=1")[0] == 403


def test_the_program_serves_until_its_input_ends() -> None:
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

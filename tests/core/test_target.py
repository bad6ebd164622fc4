"""The target: the record that the infrastructure writes and the runner reads."""

import json
from pathlib import PurePosixPath
from typing import Any

import pytest
from pydantic import ValidationError

from fairway_core.findings import UserError
from fairway_core.target import NodeRange, Target

# The example of the design.
SLURM: dict[str, Any] = {
    "version": 1,
    "name": "nd",
    "environment": "h100",
    "engine": "slurm",
    "vm_size": "Standard_ND96isr_H100_v5",
    "region": "southcentralus",
    "nodes": {"min": 0, "max": 16},
    "spot": False,
    "mounts": {"data": "/data", "home": "/home"},
    "storage": {
        "account_url": "https://h100st01234567.blob.core.windows.net/",
        "containers": ["datasets", "outputs", "code"],
    },
    "vault_url": "https://h100-kv.vault.azure.net/",
    "slurm": {"host": "10.0.0.4", "user": "azureuser", "partition": "nd", "shared": "/data/f"},
}
WITHOUT = {key: value for key, value in SLURM.items() if key != "slurm"}
SSH = {
    **WITHOUT,
    "engine": "ssh",
    "ssh": {"host": "h", "user": "u", "shared": "/data/f", "others": [], "machines": ""},
}
POOL = {"endpoint": "e", "pool": "p", "identity": "i", "mpi": False}
BATCH = {**WITHOUT, "engine": "batch", "batch": POOL}
BASTION = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lab-rg-network"
    "/providers/Microsoft.Network/bastionHosts/lab-bas"
)
PRICED = {**SSH, "region": "", "price": 12.5}
THROUGH_BASTION = {**SSH, "ssh_route": {"bastion": BASTION}}
THROUGH_HOSTS = {**SLURM, "ssh_route": {"jump": ["me@gate.contoso.com:2222", "second"]}}


@pytest.mark.parametrize(
    "record",
    [SLURM, SSH, BATCH, PRICED, THROUGH_BASTION, THROUGH_HOSTS],
    ids=["slurm", "ssh", "batch", "priced", "bastion", "jump"],
)
def test_target_record_round_trips_through_json(record: dict[str, Any]) -> None:
    target = Target.model_validate(record)
    assert target.record() == record
    assert Target.from_json(json.loads(json.dumps(target.record()))) == target


def test_target_batch_pool_defaults_to_mpi() -> None:
    section = {key: value for key, value in POOL.items() if key != "mpi"}
    target = Target.from_json({**BATCH, "batch": section})
    assert target.batch is not None
    assert target.batch.mpi


def test_target_local_needs_no_section() -> None:
    local = Target.local()
    assert (local.name, local.engine) == ("local", "local")
    assert Target.model_validate(local.record()) == local


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"engine": "ssh"}, "no `slurm:` section"),
        ({"engine": "local"}, "no `slurm:` section"),
        ({"slurm": None}, "needs its `slurm:` section"),
        ({"ssh": SSH["ssh"]}, "no `ssh:` section"),
        ({"nodes": {"min": 3, "max": 2}}, "min 3 is above max 2"),
        ({"nodes": {"min": 0, "max": 0}}, "greater than or equal to 1"),
        ({"engine": "pbs"}, "'slurm', 'batch' or 'kubernetes'"),
        ({"version": 2}, "Input should be 1"),
        ({"partition": "nd"}, "Extra inputs are not permitted"),
        ({"region": "South Central US"}, "not an Azure region's name"),
        ({"region": "eastus\x1b[2J"}, "not an Azure region's name"),
        ({"price": 0}, "greater than 0"),
        ({"price": -1.5}, "greater than 0"),
        ({"price": 1e308}, "less than or equal to 1000000"),
        ({"price": "nan"}, "finite number|valid number"),
        ({"ssh_route": {}}, "this is no route"),
        (
            {"ssh_route": {"bastion": BASTION, "jump": ["gate"]}},
            "`bastion:` and `jump:` cannot be combined",
        ),
        ({"ssh_route": {"bastion": "lab-bas"}}, "not the id of a Bastion"),
        ({"ssh_route": {"jump": []}}, "at least 1 item"),
        ({"ssh_route": {"jump": ["one,two"]}}, "`one,two` is not a jump host"),
        ({"ssh_route": {"jump": ["-oProxyCommand=reboot"]}}, "is not a jump host"),
    ],
)
def test_target_with_contradictory_record_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Target.model_validate({**SLURM, **change})
    with pytest.raises(ValueError, match=r"."):
        Target.from_json({**SLURM, **change})


POD = {"image": "train:1", "shared": "/data/f", "volumes": {"data": "claim"}}
PODS = {**WITHOUT, "engine": "kubernetes", "kubernetes": POD}


@pytest.mark.parametrize(
    "record",
    [
        [],
        {"engine": "local", "nodes": {"min": 1, "max": 1}},
        {**SLURM, "version": True},
        {**SLURM, "spot": 0},
        {**SLURM, "nodes": {"min": "0", "max": 1}},
        {**SLURM, "nodes": None},
        {**SLURM, "mounts": []},
        {**SLURM, "mounts": {"a\nb": "/data"}},
        {**SSH, "ssh": {**SSH["ssh"], "others": "host"}},
        {**BATCH, "batch": {**POOL, "task_slots": 257}},
        {**PODS, "kubernetes": {**POD, "volumes": {}}},
        {**PODS, "kubernetes": {**POD, "patience": 0}},
    ],
)
def test_target_from_json_refuses_fields_of_another_type_and_beyond_limits(record: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Target.from_json(record)


def test_target_from_json_accepts_what_it_has_recorded() -> None:
    section = {**POD, "patience": 900.0, "priorities": {"low": "low"}, "queue": "q"}
    target = Target.model_validate({**PODS, "kubernetes": section})
    assert Target.from_json(target.record()) == target


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min": 3, "max": 2}, "min 3 is above max 2"),
        ({"min": -1, "max": 2}, "at least 0"),
        ({"min": "many", "max": 2}, "expected a whole number, found the text `many`"),
        ({"min": 1, "maximum": 2}, "unknown key `maximum`"),
    ],
)
def test_node_range_that_is_made_in_python_is_checked_as_in_a_document(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        NodeRange(**arguments)


@pytest.mark.parametrize("folder", ["/data", PurePosixPath("/data")], ids=["plain", "converted"])
def test_target_that_is_made_in_python_takes_parts_and_converts_values(folder: object) -> None:
    made = {**SLURM, "nodes": NodeRange(min=0, max=3), "price": 2, "mounts": {"data": folder}}
    same = {"nodes": {"min": 0, "max": 3}, "price": 2.0, "mounts": {"data": "/data"}}
    assert Target(**made) == Target.from_json({**SLURM, **same})


def test_target_reach_is_refused_for_engine_local() -> None:
    record = {"name": "here", "engine": "local", "nodes": {"min": 1, "max": 1}}
    with pytest.raises(ValidationError, match="not for engine `local`"):
        Target.model_validate({**record, "ssh_route": {"jump": ["gate"]}})
    assert Target.model_validate({**BATCH, "ssh_route": {"jump": ["gate"]}}).ssh_route


@pytest.mark.parametrize("field", ["host", "user", "partition", "shared"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-oProxyCommand=touch /tmp/x", "begins with `-`"),
        ("a\nb", "control character"),
        ("a\x1b]0;x\x07", "control character"),
        ("\ud800", "control character"),
    ],
)
def test_target_refuses_values_like_options_or_with_control_characters(
    field: str, value: str, message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        Target.model_validate({**SLURM, "slurm": {**SLURM["slurm"], field: value}})


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../x"},
        {"name": "-t"},
        {"name": ""},
        {"name": "a\x1b[31m"},
        {"mounts": {"data": "/data\n"}},
        {"vault_url": "https://x\x1b["},
        {"slurm": {**SLURM["slurm"], "host": "one two"}},
    ],
)
def test_target_refuses_harmful_text(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"control character|not a target's name|a space"):
        Target.model_validate({**SLURM, **change})


def test_target_accepts_address_as_terraform_expression() -> None:
    host = '${try(data.x.instances[0].private_ip_address, "")}'
    target = Target.model_validate({**SSH, "ssh": {**SSH["ssh"], "host": host}})
    assert target.record()["ssh"]["host"] == host

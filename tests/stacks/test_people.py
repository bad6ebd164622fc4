"""People with their own accounts, on each machine of an environment."""

import json
import re
from typing import Any

import pytest
from endings import refused
from tests.stacks.documents import FILES, Stacks, Written, boot_data, decoded, targets_of

from fairway_constructs.cloud_init import people as cloud_init_people
from fairway_constructs.clusters import nodes
from fairway_core.findings import UserError

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu"
_USERS = f"users: [{{name: ada, keys: [{_KEY} ada]}}]"


@pytest.fixture
def team(written: Written) -> Stacks:
    """Returns the stacks of `people.yaml`."""
    return written(FILES["people"])


def _extensions(stack: dict[str, Any]) -> dict[str, str]:
    """Returns the script that each VM runs for its accounts, by the extension's logical id."""
    found = stack["resource"].get("azurerm_virtual_machine_extension", {})
    return {
        name: decoded(json.loads(each["settings"])["script"])
        for name, each in found.items()
        if each["type"] == "CustomScript"
    }


def test_people_have_accounts_on_every_machine_they_reach(
    team: Stacks,
) -> None:
    scripts = _extensions(team["network"]) | _extensions(team["compute"])
    assert set(scripts) == {
        "gateway-people",
        "slurm-scheduler-people",
        "slurm-login-0-people",
        "slurm-login-1-people",
        "machine-box-people",
    }
    nodes = team["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    texts = [*scripts.values(), *map(boot_data, nodes.values())]
    assert len(texts) == 7
    for text in texts:
        assert re.search(rf"^ *ada 30398 no {re.escape(_KEY)} ada$", text, re.MULTILINE)
        assert re.search(r"^ *grace 20001 yes ssh-ed25519 \S+ grace$", text, re.MULTILINE)


def test_people_on_slurm_have_homes_shares_and_no_identity_of_its_nodes(team: Stacks) -> None:
    compute, scripts = team["compute"]["resource"], _extensions(team["compute"])
    # On the file system that all partitions mount.
    assert "HOMES=/home\nMOUNT=/home\n" in scripts["slurm-scheduler-people"]
    assert "HOMES=/home\nMOUNT=''\n" in scripts["machine-box-people"], "on its own disk"
    # People's programs cannot use the identity that may read the munge key.
    fenced = [text for name, text in scripts.items() if name.startswith("slurm")]
    assert len(fenced) == 3
    nodes = [*map(boot_data, compute["azurerm_linux_virtual_machine_scale_set"].values())]
    assert all("FENCE=yes\n" in text for text in [*fenced, *nodes])
    # A node accepts no job before it has the accounts.
    assert all("is-active --quiet fairway-people.service" in text for text in nodes)
    machine = compute["azurerm_linux_virtual_machine"]["slurm-scheduler"]
    assert "AccountingStorageEnforce=associations" in boot_data(machine)
    for name in ("ada", "grace"):
        for account in ("vision", "nlp"):
            share = f"add user {name} Account={account} Cluster=team"
            assert share in scripts["slurm-scheduler-people"]


def test_people_read_secrets_of_jobs_but_not_of_the_scheduler(written: Written) -> None:
    text = FILES["people"].read_text()
    compute = written(f"{text}vault: {{}}\n")["compute"]["resource"]
    nodes = compute["azurerm_linux_virtual_machine_scale_set"]
    boot = nodes["cluster-nd"]["custom_data"]
    assert "fairway-secrets.service" in boot_data(nodes["cluster-nd"])
    settings = re.findall(r'"(people_vault|vault)": "(@@\d@@)"', boot_data(nodes["cluster-nd"]))
    places = dict(settings)
    assert set(places) == {"people_vault", "vault"}
    references = dict(re.findall(r'"(@@\d@@)", ([^)]+)\)', boot))
    assert "slurm" not in references[places["people_vault"]]
    assert "slurm" in references[places["vault"]]
    without = written(text)["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    assert "fairway-secrets" not in boot_data(without["cluster-nd"])
    alone = re.sub(r"(?s)  users:.*?(?=  bastion)", "", text)
    shared = written(f"{alone}vault: {{}}\n")["compute"]["resource"]
    (node, *_) = shared["azurerm_linux_virtual_machine_scale_set"].values()
    assert "fairway-secrets" not in boot_data(node), "all of azureuser's jobs read it by themselves"


def test_people_added_to_the_list_replace_no_machine(team: Stacks, written: Written) -> None:
    """Terraform replaces a VM if its boot data changes."""
    text = FILES["people"].read_text().replace("- name: ada", "- name: eve")
    other = written(text)
    for role in ("network", "compute"):
        kind = "azurerm_linux_virtual_machine"
        assert other[role]["resource"][kind] == team[role]["resource"][kind]


def test_people_list_emptied_locks_accounts_and_replaces_no_machine(written: Written) -> None:
    one, none = (
        written(_LAB.format(key=_KEY, access=access, clusters=_ND))["compute"]
        for access in (_USERS, "users: []")
    )
    kind = "azurerm_linux_virtual_machine"
    assert none["resource"][kind] == one["resource"][kind]
    assert _KEY in _extensions(one)["slurm-scheduler-people"]
    assert _KEY not in _extensions(none)["slurm-scheduler-people"]


def test_people_have_home_folders_in_targets(team: Stacks) -> None:
    targets = targets_of(team)
    assert targets["nd"].users == {"ada": "/home/ada/fairway", "grace": "/home/grace/fairway"}
    assert targets["pool"].users == {"ada": "", "grace": ""}
    mine = targets["nd"].as_user("ada")
    assert mine.slurm is not None
    assert mine.gateway is not None
    assert mine.gateway.user == "ada"
    assert (mine.slurm.user, mine.slurm.shared) == ("ada", "/home/ada/fairway")
    assert targets["nd"].as_user("nobody") == targets["nd"]
    machines = team["compute"]["resource"]["azurerm_linux_virtual_machine"]
    reserved = machines["cluster-box"]["capacity_reservation_group_id"]
    assert reserved.endswith("/capacityReservationGroups/reserved"), "a single VM, too"


def test_people_log_in_to_login_nodes_but_not_the_scheduler(
    team: Stacks,
) -> None:
    scripts = _extensions(team["compute"])
    assert "LOGIN=''\n" in scripts["slurm-scheduler-people"]
    assert "LOGIN=yes\n" in scripts["slurm-login-0-people"]
    machines = team["compute"]["resource"]["azurerm_linux_virtual_machine"]
    nodes = team["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    for name in ("slurm-login-0", "slurm-login-1"):
        assert machines[name]["size"] == "Standard_D8s_v6"
        assert machines[name]["identity"] == nodes["cluster-nd"]["identity"]
        assert "SlurmctldHost=team-slurm-scheduler" in boot_data(machines[name])
    target = targets_of(team)["nd"]
    assert target.slurm is not None
    assert target.slurm.hosts is not None
    assert "slurm-login-0-nic" in target.slurm.host
    for name in ("ada", "grace"):
        mine = target.as_user(name).slurm
        assert mine is not None
        assert mine.host in target.slurm.hosts
        assert target.as_user(name).slurm == mine, "the same each time"
    assert len({target.slurm.host_of(f"person{n}") for n in range(20)}) == 2, "spread"


def test_people_on_ssh_nodes_share_accounts_homes_and_one_queue(written: Written) -> None:
    stacks = written(FILES["duo"])
    compute = stacks["compute"]
    ((pair,), (box,)) = (
        compute["resource"][f"azurerm_linux_virtual_machine{kind}"].values()
        for kind in ("_scale_set", "")
    )
    (extension,) = pair["extension"]
    assert extension["type"] == "CustomScript"
    script = decoded(json.loads(extension["settings"])["script"])
    assert re.search(r"^ann \d+ no ssh-ed25519 \S+ ann$", script, re.MULTILINE)
    assert "HOMES=/data/home\nMOUNT=/data\nFENCE=''\nLOGIN=yes\n" in script
    assert "QUEUE=/data/fairway-queue\nQUEUE_MOUNT=/data\nCLUSTER=pair\n" in script
    # A new person leaves its boot data unchanged; a node announces itself in the queue.
    assert "ssh-ed25519" not in boot_data(pair)
    assert "QUEUE=/data/fairway-queue\n" in boot_data(pair)
    assert "QUEUE=" not in boot_data(box)
    alone = _extensions(compute)["machine-box-people"]
    assert "QUEUE=/var/lib/fairway-queue\nQUEUE_MOUNT=''\nCLUSTER=box\n" in alone
    targets = targets_of(stacks)
    assert targets["pair"].users == {
        "ann": "/data/home/ann/fairway",
        "bob": "/data/home/bob/fairway",
    }
    mine, own = targets["pair"].as_user("ann").ssh, targets["box"].as_user("bob").ssh
    assert mine is not None
    assert own is not None
    assert (mine.user, mine.shared) == ("ann", "/data/home/ann/fairway")
    assert (mine.queue, own.queue) == ("/data/fairway-queue", "/var/lib/fairway-queue")


def test_people_added_change_extension_of_nodes_but_not_boot_data(written: Written) -> None:
    text = FILES["duo"].read_text()
    one, other = (
        written(each)["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
        for each in (text, text.replace("name: ann", "name: eve"))
    )
    changed = {
        key for key in one["cluster-pair"] if one["cluster-pair"][key] != other["cluster-pair"][key]
    }
    assert changed == {"extension"}


def test_people_scripts_are_absent_without_users(written: Written) -> None:
    stacks = written(FILES["hub"])
    text = json.dumps(stacks)
    assert "fairway-people" not in text
    assert "users" not in stacks["compute"]["output"]["targets"]["value"][0]


def test_people_with_entra_id_sign_in_need_no_key(written: Written) -> None:
    stacks = written(FILES["box"])
    compute = stacks["compute"]
    (machine,) = compute["resource"]["azurerm_linux_virtual_machine"].values()
    assert machine["identity"]["type"] == "SystemAssigned, UserAssigned"
    # Without this file jobs would get tokens of the identity that has no role.
    assert "/etc/fairway/identity" in boot_data(machine)
    extensions = compute["resource"]["azurerm_virtual_machine_extension"]
    assert extensions["box-entra-login"]["type"] == "AADSSHLoginForLinux"
    script = _extensions(compute)["machine-box-people"]
    assert "\neve@" not in script, "Entra ID makes the account"
    assert "SIGNED_IN=eve@contoso.com\n" in script, "whose containers have users of their own"
    (grant,) = [
        each
        for each in compute["resource"]["azurerm_role_assignment"].values()
        if "Login" in (each.get("role_definition_name") or "")
    ]
    assert grant["role_definition_name"] == "Virtual Machine Administrator Login"
    assert grant["principal_id"] == "00000000-0000-0000-0000-000000000005"
    (target,) = targets_of(stacks).values()
    assert target.users is not None
    assert target.users["eve@contoso.com"] == "~/fairway"


_LAB = """\
name: lab
location: westeurope
access:
  ssh_keys: ["{key} me"]
  {access}
filesystems:
  data: {{kind: nfs_server, path: /data}}
  home: {{kind: azure_files, path: /home}}
clusters:
  {clusters}
"""
_ND = "nd: {engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]}"
_PAIR = "pair: {engine: ssh, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}"
_BOX = "box: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1}"
_ID = "00000000-0000-0000-0000-000000000005"
_POOL = "pool: {engine: batch, size: Standard_ND96asr_v4, nodes: {min: 0, max: 4}}"


@pytest.mark.parametrize(
    ("access", "clusters", "said"),
    [
        ("users: [{name: Ada, keys: [k]}]", _ND, "`Ada` cannot be the name"),
        ("users: [{name: slurm, keys: [k]}]", _ND, "of the machines themselves"),
        ("users: [{name: ada, keys: [k]}, {name: ada, keys: [k]}]", _ND, "is named twice"),
        (
            "users: [{name: ada, keys: [k], uid: 20001}, {name: bob, keys: [k], uid: 20001}]",
            _ND,
            "have the user id 20001",
        ),
        ("users: [{name: ada, keys: [k], uid: 1000}]", _ND, "at least 20000"),
        (_USERS, _POOL, "nobody logs in to nodes of Batch or Kubernetes"),
        (_USERS, f"{_ND}\n  b: {_ND[4:].replace('data', 'home')}", "mounted by all partitions"),
        ("users: [{name: ada, keys: [missing.pub]}]", _ND, "no such public key"),
        ("users: [{name: ada}]", _ND, "either with keys or with Entra ID"),
        (f"users: [{{name: ada@x.com, entra: {_ID}}}]", _ND, "all nodes of `nd` need the same"),
        (f"users: [{{name: ada@x.com, entra: {_ID}}}]", _PAIR, "all nodes of `pair` need the same"),
        (f"users: [{{name: ada, entra: {_ID}}}]", _BOX, "for example `ada@contoso.com`"),
        (f"users: [{{name: a@x.com, entra: {_ID}, uid: 20001}}]", _BOX, "ids from the machine"),
        (f"users: [{{name: a@x.com, entra: {_ID}}}]\n  gateway: true", _BOX, "accepts only keys"),
    ],
)
def test_people_settings_that_are_invalid_are_refused_at_their_line(
    written: Written, access: str, clusters: str, said: str
) -> None:
    finding = refused(lambda: written(_LAB.format(key=_KEY, access=access, clusters=clusters)))
    assert said in f"{finding.path} {finding.message} {finding.hint}"
    assert finding.location is not None


def test_people_exceeding_boot_data_of_a_node_are_refused(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "LONGEST_PACKED", 25_000)
    many = ", ".join(f"{{name: p{n}, uid: {20_000 + n}, keys: [{_KEY}]}}" for n in range(400))
    with pytest.raises(UserError, match="cluster `nd`: its nodes boot with") as told:
        written(_LAB.format(key=_KEY, access=f"users: [{many}]", clusters=_ND))
    assert re.search(r"; \d+ of them are the accounts of 400 users\n", str(told.value))
    assert told.value.findings[0].hint == "name fewer people"


def test_people_are_not_named_if_other_boot_data_is_too_long(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "LONGEST_PACKED", 10_000)
    with pytest.raises(UserError, match="cluster `nd`: its nodes boot with") as told:
        written(f"{_LAB.format(key=_KEY, access=_USERS, clusters=_ND)}# with less room\n")
    assert "people" not in str(told.value)
    assert told.value.findings[0].hint == "mount fewer file systems"


@pytest.mark.parametrize(
    ("cluster", "more"),
    [(_PAIR, ""), ("pool: {engine: batch, size: Standard_D16s_v6, nodes: 1}", "gateway: true\n  ")],
)
def test_people_exceeding_size_of_an_extension_are_refused(
    written: Written, monkeypatch: pytest.MonkeyPatch, cluster: str, more: str
) -> None:
    assert cloud_init_people._LONGEST == 256 * 1024
    monkeypatch.setattr(cloud_init_people, "_LONGEST", 2048)
    with pytest.raises(UserError, match="the accounts of 1 user take") as told:
        written(_LAB.format(key=_KEY, access=more + _USERS, clusters=f"{cluster}  # with less"))
    assert told.value.findings[0].id == "too-many-people"

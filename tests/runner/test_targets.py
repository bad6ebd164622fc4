"""Targets for jobs, written by hand or output by an environment, and those on this machine."""

import getpass
import json
import pwd
import socket
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import executable
from running import MakeRun
from targets import target_of

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.engines.engine import engine_for
from fairway_runner.runs.store import Run
from fairway_runner.targets.lookup import (
    all_targets,
    current_target,
    find_target,
    processes_per_node,
    uses_this_machine,
)
from fairway_runner.targets.nodes import read_targets

POOL = {
    "version": 1,
    "name": "spot",
    "engine": "batch",
    "vm_size": "Standard_ND96asr_v4",
    "nodes": {"min": 0, "max": 8},
    "mounts": {"data": "/data"},
    "batch": {"endpoint": "https://x.eastus.batch.azure.com", "pool": "spot", "identity": "/i"},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _synced(folder: Path, records: object) -> None:
    (folder / ".fairway").mkdir(exist_ok=True)
    (folder / ".fairway" / "targets.json").write_text(json.dumps(records))


def test_targets_are_synced_overridden_and_found_from_below(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _synced(folder, [POOL])
    known = all_targets()["spot"]
    assert known.target.batch is not None
    assert known.source == str(folder / ".fairway" / "targets.json")
    _synced(folder, [POOL])
    by_hand = {**POOL, "nodes": {"min": 0, "max": 2}}
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [by_hand]}))
    assert find_target("spot").nodes.max == 2
    (folder / "fairway.yaml").write_text("targets: [{name: local, mounts: {data: sets}}]")
    _synced(folder, [POOL])
    (folder / "jobs").mkdir()
    monkeypatch.chdir(folder / "jobs")
    assert set(all_targets()) == {"local", "spot"}
    assert find_target("local").mounts == {"data": str(folder / "sets")}


@pytest.mark.parametrize(
    ("written", "found"),
    [("lab.kubeconfig", "{folder}/lab.kubeconfig"), ("~/lab", "{home}/lab"), ("/a/b", "/a/b")],
)
def test_kubeconfig_path_is_relative_to_the_file_that_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: str, found: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    target: dict[str, Any] = {"name": "lab", "engine": "kubernetes", "nodes": {"min": 0, "max": 1}}
    access = {"image": "train:1", "shared": "/data/fairway", "volumes": {"data": "claim"}}
    target |= {"mounts": {"data": "/data"}, "kubernetes": {**access, "kubeconfig": written}}
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
    (folder / "jobs").mkdir()
    monkeypatch.chdir(folder / "jobs")
    kubeconfig = find_target("lab").kubernetes.kubeconfig
    assert kubeconfig == found.format(folder=folder, home="/home/me")


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", '{"name": "x"}', '[{"name": "x"}]', "[" * 100_000, "NaN"),
        '[{"version": 1, "name": "a\\ud800", "engine": "ssh"}]',
    ],
)
def test_targets_file_that_is_damaged_hints_at_sync(folder: Path, text: str) -> None:
    (folder / ".fairway").mkdir(exist_ok=True)
    (folder / ".fairway" / "targets.json").write_text(text)
    assert "fairway targets sync" in refused(lambda: all_targets(), match="cannot be read").hint


def test_targets_by_hand_with_a_bad_host_or_without_a_size_are_refused(folder: Path) -> None:
    access = "ssh: {host: -oProxyCommand=x, user: me, shared: /data}"
    text = f"targets:\n- name: lab\n  engine: ssh\n  nodes: {{min: 1, max: 1}}\n  {access}\n"
    (folder / "fairway.yaml").write_text(text)
    finding = refused(lambda: all_targets(), match=r"`targets\.0\.ssh\.host`: this begins with `-`")
    assert finding.location.line == 5
    by_hand = {key: value for key, value in POOL.items() if key != "vm_size"}
    (folder / "fairway.yaml").write_text(json.dumps({"targets": [by_hand]}))
    refused(lambda: processes_per_node(find_target("spot")), "is not known")
    _synced(folder, [{**POOL, "name": "nd"}])
    assert processes_per_node(find_target("nd")) == 8


BASTION = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/lab-rg-network"
    "/providers/Microsoft.Network/bastionHosts/lab-bas"
)


def _cluster(host: str, **fields: Any) -> dict[str, Any]:
    access = {"host": host, "user": "azureuser", "shared": "/data/fairway"}
    facts = {"name": "pair", "environment": "lab", "engine": "ssh", "nodes": {"min": 2, "max": 2}}
    return {**facts, "ssh": access, **fields}


def _recorded(make_run: MakeRun, record: dict[str, Any]) -> Run:
    """Makes a run that was submitted when its target was as in the record."""
    run = make_run(f"job-{record['ssh']['host']}", engine="ssh", target="pair")
    (run.folder / "target.json").write_text(json.dumps(record))
    return run


def test_run_is_reached_at_the_current_address_of_its_cluster(
    folder: Path, make_run: MakeRun
) -> None:
    """Azure has replaced the main host, and the targets were synced again."""
    old = _recorded(make_run, _cluster("10.40.0.4", vm_size="old"))
    _synced(folder, [_cluster("10.40.0.9", ssh_route={"bastion": BASTION}, vm_size="new")])
    target = old.engine.target
    assert target.ssh.host == "10.40.0.9"
    assert target.ssh_route is not None
    assert target.vm_size == "old", "what the run was planned for"
    new = engine_for(find_target("pair"))
    assert new.predecessor(old) == old.id


@pytest.mark.parametrize(
    "other",
    [
        {"environment": "test"},
        {"ssh": {"host": "10.40.0.9", "user": "azureuser", "shared": "/other"}},
        {"ssh": {"host": "", "user": "azureuser", "shared": "/data/fairway"}},
    ],
    ids=["environment", "folder", "nowhere"],
)
def test_target_as_known_now_ignores_another_cluster_of_the_same_name(
    folder: Path, other: dict[str, Any]
) -> None:
    recorded = Target.model_validate(_cluster("10.40.0.4"))
    _synced(folder, [_cluster("10.40.0.9") | other])
    assert current_target(recorded) == recorded
    (folder / "fairway.yaml").write_text("targets: pair\n")
    assert current_target(recorded) == recorded, "the targets are damaged"


@pytest.mark.parametrize("name", ['"pair"', '"p\\u0061ir"', "pair"])
def test_target_as_known_now_is_that_of_fairway_yaml_however_its_name_is_written(
    folder: Path, name: str
) -> None:
    recorded = Target.model_validate(_cluster("10.40.0.4"))
    _synced(folder, [_cluster("10.40.0.8")])
    written = json.dumps({"targets": [_cluster("10.40.0.9")]}).replace('"pair"', name)
    (folder / "fairway.yaml").write_text(written)
    found = current_target(recorded)
    assert found.ssh is not None
    assert found.ssh.host == "10.40.0.9"


def test_run_of_another_environment_is_refused_as_a_predecessor(
    make_run: MakeRun, folder: Path
) -> None:
    """The address and the shared folder are the same."""
    other = _recorded(make_run, _cluster("10.40.0.4", environment="test"))
    with pytest.raises(UserError, match="not on this cluster"):
        engine_for(Target.model_validate(_cluster("10.40.0.4"))).predecessor(other)


FORMS: list[Any] = [
    {"lab-compute": {"targets": [POOL]}, "lab-data": {"vault_url": "x"}},
    {"targets": {"sensitive": False, "type": ["list"], "value": [POOL]}},
]


@pytest.mark.parametrize("outputs", FORMS)
def test_terraform_outputs_are_read_in_either_form(tmp_path: Path, outputs: object) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps(outputs))
    assert [target.name for target in read_targets(file)] == ["spot"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "no output `targets`"),
        ([POOL], "no output `targets`"),
        ({"a": {"targets": [POOL]}, "b": {"targets": [POOL]}}, "two targets are named `spot`"),
        ({"targets": [{**POOL, "version": 2}]}, "not a target for this version"),
        ({"targets": ["x"]}, "not a target for this version"),
        (
            {"targets": [{**POOL, "ssh_route": {}}]},
            "Fairway: `ssh_route`: this is no route\n  name `bas",
        ),
        ({"targets": [{**POOL, "name": "\ud800"}]}, "not a target for this version"),
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 900 + "{}" + "}" * 900, "no output `targets`"),
    ],
)
def test_terraform_outputs_without_valid_targets_are_refused(
    tmp_path: Path, outputs: object, message: str
) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(outputs if isinstance(outputs, str) else json.dumps(outputs))
    refused(lambda: read_targets(file), message)
    refused(lambda: read_targets(tmp_path), "no synthesized stack")


def _synthesized(stack: Path, output: str = "targets") -> Path:
    stack.mkdir(parents=True)
    (stack / "cdk.tf.json").write_text(json.dumps({"output": {output: {"value": []}}}))
    return stack


@pytest.mark.parametrize("is_hcl", [False, True])
def test_terraform_stack_is_found_by_its_output_of_targets(tmp_path: Path, is_hcl: bool) -> None:
    if is_hcl:
        (stack := tmp_path / "stacks/lab-compute").mkdir(parents=True)
        (stack / "cdk.tf").write_text('locals {}\n\noutput "targets" {\n  value = []\n}\n')
    else:
        _synthesized(tmp_path / "stacks/lab")
    _synthesized(tmp_path / "stacks/lab-network", "bastion_host")
    assert refused(lambda: read_targets(tmp_path)).id in ("not-deployed", "no-terraform")


def test_terraform_outputs_of_a_folder_are_read_with_the_terraform_program(
    tmp_path: Path, programs: Path
) -> None:
    """A stand-in for Terraform takes the arguments of the real one, and answers like it."""
    _synthesized(tmp_path / "out" / "stacks" / "lab-compute")
    answer = json.dumps({"targets": {"value": [POOL]}})
    executable(
        programs / "terraform",
        f"[ \"$1\" = '-chdir={tmp_path}/out/stacks/lab-compute' ] || exit 9\n"
        f"[ \"$2 $3\" = 'output -json' ] || exit 8\nprintf '%s' '{answer}'",
    )
    assert [target.name for target in read_targets(tmp_path / "out")] == ["spot"]
    executable(programs / "terraform", "printf '╷\\n│ Error: no such blob\\n' >&2; exit 1")
    assert refused(lambda: read_targets(tmp_path / "out"), "no such blob", 5).id == "no-outputs"


@pytest.mark.parametrize(
    "answer",
    ["printf '╷\\n│ Error: Backend initialization required\\n' >&2; exit 1", "echo '{}'"],
    ids=["not initialized", "no outputs"],
)
def test_terraform_outputs_of_an_undeployed_environment_hint_at_deploy(
    tmp_path: Path, programs: Path, answer: str
) -> None:
    stack = _synthesized(tmp_path / "out" / "stacks" / "lab-compute")
    (stack.parent / "lab-network").mkdir()
    executable(programs / "terraform", answer)
    finding = refused(lambda: read_targets(tmp_path / "out"))
    assert finding.id == "not-deployed"
    assert "`lab`" in finding.message
    assert finding.hint.splitlines()[0] == "fairway deploy lab"
    assert f"terraform -chdir={stack} init" in finding.hint
    stack = stack.rename(stack.with_name("lab"))  # of a program
    finding = refused(lambda: read_targets(tmp_path / "out"))
    assert finding.hint.startswith(f"terraform -chdir={stack} init && terraform -chdir={stack} ap")


OWN = getpass.getuser()
OTHER = next(each.pw_name for each in pwd.getpwall() if each.pw_name not in (OWN, "root"))


@pytest.fixture(autouse=True)
def ssh_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host near\n  HostName 127.0.0.2\n"
        f"Host other\n  HostName localhost\n  User {OTHER}\n"
        f"Host mine\n  User {OWN}\n  HostName ::1\n"
        "Host away\n  HostName 192.0.2.1\n"
    )
    monkeypatch.setenv("FAIRWAY_SSH_CONFIG", str(file))


def at_host(host: str, user: str = OWN, **more: Any) -> Target:
    return target_of("ssh", {"host": host, "user": user, **more.pop("access", {})}, **more)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "127.1", "0x7f000001", "2130706433"),
        *("0.0.0.0", "::ffff:127.0.0.1", socket.gethostname(), "near"),
    ],
)
def test_this_machine_is_recognised_by_any_name_or_address(host: str) -> None:
    assert uses_this_machine(at_host(host))
    assert uses_this_machine(at_host(host, "root"))


@pytest.mark.parametrize("host", ["192.0.2.1", "away", "no-such-host.invalid", "near.invalid"])
def test_this_machine_is_not_recognised_in_another_host(host: str) -> None:
    assert not uses_this_machine(at_host(host))


def test_this_machine_is_recognised_by_account_hosts_and_jump() -> None:
    """`localhost` is used without ssh, as the current user."""
    assert not uses_this_machine(at_host("127.0.0.1", OTHER))
    assert uses_this_machine(at_host("127.0.0.1", "no-such-account"))
    assert uses_this_machine(at_host("localhost", OTHER))
    assert not uses_this_machine(at_host("other", ""))
    assert uses_this_machine(at_host("near", ""))
    assert uses_this_machine(at_host("192.0.2.1", access={"others": ["127.0.0.1"]}))
    hosts = {"host": "192.0.2.1", "user": OWN, "hosts": ["192.0.2.1", "127.0.0.1"]}
    assert uses_this_machine(target_of("slurm", hosts))
    assert not uses_this_machine(at_host("127.0.0.1", ssh_route={"jump": ["gate"]}))
    assert uses_this_machine(Target.local())
    assert not uses_this_machine(target_of("batch"))

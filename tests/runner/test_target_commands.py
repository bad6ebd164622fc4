"""Commands about targets and their nodes."""

import json
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from endings import ends, refused
from programs import executable
from running import RunFairway

from fairway_cli.commands import access
from fairway_core.target import Target
from fairway_runner.engines.outage import TargetUnavailable
from fairway_runner.targets.lookup import host_block

POOL = {
    "name": "spot",
    "engine": "batch",
    "vm_size": "Standard_ND96asr_v4",
    "region": "southcentralus",
    "price": 12.5,
    "nodes": {"min": 0, "max": 8},
    "mounts": {"data": "/data"},
    "batch": {"pool": "spot"},
}

# A scale set for which Azure had no capacity when it was deployed.
WITHOUT_NODES: dict[str, Any] = {
    "name": "pair",
    "engine": "ssh",
    "nodes": {"min": 2, "max": 2},
    "ssh": {"host": "", "user": "azureuser", "shared": "/data/fairway"},
}


@pytest.fixture
def sync(tmp_path: Path, here: RunFairway) -> Callable[..., tuple[int, str, str]]:
    """Function that runs `fairway targets sync` on a stack's outputs with the targets."""

    def run(targets: list[Any], *words: str) -> tuple[int, str, str]:
        (outputs := tmp_path / "outputs.json").write_text(
            json.dumps({"x-compute": {"targets": targets}})
        )
        return here("targets", "sync", "--from", str(outputs), *words)

    return run


def test_targets_list_shows_resources_nodes_and_mounts(tmp_path: Path, here: RunFairway) -> None:
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [POOL]}))
    code, out, _ = here("targets", "--offline", "--json")
    assert code == 0
    local, spot = json.loads(out)
    assert local["name"] == "local"
    assert spot["gpus"] == 8
    assert spot["infiniband_gbps"] == 1600
    assert (spot["region"], spot["price"]) == ("southcentralus", 12.5)
    assert (spot["nodes_now"], spot["nodes_max"]) == (None, 8)
    assert spot["source"] == str(tmp_path / "fairway.yaml")
    code, out, _ = here("targets", "--offline")
    assert "?/8" in out
    assert "data:/data" in out
    assert here("targets", "list", "--offline") == (0, out, "")
    new = "Standard_ND96isr_New_v9 like Standard_ND96asr_v4 with gpus=4"
    pool = {**POOL, "vm_size": new}
    own = {**POOL, "name": "own", "vm_size": "Standard_Unheard_v1"}
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [pool, own]}))
    code, out, _ = here("targets", "--offline", "--json")
    assert code == 0
    _, described, unknown = json.loads(out)
    assert (described["gpus"], described["infiniband_gbps"]) == (4, 1600)
    assert (unknown["gpus"], unknown["infiniband_gbps"]) == (0, None)


@pytest.mark.parametrize(("words", "seconds"), [((), 5.0), (("--deadline", "9s"), 9.0)])
def test_targets_list_shows_all_if_one_does_not_answer_by_the_deadline(
    tmp_path: Path,
    here: RunFairway,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    seconds: float,
) -> None:
    """A pool without an account is not asked, as its engine would import an SDK."""
    away = {**WITHOUT_NODES, "name": "away", "ssh": {**WITHOUT_NODES["ssh"], "host": "10.0.0.4"}}
    targets = {"targets": [POOL, away]}
    (tmp_path / "fairway.yaml").write_text(json.dumps(targets))
    monkeypatch.delenv("AZURE_BATCH_ENDPOINT", raising=False)
    asked = []

    def engine_for(target: Target, deadline: float) -> SimpleNamespace:
        asked.append((target.name, deadline))
        return SimpleNamespace(nodes=nothing if target.name == "away" else lambda: ["node"])

    away = TargetUnavailable.of("no-connection", "it is away", exit_code=5)
    nothing = Mock(side_effect=away)
    monkeypatch.setattr("fairway_runner.targets.nodes.engine_for", engine_for)
    code, out, _ = here("targets", "--json", *words)
    assert code == 0
    found = [(each["name"], each["nodes_now"]) for each in json.loads(out)]
    assert found == [("local", 1), ("spot", None), ("away", None)]
    assert sorted(asked) == [("away", seconds), ("local", seconds)]


def test_targets_sync_replaces_targets_and_an_empty_host_by_hand_is_refused(
    tmp_path: Path, here: RunFairway, sync: RunFairway
) -> None:
    for name in ("one", "two"):
        code, out, _ = sync([{**POOL, "name": name}])
        assert (code, name in out) == (0, True)
    code, out, _ = here("targets", "--offline", "--json")
    assert [each["name"] for each in json.loads(out)] == ["local", "two"]
    project = tmp_path / "fairway.yaml"
    project.write_text(json.dumps({"targets": [POOL, WITHOUT_NODES]}, indent=1))
    line = 1 + project.read_text()[: project.read_text().index('"host"')].count("\n")
    ends(here("targets", "--offline"), 2, f"fairway.yaml:{line}:", "localhost")


def test_targets_sync_reads_the_chosen_environment_from_its_project_and_names_what_it_replaces(
    tmp_path: Path, fairway: RunFairway, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(stacks: Path, name: str) -> None:
        (stack := stacks / f"{name}-compute").mkdir(parents=True)
        (stacks / f"{name}-network").mkdir()
        (stack / "cdk.tf.json").write_text(json.dumps({"output": {"targets": {}}}))
        (tmp_path / "environments").mkdir(exist_ok=True)
        (tmp_path / "environments" / f"{name}.yaml").write_text(f"name: {name}\n")
        outputs = json.dumps({"targets": {"value": [{**POOL, "environment": name}]}})
        executable(programs / "terraform", f"echo '{outputs}'")

    for file in ("cdktf.json", "fairway.yaml"):
        (tmp_path / file).write_text("{}")
    (below := tmp_path / "jobs").mkdir()
    here = partial(fairway, below)
    write(tmp_path / "cdktf.out/stacks", "lab")
    ends(here("targets", "sync"), 0)
    write(tmp_path / "elsewhere/stacks", "prod")
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("FAIRWAY_ENVIRONMENT", "lab")
    ends(here("targets", "sync"), 2, "holds the environment `prod`, and `lab` is", "other-envir")
    (tmp_path / "fairway.yaml").write_text("environment: prod")
    monkeypatch.delenv("FAIRWAY_ENVIRONMENT")
    ends(here("targets", "sync"), 0, "targets of `lab` are no longer known here [replaced-targets]")
    code, _, said = here("targets", "sync")
    assert (code, said) == (0, "")
    # A program's own stacks, and those of an environment whose file is elsewhere.
    monkeypatch.delenv("CDKTF_OUTDIR")
    (tmp_path / "fairway.yaml").write_text("environment: far")
    ends(here("targets", "sync"), 2, "holds the environment `lab`, and `far` is", "other-envir")
    (stack := below / "cdktf.out/stacks/my-compute").mkdir(parents=True)
    (stack / "cdk.tf.json").write_text(json.dumps({"output": {"targets": {}}}))
    ends(here("targets", "sync"), 0)


TEAM = {
    "name": "nd",
    "engine": "slurm",
    "nodes": {"min": 0, "max": 2},
    "users": {"ada": "/home/ada/fairway", "bob": "/home/bob/fairway"},
    "gateway": {"host": "10.40.0.9", "user": "azureuser"},
    "slurm": {**WITHOUT_NODES["ssh"], "host": "10.40.0.4", "partition": "nd"},
}


def test_targets_sync_remembers_the_account_of_the_user(here: RunFairway, sync: RunFairway) -> None:
    for more, user, shared in (
        ([], "azureuser", "/data/fairway"),
        (["--user", "ada"], "ada", "/home/ada/fairway"),
        ([], "ada", "/home/ada/fairway"),
        (["--user", "bob"], "bob", "/home/bob/fairway"),
    ):
        code, out, _ = sync([TEAM, POOL], "--json", *more)
        assert code == 0
        nd, pool = json.loads(out)
        assert (nd["slurm"]["user"], nd["slurm"]["shared"]) == (user, shared)
        assert nd["gateway"]["user"] == user
        assert pool["name"] == "spot"
    code, out, _ = here("ssh-config", "nd")
    assert "    User bob\n" in out


def test_ssh_config_refuses_a_target_name_that_is_a_pattern() -> None:
    target = Target.model_validate(ONE_HOST).model_copy(update={"name": "lab *"})
    refused(lambda: host_block(target), r"`lab \*` cannot be a host name")


@pytest.mark.parametrize(
    ("records", "hint"),
    [
        ([TEAM], "did you mean `ada`?"),
        ([POOL], "`access.users` in the environment creates accounts"),
    ],
)
def test_targets_sync_refuses_an_unknown_account(
    sync: RunFairway, records: list[object], hint: str
) -> None:
    ends(sync(records, "--user", "aada"), 2, "no target has an account `aada`", hint)


ONE_HOST = {"name": "lab", "engine": "ssh", "nodes": {"min": 1, "max": 1}}
ONE_HOST |= {"ssh": {"host": "h", "user": "u", "shared": "/data"}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nodes list lcoal", "there is no target `lcoal`"),
        ("nodes list gpu", "fairway targets sync"),
        ("nodes rebot local x", "Did you mean 'reboot'"),
        ("nodes reboot local", "Missing argument 'NODE…'"),
        ("nodes reboot local localhost", "`local` cannot reboot a node"),
        # 9 is above the maximum too, but the message says that the engine cannot resize.
        ("pool resize lab 9", "`lab` cannot be resized: its engine is `ssh`"),
        ("pool resize spot 9", "`spot` has at most 8 nodes"),
        ("ssh local", "`local` cannot be connected to"),
        ("ssh local n1 uptime", "fairway ssh local n1 -- uptime"),
        ("tunnel nothing-1 6006", "there is no run `nothing-1`"),
    ],
)
def test_target_commands_refuse_wrong_names_and_unsupported_actions(
    tmp_path: Path, here: RunFairway, words: str, message: str
) -> None:
    (tmp_path / "fairway.yaml").write_text(json.dumps({"targets": [POOL, ONE_HOST]}))
    (tmp_path / "fairway.lock").write_text(" \n")
    ends(here(*words.split()), 2, message)


def test_tunnel_refuses_a_local_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        finding = refused(lambda: access._require_free(port), f"^port {port} on this machine")
    assert "--local-port" in finding.hint
    access._require_free(port)


def test_tunnel_is_reported_as_open_once_it_listens(capsys: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    with socket.socket() as ssh:
        ssh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ssh.bind(("127.0.0.1", 0))
        port = ssh.getsockname()[1]
        telling = threading.Thread(target=access._say_once_open, args=(port, "open", ended))
        telling.start()
        telling.join(5 * access._PAUSE)
        assert capsys.readouterr().out == ""
        ssh.listen()
        telling.join()
    assert capsys.readouterr().out == "open\n"
    ended.set()
    access._say_once_open(port, "ended before", ended)
    assert capsys.readouterr().out == ""


def test_target_without_an_address_is_not_ready_and_runs_nothing_on_this_machine(
    tmp_path: Path, here: RunFairway, sync: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a target was once taken for this machine, and jobs ran here."""
    never = Mock(side_effect=AssertionError("this machine was taken for the target"))
    monkeypatch.setattr("fairway_runner.engines.remote.connection.Here.execute", never)
    code, out, err = sync([POOL, WITHOUT_NODES])
    assert code == 0
    assert "spot" in out
    assert "not ready" in out
    assert "warning: `pair` has no address" in err
    code, out, err = here("targets", "--offline", "--json")
    ready = {each["name"]: each["ready"] for each in json.loads(out)}
    assert ready == {"local": True, "spot": True, "pair": False}
    assert "fairway targets sync" in err
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({"name": "job", "command": "true", "template": "plain"}))
    for words in (f"submit {job} -t pair", "nodes list pair", "ssh pair -- id"):
        code, _, err = here(*words.split())
        assert (code, "`pair` has no address" in err) == (2, True), words
    assert not list((tmp_path / ".fairway").glob("runs/*"))
    code, out, _ = here("doctor", "pair")
    assert code == 5
    assert "`pair` has no address" in out

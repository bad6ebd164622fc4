"""Storage of the state, and the stack of the account that stores it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from endings import refused
from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from tests.stacks.documents import Written, only

from fairway_constructs.cdk import App, Stack
from fairway_constructs.terraform_data import TerraformData
from fairway_core.catalog.tables import table
from fairway_core.environment import AzurermState, LocalState, OtherState, read_environment
from fairway_core.environment.state import State
from fairway_core.findings import UserError, format_finding
from fairway_stacks.stack import keep_state

REMOTE = {
    "resource_group_name": "tfstate",
    "storage_account_name": "contosotfstate",
    "container_name": "tfstate",
    "use_azuread_auth": True,
}
STATE = "state: {backend: azurerm, resource_group: tfstate, storage_account: contosotfstate}\n"


def test_state_backend_has_a_blob_per_stack_and_no_key(written: Written, everything: str) -> None:
    remote, local = written(everything), written(everything.replace(STATE, ""))
    for role, stack in remote.items():
        backend = stack["terraform"]["backend"]
        assert backend == {"azurerm": {**REMOTE, "key": f"lab-{role}.tfstate"}}
        # Only the location of the state differs between backends.
        assert "local" in local[role]["terraform"]["backend"]
        assert stack["resource"] == local[role]["resource"]
    # A stack finds the others by the same settings.
    found = remote["compute"]["data"]["terraform_remote_state"].values()
    assert {state["backend"] for state in found} == {"azurerm"}
    keys = {state["config"]["key"] for state in found}
    assert keys == {"lab-data.tfstate", "lab-network.tfstate"}
    assert all(state["config"].items() >= REMOTE.items() for state in found)


def test_state_stack_is_written_alone_and_only_on_request(
    tmp_path: Path, everything: str, fairway: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab.yaml").write_text(everything)
    monkeypatch.setenv("FAIRWAY_STACKS", "state")
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    assert fairway("synth", str(tmp_path / "lab.yaml")) == 0
    assert [entry.name for entry in (tmp_path / "out/stacks").iterdir()] == ["lab-state"]


def test_state_stack_makes_account_open_to_deployer_and_named_ranges(
    written: Written, everything: str
) -> None:
    stack = written(everything, state=True)["state"]
    own = {"local": {"path": "../../../terraform.lab-state.tfstate"}}
    assert stack["terraform"]["backend"] == own
    kinds = ("resource_group", "storage_account", "storage_container", "role_assignment")
    group, account, container, grant = (only(stack, f"azurerm_{kind}") for kind in kinds)
    assert group["name"] == REMOTE["resource_group_name"]
    assert account["name"] == REMOTE["storage_account_name"]
    assert container["name"] == REMOTE["container_name"]
    assert account["shared_access_key_enabled"] is False
    assert account["blob_properties"]["versioning_enabled"] is True
    assert account["network_rules"]["default_action"] == "Deny"
    assert account["network_rules"]["ip_rules"] == ["203.0.113.0/24"]
    assert grant["role_definition_name"] == "Storage Blob Data Contributor"
    assert grant["scope"].startswith("${azurerm_storage_container.")
    assert grant["principal_id"] == "${data.azurerm_client_config.current.object_id}"
    assert grant["description"]
    assert grant["lifecycle"] == {"ignore_changes": ["principal_id"]}, "it is not taken away"
    text = everything.replace(STATE, STATE.replace("}", ", public_access: true}"))
    account = only(written(text, state=True)["state"], "azurerm_storage_account")
    assert account["network_rules"]["default_action"] == "Allow"
    assert account["shared_access_key_enabled"] is False


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  allowed: [203.0.113.0/24]\n", "", "nobody could reach the state"),
        ("203.0.113.0/24", "10.0.0.0/8", "nobody could reach the state"),
        (STATE, "", "keeps its state in files"),
    ],
)
def test_state_stack_that_is_unreachable_or_unused_is_refused(
    written: Written, everything: str, old: str, new: str, said: str
) -> None:
    assert old in everything
    with pytest.raises(UserError, match=said):
        written(everything.replace(old, new), state=True)


def test_state_account_is_planned_deployed_and_destroyed_alone(
    terraform: Any,
    tmp_path: Path,
    everything: str,
    fairway: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, report = tmp_path / "lab.yaml", tmp_path / "report"
    lab.write_text(everything)
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    state = [str(lab), "--stack", "state"]
    approved = ["--approved", str(report / "review.json")]
    assert fairway("plan", *state, "--report", str(report)) == 0
    assert fairway("deploy", *state, *approved) == 0
    assert fairway("destroy", *state, "--report", str(report)) == 3
    allow = ["--allow", "azurerm_managed_disk.lab-state"]
    assert fairway("destroy", *state, *approved, *allow) == 0
    done = [(each["stack"], each["command"]) for each in terraform.calls()]
    assert {stack for stack, _ in done} == {"lab-state"}
    assert [command for _, command in done if command == "apply"] == ["apply", "apply"]


@pytest.mark.parametrize("command", ["plan", "deploy", "destroy"])
def test_state_account_of_a_variable_is_refused_where_there_is_an_option(
    command: str,
    everything: str,
    tmp_path: Path,
    fairway: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (lab := tmp_path / "lab.yaml").write_text(everything)
    monkeypatch.setenv("FAIRWAY_STACKS", "state")
    assert fairway(command, str(lab)) == 2
    said = capfd.readouterr().err
    assert "FAIRWAY_STACKS is set" in said
    assert "--stack state" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["deploy", "--stack", "compute"], "`--stack compute`: only `state`"),
        (["plan", "--stack", "data"], "`--stack data`: only `state`"),
        (["destroy", "--stack", "state", "--stack", "data"], "`state` goes alone"),
    ],
)
def test_state_account_is_the_only_stack_without_the_others(
    terraform: Any,
    arguments: list[str],
    said: str,
    everything: str,
    tmp_path: Path,
    fairway: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (lab := tmp_path / "lab.yaml").write_text(everything)
    monkeypatch.setenv("CDKTF_OUTDIR", str(tmp_path / "out"))
    assert fairway(*arguments, str(lab)) == 2
    assert said in capfd.readouterr().err
    assert terraform.calls() == []


def test_state_backends_in_the_documentation_are_accepted(repository: Path) -> None:
    lines = re.findall(r"^state: \{backend.*", (repository / "docs/state.md").read_text(), re.M)
    for line in lines:
        section = YAML(typ="safe", pure=True).load(line)["state"]
        state = TypeAdapter(State).validate_python(section)
        assert state.backend == section["backend"]
    assert len(lines) >= 4


# Settings of each kind of backend, and the resulting ones for the stack `lab-network`.
OTHERS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "azurerm": (
        {
            "resource_group": "tfstate",
            "storage_account": "contosotfstate",
            "key": "k/",
            "subscription_id": "s",
            "use_oidc": True,
        },
        {**REMOTE, "key": "k/lab-network.tfstate", "subscription_id": "s", "use_oidc": True},
    ),
    "s3": (
        {"bucket": "b", "region": "r", "key": "k/", "allowed_account_ids": ["1"]},
        {"key": "k/lab-network.tfstate", "allowed_account_ids": ["1"]},
    ),
    "gcs": ({"bucket": "b", "prefix": "k/"}, {"prefix": "k/lab-network"}),
    "http": (
        {
            "address": "https://x/?ref=a",
            "lock_address": "https://x/locks/",
            "unlock_address": "https://x/{stack}/lock?ref=a",
            "unlock_method": "DELETE",
            "username": "gitlab-ci-token",
        },
        {
            "address": "https://x/lab-network?ref=a",
            "lock_address": "https://x/locks/lab-network",
            "unlock_address": "https://x/lab-network/lock?ref=a",
            "unlock_method": "DELETE",
            "username": "gitlab-ci-token",
        },
    ),
    "remote": (
        {"organization": "o", "workspaces": {"prefix": "k-"}},
        {"workspaces": {"name": "k-lab-network"}},
    ),
    "cloud": (
        {"organization": "o", "project": "p"},
        {"workspaces": {"name": "lab-network", "project": "p"}},
    ),
    "cos": (
        {"bucket": "b", "assume_role": {"role_arn": "r"}},
        {"key": "lab-network.tfstate", "assume_role": [{"role_arn": "r"}]},
    ),
    "kubernetes": (
        {"exec": {"api_version": "v1", "command": "c", "env": {"AWS_PROFILE": "p"}}},
        {
            "secret_suffix": "lab-network",
            "exec": {"api_version": "v1", "command": "c", "env": {"AWS_PROFILE": "p"}},
        },
    ),
    "oci": ({"bucket": "b", "namespace": "n"}, {"key": "lab-network.tfstate"}),
    "pg": ({"conn_str": "postgres://db/tf"}, {"schema_name": "lab-network"}),
    "local": (
        {"path": "states/"},
        {"path": "../../states/terraform.lab-network.tfstate"},
    ),
}


def test_state_of_any_backend_is_separate_per_stack_and_read_by_others(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    for backend, (settings, _) in OTHERS.items():
        state = TypeAdapter(State).validate_python({"backend": backend, **settings})
        made: TerraformData | None = None
        for role in ("network", "compute"):
            name = f"{backend}-{role}"
            stack = Stack(app, name)
            keep_state(stack, name, state, project=tmp_path, outdir=tmp_path)
            made = TerraformData(stack, "x", input=made.output if made else "")
    app.synth()
    for backend, (_, named) in OTHERS.items():
        own, reader = (
            json.loads((tmp_path / f"stacks/{backend}-{role}/cdk.tf.json").read_text())
            for role in ("network", "compute")
        )
        terraform = own["terraform"]
        found = terraform["cloud"] if backend == "cloud" else terraform["backend"][backend]
        name = f"{backend}-network"
        assert found.items() >= json.loads(json.dumps(named).replace("lab-network", name)).items()
        # The stacks after it read its outputs from there.
        read = reader["data"]["terraform_remote_state"][f"cross-stack-reference-input-{name}"]
        assert read["backend"] == ("remote" if backend == "cloud" else backend)
        if backend != "cloud":
            assert read["config"] == found
        assert name in json.dumps(read["config"])


BACKENDS = table("backends")["backends"]


def _state(backend: str, settings: dict[str, Any]) -> Any:
    """Validates a section with the backend's required settings, as from a file."""
    needed = dict.fromkeys(BACKENDS[backend].get("required", ()), "https://x")
    named = {"resource_group": "g", "storage_account": "accounts"} if backend == "azurerm" else {}
    section = {"backend": backend, **needed, **settings, **named}
    return TypeAdapter(State).validate_python(section)


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_backend_accepts_every_setting(backend: str) -> None:
    facts = BACKENDS[backend]
    maps = facts.get("maps", ())
    settings: dict[str, Any] = {name: "https://x" for name in facts["optional"] if name not in maps}
    settings |= {name: {"a": "b"} for name in maps if "." not in name}
    for name, inner in facts.get("nested", {}).items():
        settings[name] = {each: {"a": "b"} if f"{name}.{each}" in maps else "x" for each in inner}
    assert _state(backend, settings).settings.items() >= settings.items()


CREDENTIALS = [
    (backend, name, variable)
    for backend, facts in BACKENDS.items()
    for name, variable in facts.get("credentials", {}).items()
]


@pytest.mark.parametrize(("backend", "name", "variable"), CREDENTIALS)
def test_state_backend_refuses_every_credential(backend: str, name: str, variable: str) -> None:
    *block, last = name.split(".")
    settings: dict[str, Any] = {last: "hunter2"}
    with pytest.raises(ValidationError) as caught:
        _state(backend, {block[0]: settings} if block else settings)
    fault = caught.value.errors()[0]["ctx"]["error"]
    assert f"`{name}` is a credential" in str(fault)
    assert variable.format(host="app_terraform_io") in fault.hint
    assert "hunter2" not in str(fault) + fault.hint


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ('{backend: http, address: "https://me:hunter2@x/"}', "state.address"),
        ("{backend: kubernetes, exec: [{env: {MY_TOKEN: hunter2}}]}", "state.exec.env.MY_TOKEN"),
        ("{backend: kubernetes, confg: x, token: hunter2}", "state.token"),
        ('{backend: http, address: "https://x", headers: {Authorization: hunter2}}', "`headers`"),
        ('{backend: http, address: "https://x", bearer_token: hunter2}', "`bearer_token`"),
        ('{backend: http, address: "https://x", adres: "https://me:hunter2@x"}', "`adres`"),
    ],
)
def test_state_line_with_a_credential_is_not_printed(
    tmp_path: Path, everything: str, state: str, named: str
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(everything.replace(STATE.strip(), f"state: {state}"))
    with pytest.raises(UserError) as caught:
        read_environment(path)
    shown = "".join(map(format_finding, caught.value.findings))
    assert named in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("backend", "settings", "variable"),
    [
        ("http", {"address": "https://me:hunter2@x/"}, "TF_HTTP_PASSWORD"),
        ("http", {"lock_address": "https://x/?token=hunter2"}, "TF_HTTP_PASSWORD"),
        ("http", {"unlock_address": "https://x/?a=b&access_token=hunter2"}, "TF_HTTP_PASSWORD"),
        ("http", {"address": "https://x/?sv=1&sig=hunter2"}, "TF_HTTP_PASSWORD"),
        ("http", {"address": "https://[x/?token=hunter2"}, "TF_HTTP_PASSWORD"),
        ("pg", {"conn_str": "postgres://me:hunter2@db/tf"}, "PGPASSWORD"),
        ("pg", {"conn_str": "postgres://db/tf?sslmode=off&password=hunter2"}, "PGPASSWORD"),
        ("pg", {"conn_str": "host=db user=me password = hunter2"}, "PGPASSWORD"),
        ("s3", {"https_proxy": "http://me:hunter2@proxy:3128"}, "HTTPS_PROXY"),
        ("s3", {"endpoints": {"s3": "https://me:hunter2@minio"}}, "where Terraform runs"),
        ("consul", {"address": "https://me:hunter2@consul"}, "CONSUL_HTTP_AUTH"),
        ("kubernetes", {"proxy_url": "http://me:hunter2@proxy"}, "KUBE_PROXY_URL"),
        ("kubernetes", {"exec": {"env": {"MY_TOKEN": "hunter2"}}}, "MY_TOKEN"),
        ("kubernetes", {"exec": {"args": ["--token", "hunter2"]}}, "where Terraform runs"),
        ("cloud", {"hostname": "tf.my-firm.com", "token": "hunter2"}, "TF_TOKEN_tf_my__firm_com"),
        ("azurerm", {"oidc_request_url": "https://x/?token=hunter2"}, "ARM_OIDC_REQUEST_URL"),
    ],
)
def test_state_backend_refuses_hidden_credentials(
    backend: str, settings: dict[str, Any], variable: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        _state(backend, settings)
    fault = caught.value.errors()[0]["ctx"]["error"]
    assert "which a file must not hold" in str(fault)
    assert variable in fault.hint
    assert "hunter2" not in str(fault) + fault.hint


@pytest.mark.parametrize(
    ("backend", "settings", "message", "hint"),
    [
        ("s3", {"bucket": "b"}, "backend `s3` needs `region`", "add `region:`"),
        ("s3", {"bukket": "b"}, "backend `s3` takes no `bukket`", "did you mean `bucket`?"),
        ("s3", {"use_lock_file": True}, "takes no `use_lock_file`", "`use_lockfile`"),
        ("s3", {"assume_role": {"rol_arn": "r"}}, "takes no `rol_arn`", "`role_arn`"),
        ("s3", {"assume_role": "r"}, "takes settings of its own", "role_arn"),
        ("s3", {"bucket": {"name": "b"}}, "takes one value", "`bucket: VALUE`"),
        ("s3", {"key": 5}, "`key` takes text", 'key: "lab"'),
        ("local", {"path": True}, "`path` takes text", 'path: "lab"'),
        ("cloud", {"workspaces": {"name": 5}}, "`workspaces.name` takes text", 'name: "lab"'),
        ("http", {"headers": {"Authorization": "Bearer x"}}, "takes no `headers`", "it takes"),
        ("s3", {"assume_role": {"secret_key": "y"}}, "takes no `secret_key`", "one of: duration"),
        ("gcs", {"nested": {"password": "y"}}, "takes no `nested`", "one of: backend"),
        ("S3", {}, "`backend`: expected one of", "did you mean `s3`?"),
        ("http", {"address": "https://x/{stak}"}, "`address` has `{stak}`", "is `{stack}`"),
        ("http", {"address": "x/{stack}"}, "not begin with https://", "https://x/{stack}"),
        ("cloud", {"workspaces": {"tags": ["a"]}}, "no setting here", "write `name`"),
        (
            "s3",
            {"bucket": "b", "region": "r", "key": "terraform.tfstate"},
            "is not one itself",
            "`key: clusters/`",
        ),
    ],
)
def test_state_backend_refuses_unknown_or_invalid_settings(
    backend: Literal["s3", "cloud", "http", "gcs"],
    settings: dict[str, Any],
    message: str,
    hint: str,
) -> None:
    finding = refused(lambda: OtherState(backend=backend, **settings))
    assert message in finding.message
    assert hint in finding.hint


def test_state_secret_in_a_label_is_to_be_removed_and_not_set_in_a_variable() -> None:
    labels = {"token": "hunter2"}
    finding = refused(lambda: OtherState(backend="kubernetes", secret_suffix="x", labels=labels))
    assert finding.message.endswith("`labels.token` is a credential, which a file must not hold")
    assert finding.hint == "remove it"


def test_state_azurerm_setting_with_own_field_suggests_the_field() -> None:
    with pytest.raises(UserError) as caught:
        AzurermState(
            backend="azurerm",
            resource_group="g",
            storage_account="accounts",
            container_name="c",
        )
    assert "write `container:`" in caught.value.findings[0].hint


def test_state_misspelled_field_is_reported_once() -> None:
    finding = refused(
        lambda: AzurermState(backend="azurerm", resource_group="g", storage_acount="accounts")
    )
    assert "takes no `storage_acount`" in finding.message
    assert finding.hint == "did you mean `storage_account`?"


def test_state_models_cover_every_backend_of_the_table() -> None:
    named = [
        name
        for model in (LocalState, AzurermState, OtherState)
        for name in get_args(model.model_fields["backend"].annotation)
    ]
    assert sorted(named) == sorted(BACKENDS)


def test_state_backend_is_written_as_hcl_by_cdktf(tmp_path: Path) -> None:
    state = OtherState(
        backend="kubernetes",
        exec={"api_version": "v1", "command": "c", "args": ["a"]},
    )
    app = App(outdir=str(tmp_path), hcl_output=True)
    keep_state(Stack(app, "lab"), "lab", state, project=tmp_path, outdir=tmp_path)
    app.synth()
    text = (tmp_path / "stacks/lab/cdk.tf").read_text()
    assert 'backend "kubernetes" {' in text
    assert 'secret_suffix = "lab"' in text
    assert re.search(r"exec \{\s+api_version = \"v1\"", text)

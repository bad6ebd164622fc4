"""The page of an environment: settings of the first login node, and isolation from other
machines."""

import json
import re
from pathlib import Path

import pytest
from environment_files import load
from programs import finished, tool
from tests.stacks.documents import FILES, Stacks, Written, decoded

from fairway_core.environment.egress import outbound
from fairway_core.findings import UserError
from fairway_core.target import Target

_FILE = FILES["page"]
_VAULT = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/hub/providers/"
    "Microsoft.KeyVault/vaults/contoso-web"
)


@pytest.fixture
def stacks(written: Written) -> Stacks:
    return written(_FILE)


def _script(stacks: Stacks) -> str:
    """Returns the script that Azure runs on the node, with Terraform's references as numbers."""
    (command,) = stacks["compute"]["resource"]["azurerm_virtual_machine_run_command"].values()
    assert command["virtual_machine_id"] == "${azurerm_linux_virtual_machine.slurm-login-0.id}"
    return decoded(command["source"]["script"])


def _files(script: str) -> dict[str, str]:
    found = re.findall(
        r"^install -D -m \d+ /dev/stdin (\S+) <<'(\w+)'\n(.*?)^\2$", script, re.M | re.S
    )
    return {path: text for path, _, text in found}


def test_web_node_scripts_pass_shellcheck(stacks: Stacks, tmp_path: Path) -> None:
    text = _script(stacks)
    files = _files(text)
    (tmp_path / "outer.sh").write_text(text)
    (tmp_path / "inner.sh").write_text(files["/usr/local/sbin/fairway-web-setup"])
    done = finished([tool("shellcheck"), tmp_path / "outer.sh", tmp_path / "inner.sh"])
    assert done.returncode == 0, done.stdout


def test_web_server_gets_reachable_targets_and_no_secret(stacks: Stacks) -> None:
    text = _script(stacks)
    files = _files(text)
    records = json.loads(files["/etc/fairway/web/targets.json"])
    targets = [Target.model_validate(each) for each in records]
    assert [each.name for each in targets] == ["nd", "pool"], "of box it has no key"
    assert all(each.gateway is each.ssh_route is None for each in targets), "it is inside"
    slurm = targets[0].slurm
    assert slurm is not None
    assert (slurm.user, slurm.shared) == ("runs", "/data/home/runs/fairway")
    url = "https://runs.example.org"
    assert json.loads(files["/etc/fairway/web/fairway.yaml"]) == {
        "serve": {
            "url": url,
            "tenant": "11111111-2222-3333-4444-555555555555",
            "audience": "66666666-7777-8888-9999-000000000000",
            "targets": ["nd", "pool"],
        }
    }
    assert not [word for word in ("OIDCClientSecret", "PRIVATE KEY") if word in text]
    secrets = json.loads(files["/etc/fairway/web/secrets.json"])
    assert secrets["vault"] == "https://contoso-web.vault.azure.net/"
    assert (secrets["certificate"], secrets["secret"]) == ("runs-example-org", "runs-application")
    # Values to register in Entra ID and DNS.
    assert stacks["compute"]["output"]["web"]["value"] == {
        "url": url,
        "address": "${azurerm_network_interface.slurm-login-0-nic.private_ip_address}",
        "redirect_uri": f"{url}/oauth2/callback",
    }


def test_web_server_has_its_own_identity_with_few_roles(
    stacks: Stacks,
) -> None:
    machines = stacks["compute"]["resource"]["azurerm_linux_virtual_machine"]
    first, second = (
        machines[f"slurm-login-{number}"]["identity"]["identity_ids"] for number in (0, 1)
    )
    assert len(first) == 2
    assert second == first[:1]
    roles = stacks["data"]["resource"]["azurerm_role_assignment"]
    given = {
        (each["role_definition_name"], each["scope"])
        for each in roles.values()
        if each["principal_id"] == "${azurerm_user_assigned_identity.web.principal_id}"
    }
    assert ("Key Vault Secrets User", f"{_VAULT}/secrets/runs-example-org") in given
    assert ("Key Vault Secrets User", f"{_VAULT}/secrets/runs-application") in given
    assert {role for role, _ in given} == {
        "Key Vault Secrets User",
        "Storage Blob Data Contributor",
        "Azure Batch Data Contributor",
    }


def test_web_page_is_reachable_only_from_allowed_ranges(
    stacks: Stacks,
) -> None:
    groups = stacks["network"]["resource"]["azurerm_network_security_group"]
    rules = {
        (name, rule["name"]): rule
        for name, each in groups.items()
        for rule in each["security_rule"]
    }
    opened = {key for key, rule in rules.items() if rule["name"] == "AllowHttpsFromNamedRanges"}
    assert opened == {("compute-rules", "AllowHttpsFromNamedRanges")}
    rule = rules[opened.pop()]
    assert rule["source_address_prefixes"] == ["10.8.0.0/16"]
    assert rule["destination_port_range"] == "443"
    interface = stacks["compute"]["resource"]["azurerm_network_interface"]["slurm-login-0-nic"]
    assert "public_ip_address_id" not in interface["ip_configuration"][0]


def test_web_page_added_replaces_no_machine(stacks: Stacks, written: Written) -> None:
    """Terraform replaces a VM if its boot data changes, but changes its identities in place."""
    without = written(re.sub(r"(?s)\nweb:.*?\nclusters:", "\nclusters:", _FILE.read_text()))
    kind = "azurerm_linux_virtual_machine"
    before, after = (each["compute"]["resource"][kind] for each in (without, stacks))
    assert set(before) == set(after)
    for name in before:
        assert before[name]["custom_data"] == after[name]["custom_data"]


def test_web_page_hosts_are_listed_as_outbound(tmp_path: Path) -> None:
    text = f'{_FILE.read_text()}network: {{proxy: {{http: "http://p.example.com:3128"}}}}\n'
    names = {each.name for each in outbound(load(tmp_path, text))}
    assert {"login.microsoftonline.com", "pypi.org", "files.example.org"} <= names


_HTTPS = "url: https://runs.example.org"
_WHEEL = "fairway_hpc-1.0.0-py3-none-any.whl"
_RESERVED = "- {name: fairway-web, keys: [ssh-ed25519 AAAA]}\n    - name: runs"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("  login: {count: 2}\n", "  idle: 10m\n", "nor is the scheduler, and there is none"),
        ("account: runs", "account: ada", "`ada` is not under `access.users`"),
        ("- name: runs", "- admin: true\n      name: runs", "`runs` is an administrator"),
        ("- name: runs", "- name: fairway-web", "not under `access.users`"),
        ("- name: runs", _RESERVED, "`fairway-web` is the account of the page's own server"),
        ("[10.8.0.0/16]", "[203.0.113.0/24]", "the login node has no public address"),
        ("[10.8.0.0/16]", "[0.0.0.0/0]", "the login node has no public address"),
        ("[10.8.0.0/16]", "[8.0.0.0/6]", "the login node has no public address"),
        ("  allowed: [10.8.0.0/16]\n", "", "nobody could open the page"),
        (_HTTPS, "url: http://runs.example.org", "is not https:// and a name"),
        (_HTTPS, "url: https://runs.example.org:8443", "is not https:// and a name"),
        (_HTTPS, "url: https://runs.example.org/page", "is not https:// and a name"),
        (_HTTPS, 'url: "https://a.org\\nInclude /etc/x"', "is not https:// and a name"),
        ("tenant: 1", "tenant: x1", "is not an id of Entra ID"),
        ("client_id: 6", "client_id: x6", "is not an id of Entra ID"),
        ("vaults/contoso-web", "vaults/", "is not the id of a key vault"),
        ("certificate: runs-example-org", "certificate: a/b", "cannot be a name in a key vault"),
        ("secret: runs-application", "secret: a_b", "cannot be a name in a key vault"),
        (f"{_WHEEL}#sha256=0", f"{_WHEEL}#sha256=", "a wheel of Fairway whose digest is known"),
        (f"https://files.example.org/{_WHEEL}", "fairway-hpc==1.0", "installs a wheel of Fairway"),
        (f"files.example.org/{_WHEEL}", f"a b/{_WHEEL}", "installs a wheel of Fairway"),
        ("https://files", "http://files", "installs a wheel of Fairway"),
    ],
)
def test_web_page_settings_that_are_invalid_are_refused(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    text = _FILE.read_text()
    assert before in text
    with pytest.raises(UserError, match=re.escape(message)):
        load(tmp_path, text.replace(before, after, 1))

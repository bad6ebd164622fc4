"""Live checks: an environment compared with the answers of a stand-in for Azure on loopback."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from endings import refused
from environment_files import KEY, load

from fairway_cli.commands.environments import check
from fairway_core.catalog import vm_size
from fairway_core.catalog.roles import built_in_roles
from fairway_core.checks.live import LIVE
from fairway_core.environment import Environment, load_environment
from fairway_core.findings import Finding, Severity
from fairway_runner.live import azure_queries, rules
from fairway_runner.live.azure_queries import ask_azure
from fairway_runner.live.management import Management, chosen_cloud, signed_in_to
from fairway_runner.live.requirements import (
    Machines,
    Subscription,
    features_of,
    images_of,
    machines_of,
    pool_images_of,
    providers_of,
)
from fairway_simulator.azure import ControlPlane
from fairway_simulator.azure.rights import all_of

Look = Callable[..., list[Finding]]
Checked = Callable[..., tuple[int, str]]

VERSIONS = [{"name": "22.04.1"}, {"name": "22.04.2"}]
NOBODY = "00000000-0000-0000-0000-000000000000"
HERE = f"/subscriptions/{NOBODY}/providers"
COMPUTE = f"{HERE}/Microsoft.Compute"
H100 = "Standard_ND96isr_H100_v5"
A100 = "Standard_ND96asr_v4"
H200 = "Standard_ND96isr_H200_v5"
H100_NC = "Standard_NC80adis_H100_v5"
LAB = f"""\
name: lab
location: westeurope
zone: 2
access: {{ssh_keys: ["{KEY}"]}}
budget: {{monthly: 10, emails: [me@example.com]}}
filesystems:
  data: {{kind: nfs_server, path: /data, size: Standard_D32s_v6}}
clusters:
  pair: {{engine: ssh, size: {H100}, nodes: 2, mounts: [data]}}
  pool: {{engine: batch, size: {A100}, nodes: 4, spot: true}}
"""


@pytest.fixture
def lab(tmp_path: Path) -> Environment:
    """An environment with a scale set, a pool and a file server."""
    return load(tmp_path, LAB)


def versions_of(image: Any) -> str:
    """Returns the path at which Azure lists the versions of an image."""
    publisher = f"{COMPUTE}/locations/westeurope/publishers/{image.publisher}"
    return f"{publisher}/artifacttypes/vmimage/offers/{image.offer}/skus/{image.sku}/versions"


@pytest.fixture
def plane(lab: Environment, azure_alone: ControlPlane) -> ControlPlane:
    """Azure with everything that the environment needs."""
    plane = azure_alone
    zones = [{"location": "WestEurope", "zones": ["1", "2"]}]
    sizes = [H100, A100, "Standard_D32s_v6"]
    skus = [{"name": name, "locationInfo": zones, "restrictions": []} for name in sizes]
    # Azure answers in pages.
    more = f"https://{plane.host}{COMPUTE}/moreSkus"
    plane.give(f"{COMPUTE}/skus", {"value": skus[:1], "nextLink": more})
    plane.give(f"{COMPUTE}/moreSkus", {"value": skus[1:]})
    quota(plane, standardNDSH100v5Family=(192, 0), cores=(2000, 0), standardDSv6Family=(100, 0))
    for image in images_of(lab).values():
        plane.give(versions_of(image), [{"name": image.version}])
    plane.give(f"{HERE}/Microsoft.Authorization/permissions", {"value": [{"actions": ["*"]}]})
    return plane


RBAC = "Role Based Access Control Administrator"


@pytest.mark.parametrize(
    ("roles", "slurm", "missing"),
    [
        ([], False, "locks/write, Microsoft.Authorization/roleAssignments/write"),
        ([RBAC], False, "needs Microsoft.Authorization/locks/write, which"),
        ([RBAC, "Locks Contributor"], False, ""),
        ([RBAC, "Locks Contributor"], True, "roleDefinitions/write"),
        (["User Access Administrator"], True, ""),
    ],
)
def test_live_check_warns_of_permissions_that_the_deployer_lacks(
    tmp_path: Path, plane: ControlPlane, look: Look, roles: list[str], slurm: bool, missing: str
) -> None:
    given = [built_in_roles()[role] for role in ("Contributor", *roles)]
    permissions = [{"actions": each.actions, "notActions": each.not_actions} for each in given]
    plane.give(f"{HERE}/Microsoft.Authorization/permissions", {"value": permissions})
    text = LAB.replace("engine: ssh", "engine: slurm") if slurm else LAB
    (tmp_path / "own.yaml").write_text(text)
    found = look(load_environment(tmp_path / "own.yaml"))
    rights = [each for each in found if each.id == "missing-right"]
    assert [each.severity for each in rights] == [Severity.WARNING] * bool(missing)
    assert all(missing in each.message and "Contributor" in each.hint for each in rights)
    assert all(", which you are not allowed to do" in each.message for each in rights)
    makes_roles = "roleDefinitions" in missing  # which needs another role
    assert all(("User Access" in each.hint) is makes_roles for each in rights)


PODS = f"""\
name: pods
location: westeurope
zone: 2
budget: {{monthly: 10, emails: [me@example.com]}}
filesystems: {{data: {{kind: azure_files, path: /data}}}}
clusters:
  nd: {{engine: kubernetes, size: {H100}, nodes: 2, mounts: [data], job_image: a}}
"""


@pytest.mark.parametrize("state", [None, "Registering", "Registered"])
def test_live_check_requires_the_infiniband_feature_for_node_pools(
    lab: Environment, tmp_path: Path, plane: ControlPlane, look: Look, state: str | None
) -> None:
    feature = "Microsoft.ContainerService/features/AKSInfinibandSupport"
    if state:
        path = f"{HERE}/Microsoft.Features/providers/{feature}"
        plane.give(path, {"properties": {"state": state}})
    (file := tmp_path / "pods.yaml").write_text(PODS)
    wrong = [each for each in look(load_environment(file)) if each.id == "feature-not-registered"]
    assert len(wrong) == (state != "Registered")
    for each in wrong:
        assert f"AKSInfinibandSupport is {state or 'NotRegistered'} in the" in each.message
        assert each.hint.startswith("az feature register --namespace Microsoft.ContainerService ")
    assert not features_of(lab)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("1.36", []),
        ("1.34", ["kubernetes-not-offered"]),  # only with long-term support
        ("1.90", ["kubernetes-not-offered"]),
        ("1.37", ["kubernetes-preview"]),
    ],
)
def test_live_check_reports_kubernetes_versions_that_the_region_lacks(
    tmp_path: Path, look: Look, version: str, found: list[str]
) -> None:
    (file := tmp_path / "pods.yaml").write_text(f'{PODS}kubernetes: {{version: "{version}"}}\n')
    told = [each for each in look(load_environment(file)) if "kubernetes-" in each.id]
    assert _ids(told) == [(id_, "kubernetes.version") for id_ in found]
    assert all("it has 1.35, 1.36;" in each.hint for each in told)


def quota(plane: ControlPlane, **limits: tuple[int, int]) -> None:
    """Sets the limit of each quota, and its use."""
    usages = [
        {"name": {"value": name}, "limit": limit, "currentValue": used}
        for name, (limit, used) in limits.items()
    ]
    plane.give(f"{COMPUTE}/locations/westeurope/usages", {"value": usages})


def batch_accounts(plane: ControlPlane, **properties: object) -> None:
    """Adds the environment's Batch account, and another environment's with a tiny quota."""
    other = {"tags": {"environment": "b"}, "properties": {"lowPriorityCoreQuota": 1}}
    mine = {"tags": {"environment": "lab"}, "properties": properties}
    accounts = [{"name": "other", **other}, {"name": "it", **mine}]
    plane.give(f"{HERE}/Microsoft.Batch/batchAccounts", {"value": accounts})


@pytest.fixture
def azure(plane: ControlPlane) -> Iterator[Management]:
    """The subscription, read as Terraform's service principal."""
    with signed_in_to(NOBODY) as azure:
        yield azure


@pytest.fixture
def look(lab: Environment, azure: Management) -> Look:
    """Function that checks an environment against Azure, `lab` by default."""
    return lambda environment=lab: ask_azure(environment, azure)[0]


@pytest.fixture
def checked(plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checked:
    """Function that runs `fairway check --live` on the environment: exit code and output."""

    def run(**options: Any) -> tuple[int, str]:
        with pytest.raises(typer.Exit) as caught:
            check(str(tmp_path / "lab.yaml"), live=True, **options)
        return caught.value.exit_code, capsys.readouterr().out

    return run


def _ids(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.id, each.path) for each in findings]


def test_live_check_finds_nothing_if_all_requirements_are_met(
    plane: ControlPlane, look: Look
) -> None:
    assert look() == []
    assert {method for method, *_ in plane.requests} == {"GET", "POST"}
    posted = [path for method, path, _ in plane.requests if method == "POST"]
    assert posted == [f"/{NOBODY}/oauth2/v2.0/token"]


def test_live_check_needs_only_the_role_reader(plane: ControlPlane, look: Look) -> None:
    """Reader suffices, as docs/checks.md says. A role on another group shows nothing."""
    whole = f"/subscriptions/{NOBODY}"
    plane.rights = all_of(built_in_roles()["Reader"], [NOBODY], whole)
    found = look()
    assert [each.id for each in found] == ["missing-right"]
    plane.rights = all_of(built_in_roles()["Owner"], [NOBODY], f"{whole}/resourceGroups/other")
    found = look()
    assert {each.id for each in found} == {"not-allowed", "pool-images-not-asked"}
    plane.rights = all_of(built_in_roles()["Owner"], [NOBODY], whole)
    assert look() == []


def test_requirements_of_an_environment_list_machines_providers_and_images(
    lab: Environment, tmp_path: Path
) -> None:
    assert machines_of(lab) == [
        Machines("clusters.pair", H100, 2),
        Machines("clusters.pool", A100, 4, spot=True, pool=True),
        Machines("filesystems.data", "Standard_D32s_v6", 1),
    ]
    providers = {*providers_of(lab)}
    assert {"Microsoft.Batch", "Microsoft.Consumption", "Microsoft.Network"} <= providers
    assert not {"Microsoft.NetApp", "Microsoft.KeyVault", "Microsoft.StorageCache"} & providers
    (file := tmp_path / "pods.yaml").write_text(PODS)
    pods = load_environment(file)
    assert {"Microsoft.ContainerService", "Microsoft.KubernetesConfiguration"} <= {
        *providers_of(pods)
    }
    assert {each.path for each in machines_of(pods)} == {"clusters.nd", "kubernetes.system"}
    assert images_of(pods) == {}  # AKS nodes have an image of AKS


def pool_images(plane: ControlPlane, lab: Environment, sku: str = "", agent: str = "") -> None:
    """Lists one image that the Batch account supports, on a second page: the pool's or another."""
    image = pool_images_of(lab)["clusters.pool"]
    batch_accounts(plane, accountEndpoint=plane.host)
    reference = {"publisher": "Microsoft-DSVM", "offer": image.offer, "sku": sku or image.sku}
    listed = {"nodeAgentSKUId": agent or image.node_agent, "imageReference": reference}
    more = f"https://{plane.host}/moreImages"
    plane.give("/supportedimages", {"value": [], "odata.nextLink": more})
    plane.give("/moreImages", {"value": [listed]})


def hidden(plane: ControlPlane) -> None:
    """Forbids reading the quotas, and unregisters the provider Microsoft.Batch."""
    denied = {"error": {"code": "AuthorizationFailed"}}
    plane.give(f"{COMPUTE}/locations/westeurope/usages", denied, status=403)
    plane.give(f"{HERE}/Microsoft.Batch", {"registrationState": "Unregistered"})


def no_pool_images(plane: ControlPlane) -> None:
    """Forbids reading the images that the Batch account supports."""
    batch_accounts(plane, accountEndpoint=plane.host)
    plane.give("/supportedimages", {}, status=403)


SMALL = {"standardNDSH100v5Family": (96, 0), "cores": (2000, 1900)}
NOT_LISTED = "pool-image-not-listed"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            lambda plane, _: quota(plane, **SMALL),
            ["quota-too-small pair 192 vCPUs … is 96", "quota-in-use pair 100 of 2000 are free"],
        ),
        (
            lambda plane, _: batch_accounts(plane, lowPriorityCoreQuota=96),
            ["quota-too-small pool 384 vCPUs … Batch account `it`"],
        ),
        (pool_images, []),
        (
            lambda *it: pool_images(*it, sku="other"),
            [f"{NOT_LISTED} pool does not list image `mic"],
        ),
        (
            lambda *it: pool_images(*it, agent="el 9"),
            [f"{NOT_LISTED} pool agent el 9, not with ba"],
        ),
        (lambda plane, _: no_pool_images(plane), ["pool-images-not-asked  Azure Batch Account Re"]),
        (
            lambda plane, lab: plane.give(
                versions_of(images_of(lab)["clusters.pair"]), [*VERSIONS]
            ),
            [f"no-image-version {name} the newest is 22.04.2" for name in ("pair", "pool")],
        ),
        (
            lambda plane, _: hidden(plane),
            [
                "provider-not-registered  Microsoft.Batch",
                "not-allowed  locations/westeurope/usages",
            ],
        ),
    ],
    ids=[
        *("quota", "quota-of-pool", "image-of-pool", "other-image-of-pool", "other-agent-of-pool"),
        *("images-not-told", "image-version-gone", "hidden"),
    ],
)
def test_live_check_reports_what_azure_lacks(
    lab: Environment, plane: ControlPlane, look: Look, change: Any, found: list[str]
) -> None:
    """Each expected finding has its id, its cluster and parts of its text."""
    change(plane, lab)
    for finding, wanted in zip(look(), found, strict=True):
        id_, cluster, words = wanted.split(" ", 2)
        assert (finding.id, finding.path) == (id_, cluster and f"clusters.{cluster}")
        said = f"{finding.message}\n{finding.hint}"
        assert all(each in said for each in words.split(" … "))


@pytest.mark.parametrize(
    ("state", "days", "ids"),
    [
        ("Active", None, []),
        ("ScheduledForDeprecation", 61, []),
        ("ScheduledForDeprecation", 60, ["image-ending"]),
        ("Deprecated", -1, ["image-deprecated"]),
    ],
)
@pytest.mark.parametrize(
    ("path", "advice"),
    [("clusters.pair", "advises newer"), ("filesystems.data", "a newer version of Fairway")],
)
def test_live_check_reports_image_versions_near_or_past_deprecation(
    lab: Environment,
    plane: ControlPlane,
    look: Look,
    state: str,
    days: int | None,
    ids: list[str],
    path: str,
    advice: str,
) -> None:
    image = images_of(lab)[path]
    status: dict[str, Any] = {"imageState": state}
    if days is not None:
        end = datetime.now(UTC) + timedelta(days=days)
        status["scheduledDeprecationTime"] = f"{end:%Y-%m-%dT%H:%M:%S.%f}+00:00"
        status["alternativeOption"] = {"type": "Plan", "value": "newer"}
    about = {"name": image.version, "properties": {"imageDeprecationStatus": status}}
    plane.give(f"{versions_of(image)}/{image.version}", about)
    found = [each for each in look() if each.id.startswith("image-")]
    assert [each.id for each in found if each.path == path] == ids
    for each in found:
        assert image.urn in each.message
        assert advice in each.hint


def test_live_check_queries_each_image_once(
    tmp_path: Path, plane: ControlPlane, look: Look
) -> None:
    """File servers share an image; clusters may share one with each other and with the servers."""
    home = "  home: {kind: nfs_server, path: /h, size: Standard_D32s_v6}\nclusters:"
    cpus = "  cpus: {engine: ssh, size: Standard_D32s_v6, nodes: 1, image: ubuntu-2404}\n"
    (file := tmp_path / "more.yaml").write_text(LAB.replace("clusters:", home) + cpus)
    chosen = images_of(environment := load_environment(file))
    assert [*chosen] == ["clusters.pair", "clusters.pool", "clusters.cpus", "filesystems.data"]
    for image in chosen.values():
        plane.give(versions_of(image), [])
    found = [each.path for each in look(environment) if each.id == "no-image-version"]
    assert sorted(found) == sorted(chosen)
    asked = [path for _, path, *_ in plane.requests if path.split("?")[0].endswith("/versions")]
    assert len(asked) == len({each.urn for each in chosen.values()}) == 2


def _sku(*zones: str, none: str = "") -> dict[str, Any]:
    """Returns a size in these zones, restricted in the zone `none`, or everywhere if "all"."""
    closed: dict[str, Any] = {"type": "Zone", "restrictionInfo": {"zones": [none]}}
    if none == "all":
        closed = {"type": "Location", "reasonCode": "NotAvailable"}
    return {"locationInfo": [{"zones": [*zones]}], "restrictions": [closed] * bool(none)}


@pytest.mark.parametrize(
    ("sku", "id_", "said", "refusal", "zones"),
    [
        (None, "size-not-offered", "not offered in westeurope", "not in westeurope", ()),
        (_sku("1", "3"), "size-not-in-zone", "it is in zones 1, 3", "not in zone 2", ("1", "3")),
        (_sku(), "size-not-in-zone", "in zone 2 of westeurope: no zone has", "not in zone 2", ()),
        (_sku("1", "2", none="all"), "size-restricted", "europe: NotAvailable", "NotAvailable", ()),
        (
            _sku("2", none="2"),
            "size-restricted",
            "zone 2 of westeurope: no re",
            "not in zone 2",
            (),
        ),
        (_sku("2", none="1"), "", "", "", ("2",)),
    ],
    ids=["no-region", "other-zones", "no-zone", "closed", "closed-zone", "offered"],
)
def test_live_check_reports_a_size_not_offered_with_the_nearest_offered_one(
    sku: dict[str, Any] | None, id_: str, said: str, refusal: str, zones: tuple[str, ...]
) -> None:
    """The nearest size has as many GPUs and InfiniBand too; one with fewer GPUs is not near."""
    own = [] if sku is None else [{**sku, "name": H100.upper()}]
    found = list(rules.size_offered("clusters.pair", H100, "westeurope", 2, own))
    assert [each.id for each in found] == [id_] * bool(id_)
    assert all(said in each.message for each in found)
    others = [H200, H100_NC, "Standard_HB176rs_v4", "Standard_ND96isr_MI300X_v5"]
    skus = [{"name": name, "locationInfo": [{"zones": ["2"]}]} for name in others]
    families = ("cores", *(vm_size(name).quota_family for name in (H100, *others)))
    usages = [{"name": {"value": f}, "limit": 4000, "currentValue": 0} for f in families]
    subscription = Subscription("westeurope", 2, skus + own, usages)
    (offer,) = subscription.offers([Machines("clusters.pair", H100, 2)])
    assert (offer.refusal, offer.zones, offer.nearest) == (refusal, zones, H200 if id_ else "")


def test_live_check_of_a_size_without_a_zone_considers_only_the_region() -> None:
    sku = {"name": H100, "locationInfo": [{"zones": []}]}
    (found,) = rules.size_offered("clusters.pair", H100, "westeurope", 2, [sku])
    assert "`zone: none`" in found.hint
    assert not list(rules.size_offered("clusters.pair", H100, "westeurope", None, [sku]))


def test_live_check_uses_separate_quotas_for_spot_and_batch_accounts() -> None:
    machines = [Machines("clusters.a", A100, 2, spot=True), Machines("clusters.b", A100, 0)]
    usages = [
        {"name": {"value": "lowPriorityCores"}, "limit": 100, "currentValue": 0},
        {"name": {"value": "standardNDASv4_A100Family"}, "limit": 0, "currentValue": 0},
    ]
    (found,) = rules.quota_suffices("westeurope", machines, usages)
    assert "`lowPriorityCores`" in found.message
    properties = {
        "dedicatedCoreQuota": 1000,
        "dedicatedCoreQuotaPerVMFamilyEnforced": True,
        "dedicatedCoreQuotaPerVMFamily": [{"name": "standardNDSH100v5Family", "coreQuota": 96}],
    }
    account = {"name": "it", "properties": properties}
    fits = Machines("clusters.a", H100, 1, pool=True)
    more = Machines("clusters.b", H100, 2, pool=True)
    none = Machines("clusters.c", A100, 1, pool=True)
    found = rules.pool_quota_suffices([fits, more, none], account)
    assert [each.path for each in found] == ["clusters.b", "clusters.c"]


_OTHERS = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hub"
_LAKE = f"{_OTHERS}/providers/Microsoft.Storage/storageAccounts/lake"
_LOGS = f"{_OTHERS}/providers/Microsoft.OperationalInsights/workspaces/logs"
_IMAGES = f"{_OTHERS}/providers/Microsoft.ContainerRegistry/registries/images"
COMPANY = f"""\
resource_group: {{existing: {_OTHERS}}}
storage: {{existing: {_LAKE}}}
registry: {{existing: {_IMAGES}}}
monitoring: {{emails: [me@example.com], workspace: {_LOGS}}}
"""


def test_live_check_reports_existing_resources_missing_or_in_another_region(
    lab: Environment, plane: ControlPlane, look: Look, tmp_path: Path
) -> None:
    """A workspace and an account must be in the same region; a resource group need not be."""
    file = tmp_path / "company.yaml"
    file.write_text(LAB.replace("name: lab", f"name: {lab.name}") + COMPANY)
    company = load_environment(file)
    named = ("resource_group.existing", "storage.existing", "registry.existing")
    found = [each for each in look(company) if each.id == "not-there"]
    assert [each.path for each in found] == [*named, "monitoring.workspace"]
    assert "`lake` does not exist" in found[1].message
    assert f"az resource show --ids {_LAKE}" in found[1].hint
    for id_ in (_OTHERS, _LAKE, _IMAGES, _LOGS):
        plane.give(id_, {"id": id_, "location": "North Europe"})
    found = look(company)
    assert _ids(found) == [
        ("in-another-region", each) for each in ("storage.existing", "monitoring.workspace")
    ]
    assert "is in northeurope, and the environment in westeurope" in found[0].message
    for id_ in (_LAKE, _LOGS):
        plane.give(id_, {"id": id_, "location": "westeurope"})
    assert look(company) == []
    plane.give(_LAKE, {"error": {"code": "AuthorizationFailed"}}, status=403)
    (hidden,) = look(company)
    assert hidden.id == "not-allowed"
    assert "whether `storage.existing` exists was not checked" in hidden.message


@pytest.mark.parametrize(
    ("status", "id_", "code", "said"),
    [(409, "service-failed", 5, "answers 409"), (401, "not-signed-in", 2, "az login")],
)
def test_live_check_fails_if_azure_refuses_a_request(
    plane: ControlPlane, look: Look, status: int, id_: str, code: int, said: str
) -> None:
    plane.give(f"{COMPUTE}/skus", {"error": {"code": "Conflict"}}, status=status)
    finding = refused(look, code=code)
    assert finding.id == id_
    assert said in f"{finding.message} {finding.hint}"


def test_cloud_is_chosen_by_the_variables_of_terraform(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARM_METADATA_HOSTNAME", "ARM_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    assert chosen_cloud().scope == "https://management.azure.com/.default"
    monkeypatch.setenv("ARM_ENVIRONMENT", "china")
    found = chosen_cloud().manager, chosen_cloud().login
    assert found == ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn")
    monkeypatch.setenv("ARM_ENVIRONMENT", "mars")
    refused(chosen_cloud, "there is no cloud `mars`")
    monkeypatch.setenv("ARM_METADATA_HOSTNAME", "localhost:1")
    refused(chosen_cloud, code=5)


def test_live_check_command_reports_lines_and_respects_ignored_checks(
    checked: Checked, plane: ControlPlane, tmp_path: Path
) -> None:
    quota(plane, standardNDSH100v5Family=(96, 0))
    code, printed = checked(json_=True)
    found = {each["id"]: each for each in json.loads(printed)["findings"]}
    wrong = f"  pair: {{engine: ssh, size: {H100}, nodes: 2, mounts: [data]}}"
    assert (code, found["quota-too-small"]["line"]) == (2, LAB.splitlines().index(wrong) + 1)
    code, printed = checked(json_=True, ignore=["quota-too-small"])
    assert (code, "quota-too-small" in printed) == (0, False)
    (tmp_path / "lab.yaml").write_text(LAB + "checks: {ignore: [quota-too-small]}\n")
    code, printed = checked(json_=True)
    assert (code, "quota-too-small" in printed) == (0, False)
    plane.give(f"{COMPUTE}/skus", {"error": {"code": "Conflict"}}, status=409)
    code, printed = checked(json_=True)  # findings of the file are reported anyway
    assert code == 5
    told = {each["id"] for each in json.loads(printed)["findings"]}
    assert {"no-owner", "service-failed"} <= told


def test_live_check_command_lists_offer_and_remaining_quota_of_each_size(
    checked: Checked, plane: ControlPlane
) -> None:
    """The H100 nodes exceed the quota; the A100 nodes count against the Batch account's quota."""
    here = {**_sku("1", "2"), "locationInfo": [{"location": "WestEurope", "zones": ["1", "2"]}]}
    skus = [{**here, "name": name} for name in (H200, H100_NC, "Standard_D32s_v6", A100)]
    skus += [{**here, "name": H100, "restrictions": _sku(none="1")["restrictions"]}]
    plane.give(f"{COMPUTE}/skus", {"value": skus})
    families = {"standardNDSH100v5Family": (192, 96), "standardNDISRH200V5Family": (192, 0)}
    families |= {"standardNCadsH100v5Family": (400, 0), "standardDSv6Family": (100, 68)}
    quota(plane, cores=(2000, 0), **families)
    code, printed = checked(json_=True)
    assert code == 0
    pair, pool, server = json.loads(printed)["sizes"]
    assert (pair["size"], pair["path"], pair["wanted"]) == (H100, "clusters.pair", 2)
    assert (pair["offered"], pair["refusal"], pair["zones"]) == (True, None, ["2"])
    assert (pair["vcpus_left"], pair["vcpus_limit"], pair["room"]) == (96, 192, 1)
    assert pair["nearest"] == H200
    seen = (pool["offered"], pool["spot"], pool["room"], pool["nearest"])
    assert seen == (True, True, None, None)
    assert (server["room"], server["nearest"]) == (1, None)
    code, printed = checked()
    assert code == 0
    head, first = (" ".join(line.split()) for line in printed.splitlines()[:2])
    assert head == "SIZE FOR WANTED YOURS ZONES VCPUS LEFT ROOM FOR NEAREST"
    assert first == f"{H100} clusters.pair 2 yes 2 96 of 192 1 {H200}"


def test_live_check_findings_are_all_documented_with_their_severity() -> None:
    """Findings are read from the source of the rules: each new id needs an entry in LIVE."""
    source = "".join(Path(each.__file__).read_text() for each in (rules, azure_queries))
    found = re.findall(r'Finding\(\s*"([a-z-]+)"[^()]*?(Severity\.WARNING)?\)', source)
    assert {id_ for id_, _ in found} == LIVE.keys()
    # A plan also reports a stopped machine, as an error; the later rule, the check's, counts.
    for id_, warning in dict(found).items():
        assert LIVE[id_].severity is (Severity.WARNING if warning else Severity.ERROR), id_

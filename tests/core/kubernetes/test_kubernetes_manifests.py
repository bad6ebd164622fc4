"""Objects that Flux applies in an environment's cluster: valid individually and in combination."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from ruamel.yaml import YAML

from fairway_agent.kubernetes import submit
from fairway_agent.kubernetes.api import RequestRefused
from fairway_agent.kubernetes.manifests import QUEUE, TAINTS, topology_map
from fairway_core.catalog import fabric_for, vm_size
from fairway_core.catalog.fabrics import topologies
from fairway_core.environment import Kubernetes
from fairway_core.environment.clusters.kubernetes.cluster import Operators
from fairway_core.findings import UserError
from fairway_core.kubernetes import documents, flux, head, health, queues
from fairway_core.kubernetes.manifests import manifests
from fairway_core.kubernetes.pools import Volume, of_node
from fairway_core.target import SYSTEM_TAINT, Target

Objects = dict[str, list[dict[str, Any]]]

ADDRESS = "${azurerm_network_interface.data.private_ip_address}"
DATA, FILES, LUSTRE = (
    Volume(name=name, type=type_, source=source, options=options, gib=gib)
    for name, type_, source, options, gib in (
        (
            *("data", "nfs", f"{ADDRESS}:/srv/data"),
            *("rw,hard,vers=4.1,proto=tcp,nconnect=8,_netdev,noatime", 4096),
        ),
        (
            *("home", "nfs", "account.file.core.windows.net:/account/home"),
            *("vers=4,minorversion=1,sec=sys,nconnect=4,_netdev,noatime", 1024),
        ),
        ("fast", "lustre", "10.40.18.4@tcp0:/lustrefs", "noatime,flock,_netdev", 48 * 1024),
    )
)

# Strings that YAML 1.1 would not read as text, or that end a plain scalar.
WORDS = (
    *("on", "No", "y", "~", "null", "1:30", "0x1f", "1e3", "1_000", ".5", "2026-11-23", "<<", "="),
    *("", "a: b", "#a", "- a", "é", "*a", "!a", "@a", "%a", "'", '"', " a", "a\nb\n", "a\n b"),
    *("\n", "a \n", "\ta"),
)


def pool(name: str = "nd", size: str = "Standard_ND96isr_H100_v5", **changes: Any) -> Target:
    mounts = changes.pop("mounts", {"data": "/data"})
    access = {
        "namespace": "training",
        "image": "myregistry.azurecr.io/train:1",
        "shared": "/data/fairway",
        "volumes": {name: name for name in mounts},
        "selector": {"agentpool": name},
        "tolerations": ["fairway.dev/pool"],
        "rdma": "rdma/ib",
        "queue": name,
        **changes.pop("kubernetes", {}),
    }
    facts = {"name": name, "engine": "kubernetes", "vm_size": size, "mounts": mounts}
    facts |= {"nodes": {"min": 0, "max": 8}, **changes, "kubernetes": access}
    return Target.model_validate(facts)


def plain(name: str = "cpu", **changes: Any) -> Target:
    """Returns a pool without GPUs and InfiniBand."""
    access = {"rdma": "", **changes.pop("kubernetes", {})}
    return pool(name, "Standard_D64s_v6", kubernetes=access, **changes)


@cache
def _objects(text: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def read(files: dict[str, str]) -> Objects:
    """Parses the objects in the files; identical texts are parsed once."""
    return {path: _objects(text) for path, text in files.items()}


def every(found: Objects) -> list[dict[str, Any]]:
    return [each for objects in found.values() for each in objects]


def named(found: Objects, kind: str) -> dict[str, dict[str, Any]]:
    """Returns the objects of a kind by name."""
    return {each["metadata"]["name"]: each for each in every(found) if each["kind"] == kind}


def one(found: Objects, kind: str, name: str = "") -> dict[str, Any]:
    [only] = [each for key, each in named(found, kind).items() if name in ("", key)]
    return only


_WRITTEN: dict[str, Objects] = {}


def usual(*targets: Target, shared: Sequence[Volume] = (DATA,), **given: Any) -> Objects:
    """Returns the objects for pools (`pool()` by default) with these settings, cached."""
    made = repr((targets, shared, given))
    if made not in _WRITTEN:
        client = {"client_id": given.pop("client_id")} if "client_id" in given else {}
        files = manifests(targets or [pool()], shared, Kubernetes(**given), **client)
        _WRITTEN[made] = read(files)
    return _WRITTEN[made]


@pytest.mark.parametrize(
    ("targets", "shared"),
    [
        ([pool(mounts={"data": "/data", "fast": "/fast"})], [DATA, LUSTRE]),
        ([pool("nc", "Standard_NC24ads_A100_v4", kubernetes={"rdma": ""})], [FILES]),
        ([plain(kubernetes={"queue": None})], [DATA]),
        ([pool(), plain(), pool("spot", spot=True)], [DATA, FILES]),
    ],
    ids=["fast", "one-gpu", "no-queue", "three"],
)
@pytest.mark.integration
def test_manifests_are_valid_for_every_schema_and_uniquely_named(
    targets: list[Target], shared: list[Volume], faults: Callable[[dict[str, Any]], list[str]]
) -> None:
    content = Kubernetes(quota={"requests.nvidia.com/gpu": "64", "pods": "500"})
    found = read(manifests(targets, shared, content, client_id="${identity.client_id}"))
    assert {path: [faults(each) for each in objects] for path, objects in found.items()} == {
        path: [[]] * len(objects) for path, objects in found.items()
    }
    names = [
        (e["kind"], e["metadata"].get("namespace"), e["metadata"]["name"]) for e in every(found)
    ]
    assert len(set(names)) == len(names)


def test_kubernetes_quota_accepts_device_classes() -> None:
    quota = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "64"}
    assert Kubernetes(quota=quota).quota == quota


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("ResourceQuota", {"limit": {}}, "1.33"),
        ("PersistentVolume", {"nfs": {"server": "10.0.0.4"}}, "1.33"),
        ("HelmRelease", {"targetNamspace": "x"}, "unknown: spec.targetNamspace"),
        ("HelmRelease", {"interval": 3600}, "type: spec.interval"),
        ("NicClusterPolicy", {"ofedDriver": {}}, "lacking: spec.ofedDriver.image"),
        ("ClusterQueue", {"queueingStrategy": "FIFO"}, "value: spec.queueingStrategy"),
        ("ClusterQueue", {"cohort": "all"}, "unknown: spec.cohort"),
        ("ClusterQueue", {"admissionChecksStrategy": {}}, "lacking: spec.admissionChecksStrategy."),
        ("AdmissionCheck", {"parameters": {}}, "lacking: spec.parameters.apiGroup"),
        ("ProvisioningRequestConfig", {"retries": 3}, "unknown: spec.retries"),
        (
            *("ClusterQueue", {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]}),
            "spec.resourceGroups[0]: Invalid value",
        ),
        (
            *("ResourceFlavor", {"nodeLabels": {f"label-{number}": "" for number in range(9)}}),
            "spec.nodeLabels: Too many: 9",
        ),
    ],
)
def test_manifest_schemas_report_wrong_fields(
    kind: str, change: dict[str, Any], said: str, faults: Callable[[dict[str, Any]], list[str]]
) -> None:
    """Schemas written for these tests are as strict as the published ones."""
    found = one(usual(), kind, "kueue" if kind == "HelmRelease" else "")
    told = faults({**found, "spec": {**found["spec"], **change}})
    assert any(each.startswith(said) for each in told), told


class TestOrder:
    """Dependencies between the parts that Flux applies separately."""

    BROUGHT = (
        ("kueue.x-k8s.io/", "kueue"),
        ("mellanox.com/", "drivers"),
        ("nfd.k8s-sigs.io/", "drivers"),
    )

    def test_manifests_apply_kinds_and_namespaces_before_their_objects(self) -> None:
        files = manifests([pool(), plain()], [DATA, LUSTRE], Kubernetes())
        found = read(files)
        before = {name: after for name, _, after in flux.kustomizations(files)}
        spaces = {
            each["metadata"]["name"]: path.partition("/")[0]
            for path, objects in found.items()
            for each in objects
            if each["kind"] == "Namespace"
        }
        for path, objects in found.items():
            folder = path.partition("/")[0]
            reached = (folder, *before[folder])
            for each in objects:
                space = each["metadata"].get("namespace", "")
                assert space in ("", flux.NAMESPACE) or spaces[space] in reached
                for group, bringer in self.BROUGHT:
                    assert not each["apiVersion"].startswith(group) or bringer in before[folder]

    def test_kustomizations_depend_only_on_existing_folders(self) -> None:
        files = manifests([plain(kubernetes={"queue": None})], [DATA], Kubernetes())
        assert flux.kustomizations(files) == [("jobs", "./jobs", ()), ("nodes", "./nodes", ())]

    def test_flux_objects_are_in_the_flux_namespace_and_use_its_account(self) -> None:
        for each in every(usual(shared=[DATA, LUSTRE])):
            if "fluxcd.io" not in each["apiVersion"]:
                continue
            assert each["metadata"]["namespace"] == flux.NAMESPACE
            assert "namespace" not in str(each["spec"].get("sourceRef", {}))
            if each["kind"] in ("HelmRelease", "Kustomization"):
                assert each["spec"]["serviceAccountName"] == "flux-applier"

    def test_kubernetes_namespace_of_installed_components_is_reserved(self) -> None:
        """A user who submits jobs may act as any account in their namespace."""
        found = usual(shared=[DATA, LUSTRE])
        installed = {*named(found, "Namespace"), flux.NAMESPACE} - {"training"}
        assert len(installed) == 6
        for name in installed:
            with pytest.raises(UserError, match="is reserved for what Azure or Fairway installs"):
                Kubernetes(namespace=name)

    def test_helm_releases_have_exact_versions(self) -> None:
        found = usual(operators=Operators(kueue="0.19.2", gpu="26.3.3", network="v26.4.0"))
        versions = {
            name: each["spec"]["chart"]["spec"]["version"]
            for name, each in named(found, "HelmRelease").items()
        }
        wanted = {"gpu-operator": "v26.3.3", "network-operator": "26.4.0", "kueue": "0.19.2"}
        assert versions == wanted


class TestJobs:
    """The namespace of jobs."""

    def test_topologies_of_all_pools_are_in_config_maps_that_tasks_use(self) -> None:
        sizes = ("ND96isr_H100_v5", "ND96isr_H200_v5", "ND96asr_v4", "NC24ads_A100_v4", "D64s_v6")
        targets = [pool(f"p{at}", f"Standard_{size}") for at, size in enumerate(sizes)]
        found = usual(*targets)["jobs/topologies.yaml"]
        for target in targets[:3]:
            path = fabric_for(vm_size(target.vm_size)).environment["NCCL_TOPO_FILE"]
            about = {"name": topology_map(path), "namespace": "training"}
            [data] = [each["data"] for each in found if each["metadata"] == about]
            assert data == {"topo.xml": topologies()[path].xml()}
        assert len(found) == 2
        assert "jobs/topologies.yaml" not in usual(*targets[3:])

    def test_head_equals_prepared_head_and_mounts_volumes_of_all_pools(self) -> None:
        assert usual()["jobs/head.yaml"] == head.objects(pool())
        both = plain(mounts={"data": "/data", "home": "/home"})
        deployment = one(usual(pool(), both, shared=[DATA, FILES]), "Deployment")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        assert mounted == {"data": "/data", "home": "/home"}

    def test_only_task_service_account_has_the_workload_identity(self) -> None:
        accounts = named(usual(client_id="0000-1"), "ServiceAccount")
        annotations = {name: each["metadata"].get("annotations") for name, each in accounts.items()}
        mark = {"azure.workload.identity/client-id": "0000-1"}
        others = dict.fromkeys(("fairway-head", "fairway-health"))
        assert annotations == {**others, "fairway-task": mark}

    def test_quota_forbids_load_balancers_and_node_ports(self) -> None:
        quota = {"requests.nvidia.com/gpu": "64"}
        hard = one(usual(quota=quota), "ResourceQuota")["spec"]["hard"]
        assert hard == {"services.loadbalancers": "0", "services.nodeports": "0", **quota}


class TestHealth:
    """Health checks of nodes."""

    @pytest.mark.parametrize(
        ("target", "offered", "expected"),
        [
            (pool(), ["nvidia.com/gpu", "rdma/ib"], ("gpus=8", "adapters=8", "adapter_gbps=400")),
            (
                *(pool(kubernetes={"rdma": ""}), ["nvidia.com/gpu"]),
                ("gpus=8", "adapters=0", "nvidia-smi nvlink"),
            ),
            (
                *(pool("hb", "Standard_HB176rs_v4"), ["rdma/ib"]),
                ("gpus=0", "adapters=1", "adapter_gbps=400"),
            ),
        ],
        ids=["both", "gpus", "infiniband"],
    )
    def test_health_check_of_a_pool_expects_devices_of_its_size(
        self, target: Target, offered: list[str], expected: tuple[str, ...]
    ) -> None:
        found = usual(target, plain())
        spec = one(found, "DaemonSet", f"fairway-health-{target.name}")["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {"agentpool": target.name}
        [container] = spec["containers"]
        words = [each for each in container["command"] if each.startswith("--offers")]
        assert words == [f"--offers={each}" for each in offered]
        check = one(found, "ConfigMap", "fairway-health")["data"][f"health-check-{target.name}"]
        for line in expected:
            assert line in check
        assert "mounts=()" in check
        keys = {each["key"] for volume in spec["volumes"] for each in _items(volume)}
        assert keys == set(one(found, "ConfigMap", "fairway-health")["data"])
        assert spec["serviceAccountName"] == "fairway-health"
        account = {"kind": "ServiceAccount", "name": "fairway-health"}
        binding = one(found, "ClusterRoleBinding", "fairway-health")
        assert binding["subjects"] == [{**account, "namespace": "fairway-health"}]
        role = {"kind": "ClusterRole", "name": "fairway-health"}
        assert role.items() <= binding["roleRef"].items()
        rules = one(found, "ClusterRole", "fairway-health")["rules"]
        assert {each: rule["verbs"] for rule in rules for each in rule["resources"]} == {
            "nodes": ["get", "patch"],
            "nodes/status": ["patch"],
        }

    def test_health_pod_changes_with_its_script_and_is_absent_without_devices(self) -> None:
        def mark(target: Target) -> str:
            [found] = [e for e in health.objects([target]) if e["kind"] == "DaemonSet"]
            return str(found["spec"]["template"]["metadata"]["annotations"])

        assert mark(pool()) == mark(pool())
        assert mark(pool()) != mark(pool(kubernetes={"rdma": ""}))
        assert "health/health.yaml" not in usual(plain())


def _items(volume: dict[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = volume.get("configMap", {}).get("items", [])
    return found


LUSTRE_CSI = {
    "driver": "azurelustre.csi.azure.com",
    "volumeHandle": "training-fast",
    "volumeAttributes": {"mgs-ip-address": "10.40.18.4"},
}


class TestVolumes:
    """Volumes and claims of file systems."""

    @pytest.mark.parametrize(
        ("volume", "where"),
        [
            (DATA, {"nfs": {"server": ADDRESS, "path": "/srv/data"}}),
            (FILES, {"nfs": {"server": "account.file.core.windows.net", "path": "/account/home"}}),
            (LUSTRE, {"csi": LUSTRE_CSI}),
        ],
        ids=["server", "files", "lustre"],
    )
    def test_persistent_volume_and_claim_are_bound_to_each_other(
        self, volume: Volume, where: dict[str, Any]
    ) -> None:
        found = usual(pool(mounts={volume.name: "/data"}), shared=[volume])
        given, taken = one(found, "PersistentVolume"), one(found, "PersistentVolumeClaim")
        assert given["spec"].items() >= where.items()
        assert given["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert given["spec"]["claimRef"] == {"namespace": "training", "name": volume.name}
        assert taken["spec"]["volumeName"] == given["metadata"]["name"]
        assert given["spec"]["storageClassName"] == taken["spec"]["storageClassName"] == ""
        assert not {"rw", "_netdev"} & set(given["spec"]["mountOptions"])

    def test_persistent_volume_claim_is_unchanged_when_file_system_grows(self) -> None:
        """The API server refuses to resize a claim that is bound to a volume created beforehand."""
        found = [usual(shared=[replace(DATA, gib=gib)]) for gib in (1024, 4096)]
        before, after = (one(each, "PersistentVolumeClaim") for each in found)
        assert before == after
        sizes = [one(each, "PersistentVolume")["spec"]["capacity"]["storage"] for each in found]
        assert sizes == ["1024Gi", "4096Gi"]

    def test_lustre_volume_adds_its_driver_without_examples(self) -> None:
        found = usual(shared=[DATA, LUSTRE])
        ignored = one(found, "GitRepository")["spec"]["ignore"].splitlines()
        assert ignored == ["/*", "!/deploy", "/deploy/example"]
        assert one(found, "Kustomization")["spec"]["path"] == "./deploy"
        assert "GitRepository" not in str(every(usual()))


class TestQueues:
    """Kueue's objects."""

    @staticmethod
    def job(target: Target, nodes: int) -> dict[str, Any]:
        container = {"resources": {"requests": of_node(target)}}
        spec = {"parallelism": nodes, "completions": nodes}
        spec |= {"template": {"spec": {"containers": [container]}}}
        assert target.kubernetes is not None
        return {"metadata": {"labels": {QUEUE: target.kubernetes.queue}}, "spec": spec}

    @pytest.mark.parametrize("target", [pool(), plain()], ids=["fast", "plain"])
    def test_cluster_queue_quota_equals_all_nodes_of_the_pool(self, target: Target) -> None:
        found = one(usual(target), "ClusterQueue")
        submit.require_quota(found, self.job(target, 8))
        with pytest.raises(RequestRefused, match=submit.TOO_MUCH):
            submit.require_quota(found, self.job(target, 9))

    def test_scaling_pools_provision_all_nodes_of_a_job_before_its_pods_start(
        self,
    ) -> None:
        """Kueue 0.19: admission_check/provisioning_request; Azure documentation, AKS: Kueue with
        the cluster autoscaler."""
        found = usual(pool(), plain("fixed", nodes={"min": 4, "max": 4}), plain())
        check = one(found, "AdmissionCheck")
        config = one(found, "ProvisioningRequestConfig")
        of = {"kind": "ProvisioningRequestConfig", "name": config["metadata"]["name"]}
        assert check["spec"] == {
            "controllerName": "kueue.x-k8s.io/provisioning-request",
            "parameters": {"apiGroup": "kueue.x-k8s.io", **of},
        }
        class_ = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
        assert config["spec"]["provisioningClassName"] == class_
        rules = {
            name: each["spec"].get("admissionChecksStrategy")
            for name, each in named(found, "ClusterQueue").items()
        }
        assert rules["fixed"] is None
        for name in ("nd", "cpu"):
            rule = {"name": check["metadata"]["name"], "onFlavors": [name]}
            assert rules[name] == {"admissionChecks": [rule]}

    @pytest.mark.parametrize(
        ("nodes", "content"),
        [({"min": 0, "max": 8}, {"atomic_scale_up": False}), ({"min": 8, "max": 8}, {})],
        ids=["turned-off", "fixed"],
    )
    def test_provisioning_is_absent_if_disabled_or_pool_is_fixed(
        self, nodes: dict[str, int], content: dict[str, bool]
    ) -> None:
        found = usual(pool(nodes=nodes), **content)
        kinds = {each["kind"] for each in every(found)}
        assert not {"AdmissionCheck", "ProvisioningRequestConfig"} & kinds
        assert "admissionChecksStrategy" not in one(found, "ClusterQueue")["spec"]

    def test_resource_flavor_selects_labels_and_taints_of_its_pool(self) -> None:
        spec = one(usual(pool(spot=True)), "ResourceFlavor")["spec"]
        assert spec["nodeLabels"] == {"agentpool": "nd"}
        assert spec["nodeTaints"] == [
            {"key": key, "value": value, "effect": "NoSchedule"}
            for key, value in (
                ("fairway.dev/pool", "nd"),
                ("kubernetes.azure.com/scalesetpriority", "spot"),
            )
        ]

    @pytest.mark.parametrize(
        ("given", "limits"), [(None, None), (1200, {"timeout": "1200s", "recoveryTimeout": "0s"})]
    )
    def test_kueue_requeues_jobs_that_do_not_start_but_never_running_jobs(
        self, given: float | None, limits: dict[str, str] | None
    ) -> None:
        found = one(usual(wait_for_pods=given), "HelmRelease", "kueue")
        text = found["spec"]["values"]["managerConfig"]["controllerManagerConfigYaml"]
        settings = YAML(typ="safe").load(text)
        assert settings.get("waitForPodsReady") == limits
        assert settings["integrations"]["frameworks"] == ["batch/job"]

    def test_cluster_queue_quota_multiplies_fractional_resources(self) -> None:
        own = {"cpu": "1.5", "memory": "1536Mi", "example.com/slices": "500m"}
        target = pool(nodes={"min": 0, "max": 3}, kubernetes={"resources": own})
        [group] = one({"": queues.objects([target])}, "ClusterQueue")["spec"]["resourceGroups"]
        [flavor] = group["flavors"]
        amounts = {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
        assert amounts == {"cpu": "4.5", "memory": "4608Mi", "example.com/slices": "1500m"}


class TestDrivers:
    """Helm releases that install drivers on nodes."""

    def test_drivers_tolerate_every_taint_of_task_nodes(self) -> None:
        own = {"tolerations": ["fairway.dev/pool", "team"]}
        found = usual(pool(kubernetes=own))
        network = one(found, "HelmRelease", "network-operator")["spec"]["values"]
        gpu = one(found, "HelmRelease", "gpu-operator")["spec"]["values"]
        for bearing in (
            network["node-feature-discovery"]["worker"]["tolerations"],
            gpu["daemonsets"]["tolerations"],
            one(found, "NicClusterPolicy")["spec"]["tolerations"],
        ):
            assert {each["key"] for each in bearing} == {*TAINTS, "team"}
            assert {each["operator"] for each in bearing} == {"Exists"}

    @pytest.mark.parametrize("size", ["Standard_ND96isr_H100_v5", "Standard_NC24ads_A100_v4"])
    def test_controllers_tolerate_the_taint_of_system_nodes(self, size: str) -> None:
        """Covers each chart's values for its own Deployments and for Jobs that run before them."""
        rdma = "rdma/ib" if size.startswith("Standard_ND") else ""
        target = pool(size=size, kubernetes={"rdma": rdma, "head_tolerations": [SYSTEM_TAINT]})
        found = usual(target, shared=[DATA, LUSTRE])
        values = {
            name: each["spec"]["values"] for name, each in named(found, "HelmRelease").items()
        }
        finds = values["network-operator" if rdma else "gpu-operator"]["node-feature-discovery"]
        [patch] = one(found, "Kustomization")["spec"]["patches"]
        driver = YAML(typ="safe").load(patch["patch"])
        assert driver["metadata"]["name"] == "csi-azurelustre-controller"
        for place in (
            *(values[name]["operator"] for name in values if name != "kueue"),
            values["kueue"]["controllerManager"],
            *(finds["master"], finds["gc"]),
            driver["spec"]["template"]["spec"],
            one(found, "Deployment")["spec"]["template"]["spec"],
        ):
            assert place["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
        # The head of a hand-written target may run on any node.
        [made] = [each for each in head.objects(pool()) if each["kind"] == "Deployment"]
        assert "tolerations" not in made["spec"]["template"]["spec"]

    def test_node_feature_discovery_is_enabled_in_exactly_one_operator(self) -> None:
        fast = usual()
        slow = usual(pool("nc", "Standard_NC24ads_A100_v4", kubernetes={"rdma": ""}))
        values = one(fast, "HelmRelease", "gpu-operator")["spec"]
        assert not values["values"]["nfd"]["enabled"]
        assert values["dependsOn"] == [{"name": "network-operator"}]
        values = one(slow, "HelmRelease", "gpu-operator")["spec"]
        assert values["values"]["nfd"]["enabled"]
        assert not values["values"]["driver"]["rdma"]["enabled"]
        assert "dependsOn" not in values
        assert "network-operator" not in str(every(slow))

    def test_drivers_are_absent_for_cpu_pools(self) -> None:
        assert not [path for path in usual(plain()) if "dev" in path]

    def test_rdma_device_plugin_offers_the_resource_name_that_pods_request(self) -> None:
        policy = one(usual(), "NicClusterPolicy")
        config = YAML(typ="safe").load(policy["spec"]["sriovDevicePlugin"]["config"])
        [offered] = config["resourceList"]
        name = f"{offered['resourcePrefix']}/{offered['resourceName']}"
        assert of_node(pool())[name] == "8"


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("Standard_D2s_v6", "4Gi"),  # 7.76 GiB in the guest, 5.66 of them allocatable
        ("Standard_NC4as_T4_v3", "23Gi"),  # 27.16 GiB in the guest, 24.86 of them allocatable
        ("Standard_D4s_v6", "11Gi"),  # 15.52 GiB in the guest, 13.22 of them allocatable
        ("Standard_D64s_v6", "230Gi"),  # 248.32 GiB in the guest, 246.02 of them allocatable
    ],
)
def test_task_memory_request_fits_in_allocatable_memory_of_a_node(name: str, memory: str) -> None:
    """AKS reserves 2250 MiB of a node for 110 pods, at most a quarter of its memory, and 100 MiB
    more as its eviction threshold. Of the rest, 1.5 GiB are for the pods that every node has."""
    assert of_node(pool("t4", name, kubernetes={"rdma": ""}))["memory"] == memory


class TestText:
    """The text of the files."""

    @pytest.mark.parametrize("word", WORDS)
    def test_manifest_text_keeps_strings_in_yaml_1_1_and_1_2(self, word: str) -> None:
        text = documents.text([{"key": word, "list": [word]}])
        for version in ((1, 1), (1, 2)):
            reader = YAML(typ="safe", pure=True)
            reader.version = version  # type: ignore[assignment]
            assert reader.load(text) == {"key": word, "list": [word]}

    def test_manifest_text_contains_only_intended_terraform_references(self) -> None:
        files = manifests([pool()], [DATA, LUSTRE], Kubernetes(), client_id="${identity.client_id}")
        # References in scripts are the shell's; `escape_template` hides them from Terraform.
        del files["health/health.yaml"], files["nodes/node-setup.yaml"]
        found = re.findall(r"[$%]\{[^}]*\}", "".join(files.values()))
        assert sorted(set(found)) == sorted([ADDRESS, "${identity.client_id}"])

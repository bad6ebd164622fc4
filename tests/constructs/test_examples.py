"""The examples in docstrings of constructs run, on names that each of them may use."""

import doctest
import importlib
import io
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from environment_files import KEY

import fairway_constructs as az
from fairway_constructs.azurerm.resource_group import ResourceGroup

_GUID = "11111111-2222-3333-4444-555555555555"
_GROUP = f"/subscriptions/{_GUID}/resourceGroups/lab"
_VNET = f"{_GROUP}/providers/Microsoft.Network/virtualNetworks/vnet"
_SIZE = "Standard_ND96isr_H100_v5"
# Types of their arguments that are not the package's own.
_TYPES = {"IPv4Address": IPv4Address, "IPv4Network": IPv4Network, "ResourceGroup": ResourceGroup}

# The names that examples use without creating them, each made at its first use.
_MADE: dict[str, Callable[["Names"], Any]] = {
    "app": lambda its: az.App(outdir=its.folder),
    "stack": lambda its: az.EnvironmentStack(
        its.app, "examples", location="westeurope", zone=2, ssh_keys=[KEY]
    ),
    "network": lambda its: az.Network(
        its.stack,
        "some-network",
        address_space="10.40.0.0/16",
        private_endpoints=True,
        filesystems=["netapp", "lustre"],
        pods=IPv4Network("10.244.0.0/16"),
    ),
    "subnet": lambda its: its.network.subnet("compute"),
    "storage": lambda its: az.Storage(
        its.stack, "some-storage", containers=["datasets", "outputs", "code"]
    ),
    "vault": lambda its: az.Vault(its.stack, "some-vault"),
    "registry": lambda its: az.Registry(its.stack, "some-registry"),
    "identity": lambda its: az.Identity(its.stack, "some-identity"),
    "monitoring": lambda its: az.Monitoring(
        its.stack, "some-monitoring", emails=["team@example.com"]
    ),
    "home": lambda its: az.NfsServer(
        its.stack, "some-home", subnet=its.network.subnet("storage"), path="/home"
    ),
    "h100": lambda its: az.Cluster(
        its.stack, "some-h100", size=_SIZE, nodes=2, network=its.network, mounts=[its.home]
    ),
    "box": lambda its: az.Cluster(
        its.stack, "some-box", size="Standard_NC24ads_A100_v4", nodes=1, network=its.network
    ),
    "account": lambda its: az.BatchAccount(its.stack, "some-account"),
    "shared_state": lambda its: az.KubernetesSharedState(
        its.stack, storage=its.storage, name="some-manifests"
    ),
    "cluster": lambda its: az.KubernetesCluster(
        its.stack,
        "some-cluster",
        subnet=its.network.subnet("kubernetes"),
        kubelet=its.shared_state.kubelet,
    ),
    "slurm": lambda its: az.SlurmSharedState(its.stack, "some-slurm", disk_gib=64),
    "scheduler": lambda its: az.SlurmScheduler(
        its.stack,
        "some-scheduler",
        partitions={"nd": az.SlurmPartition(size=_SIZE, nodes=16)},
        scale_sets=its.ids,
        shared_state=its.slurm,
        mounts=[its.home.mount],
        subnet=its.subnet,
    ),
    "ids": lambda _: {"nd": f"{_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/nd"},
    "schedule": lambda _: az.Schedule(start="08:00", stop="18:00"),
}


class Names(dict[str, Any]):
    """The globals of an example: those of its module, `_MADE`, and what the package exports."""

    def __init__(self, module: ModuleType, folder: Path) -> None:
        super().__init__(vars(module), folder=folder, ID=f"{_VNET}/subnets/compute", VNET=_VNET)

    def __missing__(self, name: str) -> Any:
        if name in _MADE:
            self[name] = _MADE[name](self)
            return self[name]
        if name in _TYPES:
            return _TYPES[name]
        if name in az.__all__:
            return getattr(az, name)
        raise KeyError(name)

    def __getattr__(self, name: str) -> Any:
        return self[name]


class _AnyOutput(doctest.OutputChecker):
    """Accepts any output where an example shows none: those of resources are references."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


_ROOT = Path(__file__).parents[2] / "constructs"
MODULES = sorted(
    ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (_ROOT / "fairway_constructs").rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module, printed = importlib.import_module(name), io.StringIO()
    runner = doctest.DocTestRunner(_AnyOutput(), optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder().find(module):
        test.globs = Names(module, tmp_path)
        runner.run(test, out=printed.write)
    assert runner.tries
    assert not runner.failures, printed.getvalue()


@pytest.mark.parametrize("name", az.__all__)
def test_exported_names_have_an_example(name: str) -> None:
    exported = getattr(az, name)
    if exported.__module__.startswith("fairway_") and ".azurerm." not in exported.__module__:
        assert ">>> " in exported.__doc__

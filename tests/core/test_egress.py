"""The names that a firewall on the way out has to let through."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway_core.catalog.tables import table
from fairway_core.environment import Environment, load_environment
from fairway_core.environment.egress import outbound

SECTIONS = Path(__file__).parents[1] / "stacks" / "sections"


def _names(environment: Environment) -> set[str]:
    return {each.name for each in outbound(environment)}


def test_a_cluster_behind_a_firewall_names_what_it_asks_for() -> None:
    environment = load_environment(SECTIONS / "hub.yaml")
    assert _names(environment) == {
        "azure.archive.ubuntu.com",
        "security.ubuntu.com",
        "archive.ubuntu.com",
        "management.azure.com",
        "global.handler.control.monitor.azure.com",
        "westeurope.handler.control.monitor.azure.com",
        "WORKSPACE-ID.ods.opinsights.azure.com",
    }
    assert {each.port for each in outbound(environment)} == {80, 443}


def test_a_network_that_is_there_already_is_asked_about_too() -> None:
    assert "security.ubuntu.com" in _names(load_environment(SECTIONS / "existing.yaml"))


def test_kubernetes_fetches_its_system_and_its_drivers() -> None:
    environment = load_environment(SECTIONS / "pods.yaml")
    found = _names(environment)
    assert {
        "mcr.microsoft.com",
        "*.hcp.westeurope.azmk8s.io",
        "nvcr.io",
        "registry.k8s.io",
        "*.monitoring.azure.com",
    } <= found
    unwatched = environment.model_copy(update={"monitoring": None})
    assert "*.monitoring.azure.com" not in _names(unwatched)
    cpu = {"cpu": environment.clusters["cpu"].model_copy(update={"size": "Standard_D16s_v6"})}
    assert "nvcr.io" not in _names(environment.model_copy(update={"clusters": cpu}))


def test_egress_names_include_those_of_each_section() -> None:
    found = _names(load_environment(SECTIONS / "own.yaml"))
    assert "westeurope.handler.control.monitor.azure.com" in found
    assert "WORKSPACE-ID.ods.opinsights.azure.com" in found
    assert "pas.windows.net" not in found


def test_the_owner_of_a_proxy_is_told_too() -> None:
    found = _names(load_environment(SECTIONS / "company.yaml"))
    assert {"security.ubuntu.com", "management.azure.com"} <= found


def test_machines_that_stop_themselves_ask_azure(tmp_path: Path) -> None:
    text = (
        SECTIONS / "duo.yaml"
    ).read_text() + 'network: {proxy: {http: "http://proxy.example.com:3128"}}\n'
    for each, asks in (
        (text, True),
        (text.replace(", idle: 1h", "").replace(", idle: 2h", ""), False),
    ):
        (tmp_path / "duo.yaml").write_text(each)
        names = _names(load_environment(tmp_path / "duo.yaml"))
        assert ("management.azure.com" in names) is asks


@pytest.mark.parametrize("nodes", ["SecurityPatch", "NodeImage"])
def test_only_security_patches_need_the_snapshots_of_ubuntu(tmp_path: Path, nodes: str) -> None:
    text = (SECTIONS / "pods.yaml").read_text().replace("nodes: NodeImage", f"nodes: {nodes}")
    (tmp_path / "pods.yaml").write_text(text)
    names = _names(load_environment(tmp_path / "pods.yaml"))
    assert ("snapshot.ubuntu.com" in names) is (nodes == "SecurityPatch")


@pytest.mark.parametrize("section", ["box", "people", "nat", "duo"])
def test_a_way_out_of_its_own_needs_nobodys_leave(section: str) -> None:
    assert outbound(load_environment(SECTIONS / f"{section}.yaml")) == []


def test_every_row_says_where_it_is_from() -> None:
    rows = table("egress")["egress"]
    kinds = {"ubuntu", "almalinux", "slurm", "idle", "monitoring", "entra"}
    kinds |= {"kubernetes", "kubernetes-monitoring", "kubernetes-patches", "operators", "web"}
    kinds |= {"slurm-microsoft", "blobfuse"}
    assert {row["for"] for row in rows} == kinds
    for row in rows:
        assert row["names"]
        assert row["source"]
        assert row["date"]

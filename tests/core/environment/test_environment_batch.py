"""Pools of Azure Batch in the environment file: accepted and refused settings, and error
locations."""

from functools import partial
from pathlib import Path

import pytest
from endings import refused
from environment_files import KEY, fault, load

from fairway_core.autoscale import Autoscale, PoolShape
from fairway_core.catalog import vm_size, vm_sizes
from fairway_core.catalog.images import has_image, images
from fairway_core.checks import check_environment
from fairway_core.environment import BatchCluster, Environment
from fairway_core.environment.clusters.batch.pool import pool_image
from fairway_core.environment.clusters.node_rules import check_image
from fairway_core.findings import Finding, Severity

A100, CPU = "Standard_ND96asr_v4", "Standard_D16s_v6"
PRINCIPAL = "00000000-0000-0000-0000-000000000001"


HEAD = f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\n"


def _load(folder: Path, pool: str, more: str = "", engine: str = "batch") -> Environment:
    return load(folder, f"{HEAD}{more}clusters:\n  spot: {{engine: {engine}, {pool}}}\n")


def _pool(folder: Path, pool: str, more: str = "") -> BatchCluster:
    cluster = _load(folder, pool, more).clusters["spot"]
    assert isinstance(cluster, BatchCluster)
    return cluster


def _fault(folder: Path, pool: str, more: str = "", engine: str = "batch") -> Finding:
    return fault(folder, f"{HEAD}{more}clusters:\n  spot: {{engine: {engine}, {pool}}}\n")


def test_batch_pool_has_defaults_for_omitted_fields(tmp_path: Path) -> None:
    pool = _pool(tmp_path, f"size: {A100}, nodes: {{min: 0, max: 8}}")
    assert pool.mpi
    assert not pool.spot
    assert pool.autoscaling == Autoscale(scenario="pending_tasks")
    assert not pool.resized_by_hand
    assert pool.chosen_image.alias == "ubuntu-hpc-2404"
    assert pool.nodes_of_a_job == 8
    assert pool.shape == PoolShape(minimum=0, maximum=8, spot=False, mpi=True)


def test_batch_pool_scales_by_nodes_and_autoscale(tmp_path: Path) -> None:
    for nodes in ("4", "{min: 4, max: 4}"):
        pool = _pool(tmp_path, f"size: {A100}, nodes: {nodes}")
        assert (pool.node_range.min, pool.node_range.max) == (4, 4)
        assert (pool.autoscaling, pool.resized_by_hand) == (None, False)
    scales = f"size: {A100}, nodes: {{min: 1, max: 8}}, autoscale:"
    pool = _pool(tmp_path, f"{scales} manual")
    assert (pool.autoscaling, pool.resized_by_hand) == (None, True)
    hours = "hours: {start: 7, end: 20}, utc_offset: -6, every: 15m"
    settings = _pool(tmp_path, f"{scales} {{scenario: workday, {hours}}}").autoscaling
    assert settings is not None
    assert (settings.hours.end, settings.every) == (20, 900)
    formula = "$TargetDedicatedNodes = time().weekday == 1 ? 5 : 1;"
    settings = _pool(tmp_path, f"{scales} {{formula: '{formula}'}}").autoscaling
    assert settings is not None
    assert settings.formula == formula


def test_batch_pool_without_mpi_may_be_large_and_gives_jobs_one_node(tmp_path: Path) -> None:
    pool = _pool(
        tmp_path,
        f"size: {CPU}, nodes: {{min: 0, max: 500}}, mpi: false, spot: true, "
        "autoscale: {scenario: pending_tasks, rebalance: {dedicated: 20}}",
        "network: {address_space: 10.0.0.0/8}\n",
    )
    assert (pool.nodes_of_a_job, pool.chosen_image.alias) == (1, "ubuntu-2404")


@pytest.mark.parametrize(
    ("engine", "more", "path", "said"),
    [
        ("ssh", "batch: {}\n", "batch", "no cluster has `engine: batch`"),
        ("bach", "", "clusters.spot.engine", "did you mean `batch`?"),
        ("7", "", "clusters.spot.engine", "expected one of"),
    ],
)
def test_batch_section_without_pool_or_misspelled_engine_is_refused(
    tmp_path: Path, engine: str, more: str, path: str, said: str
) -> None:
    finding = _fault(tmp_path, "size: Standard_NC40ads_H100_v5, nodes: 1", more, engine)
    assert finding.path == path
    assert said in f"{finding.message} {finding.hint}"


def test_batch_user_subscription_mode_is_accepted_with_principal(tmp_path: Path) -> None:
    more = f"batch: {{mode: UserSubscription, service_principal: {PRINCIPAL}}}\n"
    environment = _load(tmp_path, f"size: {A100}, nodes: {{min: 0, max: 80}}", more)
    assert environment.batch is not None
    assert environment.batch.mode == "UserSubscription"
    assert environment.pools


def test_batch_pool_image_fits_each_size_or_custom_image_is_required() -> None:
    for size in vm_sizes().values():
        if size.status == "retired":
            continue
        if not has_image(size):
            finding = refused(partial(pool_image, size))
            assert "driver" in finding.message, size.name
            assert "`image_id: " in finding.hint
            continue
        chosen = pool_image(size)
        assert chosen.fits(size), size.name
        assert chosen.hpc is (size.rdma or size.gpu is not None), size.name
        check_image(size, chosen, own=False)
        assert chosen.node_agent.startswith("batch.node.")


def test_batch_images_without_drivers_fit_no_gpu_or_rdma_size() -> None:
    plain = [row for row in images().values() if not row.hpc]
    assert plain
    for size in vm_sizes().values():
        if size.rdma or size.gpu is not None:
            assert not any(row.fits(size) for row in plain), size.name


def test_batch_pool_with_gpus_but_no_infiniband_gets_a_fitting_image(tmp_path: Path) -> None:
    sweep = "size: Standard_NC4as_T4_v3, nodes: {min: 0, max: 8}"
    usual = _load(tmp_path, sweep)
    assert usual.pools["spot"].chosen_image.alias == "ubuntu-hpc-2204"
    assert "rdma-only-image" not in {each.id for each in check_environment(usual)}
    environment = _load(tmp_path, f"{sweep}, image: ubuntu-hpc-2404")
    found = [each for each in check_environment(environment) if each.id == "rdma-only-image"]
    assert [(each.path, each.severity) for each in found] == [
        ("clusters.spot.image", Severity.WARNING)
    ]
    assert "`image: ubuntu-hpc-2204`" in found[0].hint
    gallery = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lab/providers"
    own = f"{gallery}/Microsoft.Compute/galleries/lab/images/gpu/versions/1.0.0"
    environment = _load(tmp_path, f"{sweep}, image_id: {own}")
    assert "rdma-only-image" not in {each.id for each in check_environment(environment)}


@pytest.mark.parametrize(
    ("size", "said", "mpi"),
    [
        ("Standard_NC4as_T4_v3", "", False),
        (CPU, "", False),
        (A100, "", True),
        (CPU, ", mpi: true", True),
        (A100, ", mpi: false", False),
    ],
)
def test_batch_pool_mpi_defaults_to_sizes_with_infiniband(
    tmp_path: Path, size: str, said: str, mpi: bool
) -> None:
    environment = _load(tmp_path, f"size: {size}, nodes: {{min: 0, max: 8}}{said}")
    pool = environment.pools["spot"]
    assert (pool.mpi, pool.nodes_of_a_job) == (mpi, 8 if mpi else 1)
    refused = {each.id for each in check_environment(environment)} & {"no-infiniband"}
    assert bool(refused) == (mpi and not vm_size(size).rdma)


@pytest.mark.parametrize(
    "written", ["low_priority: true", "priority: low", "low_priority_nodes: 2"]
)
def test_batch_pool_low_priority_keys_suggest_spot(tmp_path: Path, written: str) -> None:
    fault = _fault(tmp_path, f"size: {CPU}, nodes: 2, {written}")
    assert (fault.id, fault.path) == ("unknown-key", f"clusters.spot.{written.partition(':')[0]}")
    assert "`spot: true`" in fault.hint


def test_batch_spot_pool_without_mounts_warns(tmp_path: Path) -> None:
    pool, data = f"size: {CPU}, nodes: 2", "filesystems: {data: {kind: azure_files, path: /data}}\n"
    for written, paths in (
        (f"{pool}, spot: true", ["clusters.spot.spot"]),
        (f"{pool}, spot: true, mounts: [data]", []),
        (pool, []),
    ):
        found = check_environment(_load(tmp_path, written, data))
        assert [each.path for each in found if each.id == "spot-without-mounts"] == paths


def test_batch_pool_task_slots_default_to_one(tmp_path: Path) -> None:
    assert _pool(tmp_path, f"size: {CPU}, nodes: 4").task_slots == 1
    pool = _pool(tmp_path, f"size: {CPU}, nodes: {{min: 0, max: 4}}, mpi: false, task_slots: 64")
    assert pool.task_slots == pool.shape.task_slots == 64


@pytest.mark.parametrize(
    ("pool", "message", "hint"),
    [
        ("mpi: true, task_slots: 2", "run only where a node has one task slot", "set `mpi: false`"),
        (
            "mpi: false, task_slots: 65",
            "a node of Standard_D16s_v6 has at most 64 task slots, not 65",
            "write 64 or less",
        ),
        ("mpi: false, task_slots: 257", "expected a number of at most 256", ""),
        ("mpi: false, task_slots: 0", "expected a number of at least 1", ""),
    ],
)
def test_batch_pool_refuses_invalid_task_slots(
    tmp_path: Path, pool: str, message: str, hint: str
) -> None:
    fault = _fault(tmp_path, f"size: {CPU}, nodes: 4, {pool}")
    assert message in fault.message
    assert hint in fault.hint
    assert fault.path == "clusters.spot.task_slots"

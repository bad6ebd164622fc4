"""Capabilities that engines declare, compared with what they do."""

import json
from functools import partial
from pathlib import Path

import pytest
from endings import refused
from running import MakeRun
from targets import target_of

from fairway_core.findings import Severity, UserError
from fairway_core.target import Target
from fairway_runner.engines.capabilities import (
    ENGINES,
    capabilities,
    ineffective,
    require,
    require_gpus,
    require_mountable,
    require_share,
)
from fairway_runner.engines.engine import Engine, engine_for
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import JobFile, load_job
from fairway_runner.runs.store import RunStore
from fairway_runner.submit.prepare import prepare

WARNING = Severity.WARNING
ACTIONS = ("drain", "resume", "reboot", "reimage")


def target(engine: str) -> Target:
    if engine == "local":
        return Target.local()
    return target_of(engine, vm_size="Standard_D2s_v6", mounts={"data": "/data"})


def engine(name: str) -> Engine:
    return engine_for(target(name))


def loaded(folder: Path, fields: str) -> JobFile:
    """Loads a job file that has these fields from its third line on."""
    (folder / "job.yaml").write_text(f"name: x\ncommand: 'true'\n{fields}\n")
    return load_job(folder / "job.yaml")


@pytest.mark.parametrize("name", ENGINES)
def test_engine_refuses_node_actions_and_sizes_that_it_does_not_list(name: str) -> None:
    able = ENGINES[name]
    for action in set(ACTIONS) - set(able.node_actions):
        with pytest.raises(UserError, match=f"{action} a node"):
            engine(name).act_on_node(action, "n-0")
    if not able.resizes:
        refused(lambda: engine(name).resize(2), "be resized")
    does = type(engine(name)).schedules is not Engine.schedules
    assert does == able.schedules


@pytest.mark.parametrize(
    ("fields", "failures", "limits"),
    [
        ({"retries": 2}, 2, {}),
        ({"retry": {"error": 2}}, 2, {}),
        ({"retries": 2, "retry": {"node": 3}}, 2, {"node": 3}),
        ({"retry": {"preemption": 10, "node": 0}}, 0, {"node": 0, "preemption": 10}),
    ],
)
def test_retries_and_retry_fields_set_failures_and_limits(
    fields: dict[str, object], failures: int, limits: dict[str, int]
) -> None:
    job = Job.model_validate({"name": "x", "command": "true", **fields})
    assert (job.failures_allowed, job.retry_limits) == (failures, limits)


IDLE = {"name": "x", "command": "true", "idle_gpu": {"below": 5, "for": "30m"}}


def test_gpu_requirements_are_not_checked_for_nodes_of_unknown_size(tmp_path: Path) -> None:
    job_file, nd = loaded(tmp_path, "idle_gpu: {below: 5, for: 30m}"), target("ssh")
    job = job_file.resolve(nd)
    finding = refused(
        lambda: require_gpus(job, nd, job_file.document),
        "watches GPUs, and a node of `nd` has none",
    )
    assert (finding.location.line, "-s idle_gpu=null" in finding.hint) == (3, True)
    for size in ("", "Standard_ND96isr_H100_v5"):  # an unknown size is checked on the node
        require_gpus(job, nd.model_copy(update={"vm_size": size}), job_file.document)
    require_gpus(job.model_copy(update={"idle_gpu": None}), nd, job_file.document)
    job_file, unknown = (
        loaded(tmp_path, "gpus: 9"),
        target("ssh").model_copy(update={"vm_size": ""}),
    )
    require_share(job_file.resolve(unknown), unknown, job_file.document)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"retries": 2, "retry": {"error": 2}}, "`retries` sets the same"),
        ({"retry": {"node": -1}}, "greater than or equal to 0"),
        ({"sample_every": None}, "idle GPUs are found by samples"),
        ({"sample_every": "31m"}, "shorter than the time between two samples"),
        ({"cores": 4}, "`cores` and without `gpus` has no GPU"),
        ({"idle_gpu": {"below": 0, "for": "30m"}}, "greater than 0"),
        ({"idle_gpu": {"below": 101, "for": "30m"}}, "less than or equal to 100"),
        ({"idle_gpu": {"below": 5, "for": "30m", "then": "kill"}}, "'cancel' or 'warn'"),
    ],
)
def test_job_with_wrong_retries_or_idle_gpu_is_refused(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Job.model_validate({**IDLE, **fields})


WAITING = {"webhook": "https://x.io/", "on": ["waiting", "failed"]}
SECRET = {
    "notify": {"webhook": "secret:HOOK", "on": ["waiting"]},
    "secrets": {"HOOK": "keyvault:hook"},
}
UNSEEN = "`nd` cannot notify of waiting runs: nothing runs there before they start"


OTHERS = ("local", "ssh", "kubernetes")


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        (
            {"setup": {"command": "apt-get install -y fio", "admin": True}},
            "setup.admin",
            dict.fromkeys((*OTHERS, "slurm"), "use a target with `batch`"),
        ),
        (
            {"setup": {"command": "mkdir /tmp/x", "release": "rm -r /tmp/x"}},
            "setup.release",
            dict.fromkeys((*OTHERS, "slurm"), "-s setup.release=null"),
        ),
        ({"after": ["other-run"]}, "after", {"batch": "`after` has no effect on `nd`: its engine"}),
        *(
            (
                {name: "vision"},
                name,
                dict.fromkeys((*OTHERS, "batch"), f"does not support `{name}`: its engine is"),
            )
            for name in ("account", "qos")
        ),
        ({**IDLE, "gpus": 1}, "idle_gpu", {"slurm": "which of a node's GPUs are idle: its engine"}),
        ({"notify": WAITING}, "notify.on", {"batch": UNSEEN}),
        (SECRET, "notify.on", {"batch": UNSEEN, "slurm": "only their tasks can read `HOOK`"}),
        ({**IDLE, "notify": {"webhook": "https://x.io/"}, "retry": {"node": 3}}, "", {}),
    ],
)
@pytest.mark.parametrize("name", ENGINES)
def test_job_is_refused_if_the_engine_lacks_a_capability_it_needs(
    name: str, fields: dict[str, object], path: str, said: dict[str, str]
) -> None:
    job = Job.model_validate({"name": "x", "command": "true", **fields})
    if name not in said:
        require(job, target(name))
        return
    finding = refused(lambda: require(job, target(name)))
    assert (finding.id, finding.path) == ("not-supported", path)
    assert said[name] in f"{finding.message} {finding.hint}"


def test_submission_is_refused_if_the_engine_lacks_a_capability(
    make_run: MakeRun, tmp_path: Path, store: RunStore
) -> None:
    """The capabilities are checked before anything else of the submission."""
    job_file = loaded(tmp_path, f"after: [{make_run('other-run').id}]\nmax_cost: 1")
    assert [name for name, able in ENGINES.items() if not able.after] == ["batch"]
    with pytest.raises(UserError, match="`after` has no effect on `nd`: its engine is `batch`"):
        prepare(job_file, target("batch"), store, asks=False)


@pytest.mark.parametrize(("name", "on"), [("batch", ("failed",)), ("slurm", ("waiting", "failed"))])
def test_default_notify_leaves_out_events_that_the_target_cannot_report(
    tmp_path: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch, name: str, on: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairway.yaml").write_text(json.dumps({"notify": WAITING}))
    job_file = loaded(tmp_path, "template: plain")
    prepared = prepare(job_file, target(name), store, asks=False)
    assert prepared.job.notify is not None
    assert prepared.job.notify.on == on


def test_unknown_engine_does_not_run_on_this_machine() -> None:
    assert not capabilities("pbs").runs_here


ND, D2S = "Standard_ND96isr_H100_v5", "Standard_D2s_v6"
ONE_SLOT = "gives each task whole nodes: they have one task slot each"
UNKNOWN = "the resources of `nd`'s nodes are not known, so they cannot be shared"


@pytest.mark.parametrize(
    ("engine", "field", "size", "message", "hint"),
    [
        ("batch", "gpus: 1", ND, ONE_SLOT, "gpus=null); or set `task_slots: 8` and `mpi: false`"),
        ("batch", "cores: 1", D2S, ONE_SLOT, "cores=null); or set `task_slots: 2` and `mpi: fal"),
        ("batch", "gpus: 1", "", UNKNOWN, "(-s gpus=null), or set the target's `vm_size:`"),
        ("ssh", "gpus: 9", ND, "needs 9 GPUs, and a node of `nd` has 8", "most 8"),
        ("ssh", "gpus: 1", D2S, "needs 1 GPU, and a node of `nd` has none", "leave it out"),
        ("ssh", "cores: 3", D2S, "needs 3 cores, and a node of `nd` has 2", "at most 2"),
    ],
)
def test_share_that_no_node_can_give_is_refused_at_its_line(
    tmp_path: Path, engine: str, field: str, size: str, message: str, hint: str
) -> None:
    job_file = loaded(tmp_path, field)
    nd = target(engine).model_copy(update={"vm_size": size})
    finding = refused(lambda: require_share(job_file.resolve(nd), nd, job_file.document))
    assert message in finding.message
    assert hint in finding.hint
    assert finding.location.line == 3


@pytest.mark.parametrize(("fields", "ranks"), [("gpus: 3\ncores: 4", 3), ("cores: 4", 4)])
def test_processes_per_node_gpus_starts_one_rank_per_gpu_of_the_task(
    tmp_path: Path, fields: str, ranks: int
) -> None:
    job = loaded(tmp_path, f"processes_per_node: gpus\n{fields}").resolve(target("ssh"))
    assert job.processes_per_node == ranks


@pytest.mark.parametrize("name", ["gpus", "cores"])
def test_share_of_a_node_is_refused_for_a_job_of_several_nodes(name: str, tmp_path: Path) -> None:
    finding = refused(lambda: loaded(tmp_path, f"{name}: 4\nnodes: 2").resolve(target("ssh")))
    wrong = f"`{name}`: a job of 2 nodes uses whole nodes: `{name}` is for one node"
    assert (finding.message, finding.location.line) == (wrong, 3)
    assert finding.hint == f"leave `{name}` out, or set `nodes: 1`"


@pytest.mark.parametrize("name", ENGINES)
def test_priority_without_effect_on_the_engine_gives_a_warning(
    name: str, tmp_path: Path, store: RunStore
) -> None:
    job_file, on = loaded(tmp_path, "priority: high\ntemplate: plain"), target(name)
    job = next(job_file.tasks()).resolve(on)
    found = list(ineffective(job, on, job_file.document))
    assert bool(found) is (name == "ssh")
    for finding in found:
        assert (finding.id, finding.path, finding.severity) == ("no-effect", "priority", WARNING)
        assert finding.location.line == 3
        assert finding.hint.endswith("a target with `slurm` or `batch` or `kubernetes`")
        prepared = prepare(job_file, on, store, asks=False)
        assert "no-effect" in [each.id for each in prepared.warnings]


@pytest.mark.parametrize(
    ("there", "runs", "path"),
    [
        (Target.local(), "/a:b/runs", "/a:b/runs"),
        (target_of("ssh", {"shared": "/data/x,y"}), "/a:b/runs", "/data/x,y"),
        (target_of("batch", mounts={"data": "/d:1"}), "/runs", "/d:1"),
        (target("slurm"), "/a:b/runs", ""),
        (target_of("kubernetes", {"shared": "/d,1/x"}, mounts={"data": "/d,1"}), "/runs", ""),
    ],
)
def test_container_is_refused_where_a_mounted_path_has_a_separator(
    there: Target, runs: str, path: str
) -> None:
    job = Job(name="x", command="true", container={"image": "a:1"})
    require_mountable(job.model_copy(update={"container": None}), there, Path(runs))
    mount = partial(require_mountable, job, there, Path(runs))
    if path:
        assert refused(mount, f"^{path} cannot be mounted").path == "container"
    else:
        mount()

"""Imports of programs and packages: short commands spend most of their time on imports."""

import json
import sys
from pathlib import Path

import pytest
from programs import finished
from running import MakeRun

pytestmark = pytest.mark.integration

CLOUD = {"cdktf", "constructs", "jsii", "azure"}
STACKS = CLOUD | {"fairway_constructs", "fairway_stacks"}
HEAVY = CLOUD | {"jinja2", "ruamel.yaml", "numpy"}
MODELS = HEAVY | {"pydantic", "rich"}
AWAY = MODELS | {"secrets", "fairway_core.machine"}
# Also excluded: the models of steps, the VM sizes, and pydantic's search for plugins in all
# installed packages.
UNSENT = CLOUD | {"numpy", "rich", "logging", "jinja2.meta", "pty", "tomllib"}
UNSENT |= {"fairway_runner.jobs.steps", "fairway_core.catalog"}
UNSENT |= {"fairway_core.validation", "fairway_core.secret_values"}
UNSENT |= {"importlib.metadata", "email", "zipfile"}
UNSENT |= {"fairway_core.notifications", "fairway_runner.runs.metrics", "fairway_agent.metric_logs"}

FAR = {"name": "far", "environment": "lab", "nodes": {"min": 1, "max": 1}}
JOB = "name: a\ntemplate: plain\ncommand: echo {{ params.lr }}\nparams: {lr: 0.1}\n"
SWEEP = JOB + "sweep: {points: {grid: {lr: [1, 2]}}}\n"
RUN = "from fairway_cli.entry import main\ntry:\n    main()\nfinally:\n    {}"
EVERY_MODULE = """import importlib, pkgutil, fairway_core
for module in pkgutil.walk_packages(fairway_core.__path__, "fairway_core."):
    importlib.import_module(module.name)"""
EVERY_COMMAND = """from fairway_cli.main import Commands
for name in Commands.names(): Commands.imported(name)"""
EVERY_NAME = """import fairway_hpc
for name in fairway_hpc.__all__: getattr(fairway_hpc, name)"""


def printed(folder: Path, code: str, *arguments: str) -> list[str]:
    """Runs a program and returns the lines of its standard error."""
    argv = f"import sys; sys.argv = ['fairway', *{arguments!r}]\n"
    done = finished([sys.executable, "-c", argv + code], cwd=folder, check=True)
    return done.stderr.splitlines()


ALL = "print(*sys.modules, sep='\\n', file=sys.stderr)"


# `most` limits the number of Fairway's modules: each takes about half a millisecond. Before you
# raise it, ask: does the command itself need the module, or only another branch of it?
@pytest.mark.parametrize(
    ("command", "lacks", "most"),
    [
        ("--version", HEAVY, None),
        ("--help", HEAVY, None),
        ("submit --help", HEAVY, None),
        ("list", MODELS, 37),
        ("show job-a", MODELS, 46),
        ("submit job.yaml --dry-run", UNSENT, 59),
        ("submit sweep.yaml --dry-run", UNSENT, 63),
    ],
)
def test_imports_of_each_command_exclude_heavy_packages(
    tmp_path: Path, make_run: MakeRun, command: str, lacks: set[str], most: int | None
) -> None:
    make_run("job-a", [{"log": "loss=1"}])
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    require_few(tmp_path, command, lacks, most)


def require_few(folder: Path, command: str, lacks: set[str], most: int | None) -> None:
    """Fails if a command imports one of these modules, or more than `most` of ours."""
    imported = set(printed(folder, RUN.format(ALL), *command.split()))
    assert "fairway_cli.main" in imported
    assert imported & lacks == set()
    ours = sorted(name for name in imported if name.startswith("fairway_"))
    assert most is None or len(ours) <= most, ours


@pytest.mark.parametrize(
    ("command", "most"),
    [("show ssh-a", 64), ("show slurm-a", 66), ("logs ssh-a", 56), ("list --since 2h", 40)],
)
def test_imports_of_a_look_at_remote_runs_exclude_pydantic(
    tmp_path: Path, make_run: MakeRun, command: str, most: int
) -> None:
    access = {"host": "localhost", "user": "me", "shared": str(tmp_path.parent / "shared")}
    for engine, section in {"ssh": access, "slurm": {**access, "partition": "p"}}.items():
        far = make_run(f"{engine}-a", [{"log": "loss=1"}], engine=engine)
        target = json.dumps({**FAR, "engine": engine, engine: section})
        (far.folder / "target.json").write_text(target)
        (far.folder / "engine.json").write_text('{"submission": 0, "complete": true}')
    synced = tmp_path / ".fairway" / "targets.json"
    synced.write_text(f"[{target}]")  # of the environment of these runs
    (tmp_path / "fairway.yaml").write_text("environment: lab.yaml\n")
    require_few(tmp_path, command, AWAY, most)


@pytest.mark.parametrize(
    ("code", "has", "lacks"),
    [
        (EVERY_MODULE, "fairway_core.documents", CLOUD),
        (EVERY_COMMAND, "fairway_cli.main", STACKS),
        (EVERY_NAME, "fairway_hpc", STACKS | {"typer"}),
        # Each client that follows a run starts these once a second.
        *(
            (f"import {module}", module, {"fairway_agent.task", "urllib.request"})
            for module in ("fairway_agent.kubernetes.runs", "fairway_agent.slurm.runs")
        ),
    ],
)
def test_imports_of_each_package_exclude_heavy_packages(
    tmp_path: Path, code: str, has: str, lacks: set[str]
) -> None:
    imported = set(printed(tmp_path, f"{code}\n{ALL}"))
    assert has in imported
    assert not imported & lacks


def test_imports_of_the_supervisor_are_standard_library_only(repository: Path) -> None:
    script = f"import sys; sys.path.insert(0, {str(repository / 'runner')!r})\n"
    script += "import fairway_agent.supervisor\n"
    script += "tops = {name.partition('.')[0] for name in sys.modules}\n"
    script += "print(sorted(tops - set(sys.stdlib_module_names)))"
    command = [sys.executable, "-I", "-S", "-c", script]
    done = finished(command)
    assert done.stdout == "['__main__', 'fairway_agent', 'fairway_boot']\n", done.stderr


def test_exit_of_the_program_skips_garbage_collection_of_imports(tmp_path: Path) -> None:
    """Otherwise Python scans all imported objects once more before it exits."""
    count = "import gc; print(gc.get_freeze_count(), file=sys.stderr)"
    assert int(printed(tmp_path, RUN.format(count), "list")[-1]) > 10_000

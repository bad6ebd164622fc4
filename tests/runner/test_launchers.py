"""The launchers' templates: their scripts for a few targets, and rules for all of them.

The rendered scripts are kept under golden/. After an intended change, rewrite them:

    FAIRWAY_GOLDEN=write bin/test tests/runner/test_launchers.py
"""

import difflib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from programs import finished, tool
from rendered import cluster_of, rendered

from fairway_core.target import Target
from fairway_runner.jobs import templates
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.launcher import Launchers, render_launcher
from fairway_runner.jobs.templates import all_templates, front_matter, template_facts

GOLDEN = Path(__file__).with_name("golden")
TEMPLATES = sorted(all_templates(Path(__file__).parent))

# A job that each template can launch, over the defaults below.
JOBS: dict[str, dict[str, Any]] = {
    "notebook": {"command": "report.ipynb", "outputs": {"notebook": {}}},
    "score": {"inputs": {"images": "data:/images"}},
    "nccl-tests": {"command": "/opt/nccl-tests/build/all_reduce_perf", "processes_per_node": 8},
}


def render(folder: Path, size: str, **job: Any) -> str:
    """Renders the script of a job on nodes of the given size."""
    given = JOBS.get(job.get("template", "openmpi"), {})
    defaults = {"name": "train", "command": "python train.py", "nodes": 4, "processes_per_node": 8}
    mounts = {} if size == "local" else {"mounts": {"data": "/data"}}
    return rendered(folder, cluster_of(size, **mounts), **{**defaults, **given, **job})[1]


# VM size and number of nodes by place. Golden copies: all places of Open MPI, h100 of the others.
PLACES = {
    "local": ("local", 1),
    "h100": ("Standard_ND96isr_H100_v5", 4),
    "hb176": ("Standard_HB176rs_v4", 4),
}
SCRIPTS = [(name, place) for name in TEMPLATES for place in PLACES]
SCRIPTS.remove(("nccl-tests", "hb176"))  # refused: hb176 has no GPUs
KEPT = [each for each in SCRIPTS if each[1] == "h100" or each[0] == "openmpi"]


def script_for(folder: Path, name: str, place: str, **job: Any) -> str:
    """Renders the script of a template for a place."""
    size, nodes = PLACES[place]
    env = {} if place == "local" else {"LEARNING_RATE": "0.1", "GREETING": "it's\nme"}
    return render(folder, size, **{"template": name, "nodes": nodes, "env": env, **job})


def compare(name: str, script: str) -> None:
    """Compares the script with its golden copy, or rewrites that."""
    golden = GOLDEN / name
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(script)
    assert script == golden.read_text()


def is_clean(script: str) -> bool:
    """Returns True without trailing spaces, double empty lines, or empty lines at braces."""
    untidy = re.search(r"\n\n\n|[ \t]\n|\{\n\n|\n\n\}|\n\n\Z", script)
    return untidy is None and script.endswith("\n")


_FUNCTION = re.compile(r"^(\w+\(\)) \{\n.*?^\}\n", re.M | re.S)


@pytest.mark.parametrize(("name", "place"), KEPT)
def test_launcher_script_matches_the_golden_copy(tmp_path: Path, name: str, place: str) -> None:
    """Golden copies only name the functions that are also in Open MPI's script."""
    script = script_for(tmp_path, name, place)
    assert is_clean(script)
    if (name, place) != ("openmpi", "h100"):
        shared = {each[0] for each in _FUNCTION.finditer(script_for(tmp_path, "openmpi", "h100"))}
        script = _FUNCTION.sub(
            lambda each: f"{each[1]} as in openmpi.h100.sh\n" if each[0] in shared else each[0],
            script,
        )
    compare(f"{name}.{place}.sh", script)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("torchrun-elastic", {"template": "torchrun", "options": {"min_nodes": 2}}),
        (
            "torchrun-static",
            {"template": "torchrun", "options": {"rendezvous": "static", "sharp": True}},
        ),
        ("tensorflow-servers", {"template": "tensorflow", "options": {"parameter_servers": 2}}),
        ("openmpi-preflight", {"preflight": "fabric"}),
        ("openmpi-large", {"nodes": 100, "secrets": {"TOKEN": "env:TOKEN"}}),
        ("hpcx-home", {"template": "hpcx", "options": {"home": "/opt/h p", "sharp": True}}),
        (
            "horovod-timeline",
            {
                "template": "horovod",
                "options": {"timeline": "trace", "autotune": True},
                "outputs": {"trace": {}},
            },
        ),
        (
            "notebook-params",
            {
                "template": "notebook",
                "params": {"rate": 1e-5, "rates": [1e-5, 2.0], "on": True, "text": "it's"},
                "options": {"kernel": "python3", "cell_timeout": 60},
            },
        ),
        ("dev-jupyter", {"template": "dev", "options": {"jupyter": True, "idle": 0}}),
    ],
)
def test_launcher_options_change_the_script_as_the_golden_diff_shows(
    tmp_path: Path, name: str, job: dict[str, Any]
) -> None:
    size = "Standard_ND96isr_H100_v5"
    usual = render(tmp_path, size, template=job.get("template", "openmpi"))
    lines = [text.splitlines(keepends=True) for text in (usual, render(tmp_path, size, **job))]
    compare(f"{name}.diff", "".join(difflib.unified_diff(*lines, "usual", name, n=1)))


@pytest.mark.parametrize("name", TEMPLATES)
def test_launcher_script_shared_by_tasks_equals_the_separately_rendered_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = {"name": "train", "template": name, "preflight": "fabric", **JOBS.get(name, {})}
    given |= {"env": {"GREETING": "it's\nme ", "AT": "{{ sweep.index }}"}, "nodes": 4}
    command = given.get("command", "python")
    (tmp_path / "job.yaml").write_text(json.dumps({"command": command, **given}))
    file = load_job(tmp_path / "job.yaml")
    texts = [command, f"# it's\n'{command}  \n", command * 2, "x" * 25_000 + command]
    tasks = [
        replace(
            file, document=replace(file.document, data={**file.document.data, **changes}), index=i
        )
        for i, text in enumerate(texts)
        for changes in ({"command": text, "params": {"at": 1}}, {"command": text, "nodes": 3})
    ]
    place = cluster_of("Standard_ND96isr_H100_v5", mounts={"data": "/data"})

    def scripts(launchers: Launchers) -> Iterator[str]:
        return (launchers.render(task, task.resolve(place)) for task in tasks)

    shared = scripts(launchers := Launchers(place))
    found = [next(shared) for _ in texts[:-1] for _ in range(2)]
    is_shared = launchers.of(file, file.resolve(place)).shares
    assert is_shared == (name not in {"notebook", "nccl-tests", "score"})
    monkeypatch.setattr(templates, "is_shipped", lambda _: False)
    assert [*found, *shared] == list(scripts(Launchers(place)))


def test_launcher_golden_files_are_all_in_use() -> None:
    kept = {f"{name}.{place}.sh" for name, place in KEPT}
    assert {path.name for path in GOLDEN.glob("*.sh")} == kept
    assert len(list(GOLDEN.glob("*.diff"))) == 9


def check_sent(script: str) -> None:
    """Asserts that functions sent to another node are sent with all functions they call."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("#")]
    bodies = dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", "\n".join(lines), re.M | re.S))
    for sent in re.findall(r"declare -f ([\w ]+)\)", script):
        for function in (there := sent.split()):
            body = bodies[function]
            called = {each for each in bodies if re.search(rf"^ *(if )?{each}( |$)", body, re.M)}
            assert called - {function} <= {*there}, (function, sent)


@pytest.mark.integration
def test_launcher_scripts_pass_shellcheck_and_send_complete_functions(tmp_path: Path) -> None:
    """The jobs of one place have long commands and variables."""
    words = "x" * 25_000
    long = {"env": {"LONG": words}, "command": f"./a {words}"}
    for name, place in SCRIPTS:
        job = {**long, **JOBS.get(name, {})} if place == "h100" else {}
        text = script_for(tmp_path, name, place, **job)
        (tmp_path / f"{name}.{place}.sh").write_text(text)
        check_sent(text)
        functions = re.findall(r"(?ms)^\w+\(\) \{\n.*?^\}$", text)
        assert sum(map(len, functions)) < 20_000, name  # some are sent to nodes
        assert place != "h100" or len(text) > 25_000, name
        assert place == "h100" or is_clean(text), name
    done = finished([tool("shellcheck"), "--format=gcc", *tmp_path.glob("*.sh")])
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", TEMPLATES)
def test_launcher_template_has_descriptions_and_a_valid_example_job(
    tmp_path: Path, name: str
) -> None:
    file = all_templates(Path(__file__).parent)[name]
    front = front_matter(file, file.read_text())
    assert front.description.endswith(".")
    for option in front.options.values():
        assert option.help.endswith(".")
        assert option.default is not None
    (job := tmp_path / "job.yaml").write_text(template_facts(name, tmp_path)["job"])
    job_file = load_job(job)
    script = render_launcher(job_file, job_file.resolve(Target.local()), Target.local())
    assert script.startswith("#!/usr/bin/env bash\n")


@pytest.mark.parametrize(
    ("name", "job", "path", "says"),
    [
        ("torchrun", {"options": {"min_nodes": 5}}, "options.min_nodes", "has 4 nodes"),
        ("torchrun", {"options": {"max_restarts": -1}}, "options.max_restarts", "is below 0"),
        ("horovod", {"options": {"cycle_ms": 0}}, "options.cycle_ms", "must be above 0"),
        ("horovod", {"options": {"timeline": "t"}}, "options.timeline", "has no output `t`"),
        (
            *("torchrun", {"options": {"min_nodes": 2, "rendezvous": "static"}}),
            *("options.rendezvous", "the rendezvous `static` cannot do without a node"),
        ),
        (
            *("tensorflow", {"options": {"parameter_servers": 31}}, "options.parameter_servers"),
            "31 parameter servers do not fit into 32 processes",
        ),
        ("notebook", {"outputs": {}}, "options.output", "the job has no output `notebook` to keep"),
        ("score", {"inputs": {}}, "inputs", "the job has no input, and so no files to share out"),
        ("score", {"inputs": {"a": "data:/a", "b": "data:/b"}}, "inputs", "the job has 2 inputs"),
        ("notebook", {"command": "a.py"}, "command", "`a.py` is not a notebook"),
        (
            *("nccl-tests", {"processes_per_node": 4}, "processes_per_node"),
            "one process for each GPU is measured, and Standard_ND96isr_H100_v5 has 8",
        ),
    ],
)
def test_launcher_refuses_a_job_that_it_cannot_start(
    tmp_path: Path, name: str, job: dict[str, Any], path: str, says: str
) -> None:
    finding = refused(lambda: render(tmp_path, "Standard_ND96isr_H100_v5", template=name, **job))
    assert (finding.path, finding.location is not None) == (path, True)
    assert says in finding.message


def test_launcher_nccl_tests_refuses_nodes_without_gpus(tmp_path: Path) -> None:
    refused(
        lambda: render(tmp_path, "Standard_HB176rs_v4", template="nccl-tests"),
        "Standard_HB176rs_v4 has no GPUs to measure",
    )

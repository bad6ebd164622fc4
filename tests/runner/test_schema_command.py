"""Schemas for editors: valid JSON schemas that accept exactly the files that the loader accepts."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from fairway_cli.main import app
from fairway_core.environment import load_environment
from fairway_core.environment.model import Environment
from fairway_core.findings import UserError
from fairway_core.schema import field_words, models_in
from fairway_core.target import Target
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.job_file import load_job

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted(ROOT.glob("examples/*/*.yaml"))
ENVIRONMENTS = sorted(ROOT.glob("stacks/environments/*.yaml"))
BASE = "name: lab\nlocation: westeurope\n"
JOB = "name: j\ncommand: python train.py\n"


@pytest.fixture(scope="module")
def schemas() -> dict[str, jsonschema.Draft202012Validator]:
    """Validators for the files of each kind."""
    found = {}
    for kind in ("environment", "job"):
        done = CliRunner().invoke(app, ["schema", kind])
        assert done.exit_code == 0
        found[kind] = jsonschema.Draft202012Validator(json.loads(done.output))
    return found


def _fits(validator: jsonschema.Draft202012Validator, text: str) -> bool:
    return not list(validator.iter_errors(YAML(typ="safe", pure=True).load(text)))


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["environment", "job"])
def test_schema_command_prints_a_valid_json_schema(schemas: Any, kind: str) -> None:
    schema = schemas[kind].schema
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    assert schema["description"]
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.integration
@pytest.mark.parametrize("file", [*ENVIRONMENTS, *JOBS], ids=lambda file: file.name)
def test_schema_accepts_bundled_environments_and_example_jobs(schemas: Any, file: Path) -> None:
    assert _fits(schemas["environment" if file in ENVIRONMENTS else "job"], file.read_text())


CLUSTERS = "clusters: {a: {engine: ssh, size: x, nodes: 1}}\n"


RIGHT_ENVIRONMENTS = [
    CLUSTERS,
    CLUSTERS + "zone: ${env:ZONE}\nprotect: ${env:P:-true}\n",
    "clusters: {a: {engine: '${env:E}', size: x, nodes: '${env:N}'}}\n",
    "x-node: &n {engine: ssh, size: x, nodes: 1}\nclusters: {a: *n}\n",
    "defaults: {cluster: {engine: ssh, size: x}}\nclusters: {a: {nodes: 1}, b: }\n",
    "defaults: {filesystem: {kind: nfs_server}}\nfilesystems: {d: {path: /d}}\n" + CLUSTERS,
    CLUSTERS + "budget: null\n",
]
WRONG_ENVIRONMENTS = [
    "",
    CLUSTERS + "zone: 4\n",
    CLUSTERS + "protected: true\n",
    "clusters: {a: {engine: ssh, size: x}}\n",
    "clusters: {a: {engine: ssh, size: x, nodes: none}}\n",
    "clusters: {a: {engine: horse, size: x, nodes: 1}}\n",
    "clusters: {a: {engine: ssh, size: x, nodes: 1, sise: 2}}\n",
    "clusters: {}\n",
    "defaults: {clusters: {engine: ssh}}\n" + CLUSTERS,
    "defaults: {cluster: {engin: ssh}}\n" + CLUSTERS,
    "defaults: {cluster: {engine: ssh}}\nfilesystems: {d: {kind: nfs_server}}\n" + CLUSTERS,
]
STEPS = "name: j\nsteps: {a: {command: x}, b: {command: x, nodes: 2, "
RIGHT_JOBS = [
    JOB + "nodes: 2\n",
    JOB + "nodes: '{{ params.nodes }}'\nparams: {nodes: 2}\n",
    JOB + "params: {a: 1, b: x, c: [1, 2], d: true}\n",
    JOB + "inputs: {a: data:/a, b: {from: 'd:x'}, c: {from: run, run: x-1}}\n",
    JOB + "inputs: {d: {best: {run: x}}}\n",
    JOB + "sweep: {points: {shards: {input: a, of: 4}}}\n",
    STEPS + "after: a}}\n",
    STEPS + "after: [a]}}\ntemplate: plain\n",
    STEPS + "after: {a: failed}, inputs: {m: {from: step, step: a}}}}\n",
    STEPS + "after: {a: {exit_code: [1, 2]}}, inputs: {m: {best: {step: a, metric: x}}}}}\n",
]
WRONG_JOBS = [
    "name: j\nnodes: 2\n",
    "name: j\nsteps: {}\n",
    *(JOB + each for each in ("nodes: 0\n", "node: 1\n", "params: {a: {b: 1}}\n")),
    STEPS + "after: 3}}\n",
    STEPS + "after: {a: done}}}\n",
    STEPS + "after: {a: {exit_code: 300}}}}\n",
    STEPS + "inputs: {m: {from: step, stap: a}}}}\n",
    STEPS + "inputs: {m: {best: {step: a, run: b}}}}}\n",
    STEPS + "name: own}}\n",
    STEPS + "nodse: 2}}\n",
]


def test_schema_accepts_right_files_and_refuses_wrong_ones(schemas: Any) -> None:
    for text in [*RIGHT_ENVIRONMENTS, *WRONG_ENVIRONMENTS]:
        assert _fits(schemas["environment"], BASE + text) is (text in RIGHT_ENVIRONMENTS), text
    for text in [*RIGHT_JOBS, *WRONG_JOBS]:
        assert _fits(schemas["job"], text) is (text in RIGHT_JOBS), text


@pytest.mark.parametrize("model", [Environment, Job])
def test_schema_describes_every_field_with_a_unique_sentence(model: Any) -> None:
    fields: dict[str, set[str]] = {}
    for name, each in models_in(model).items():
        assert each.__doc__, name
        words = field_words(each)
        for field in each.model_fields:
            said = " ".join(words.get(field, "").split())
            assert said, f"{name}.{field}"
            assert said[0].isupper() or said[0] == "`", f"{name}.{field}: {said}"
            assert said.endswith("."), f"{name}.{field}: {said}"
            fields.setdefault(said, set()).add(field)
        assert len(set(words.values())) == len(words), name
    # A field that several kinds of clusters or file systems share may have one text in all.
    assert {said: names for said, names in fields.items() if len(names) > 1} == {}


def test_schema_describes_distributions_and_has_valid_defaults(schemas: Any) -> None:
    jobs, environments = (schemas[kind].schema for kind in ("job", "environment"))
    properties = jobs["$defs"]["Distribution"]["properties"]
    assert "`[low, high]`" in properties["loguniform"]["description"]
    page = (ROOT / "docs" / "job.md").read_text()
    assert "\n## Distribution\n" in page
    assert all(f"\n| `{name}` |" in page for name in properties)
    for model, field, default in (
        *(("Slurm", "idle", "10m"), ("Repair", "grace", "30m"), ("Monitoring", "retention", "30d")),
    ):
        assert environments["$defs"][model]["properties"][field]["default"] == default
    assert jobs["properties"]["sample_every"]["default"] == "10s"  # or null
    for schema in (environments, jobs):
        for name, definition in schema["$defs"].items():
            for field, each in definition.get("properties", {}).items():
                if each.get("default") is not None:
                    fits = jsonschema.Draft202012Validator({**each, "$defs": schema["$defs"]})
                    assert fits.is_valid(each["default"]), f"{name}.{field}: {each['default']}"


ENVIRONMENT = """\
name: lab
location: westeurope
access:
  ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu]
clusters: {box: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 1}}
"""


ENVIRONMENT_ROWS = [
    ("", True),
    ("zone: 1", True),
    ("zone: none", True),
    ('zone: "1"', False),
    ("protect: false", True),
    ("protect: 1", False),
    ("tags: {owner: 7}", False),
    ("registry: null", True),
    ("registry: true", False),
    ("vault: {sku: premium}", True),
    ("vault: {sku: Premium}", False),
    ("checks: {ignore: [no-budget]}", True),
    ("checks: {ignore: no-budget}", False),
    ("monitoring: {emails: [ada@example.com], retention: 30d}", True),
    ("monitoring: {emails: [ada@example.com], retention: 30}", False),
    ("monitoring: {emails: []}", False),
    ("budget: {monthly: 100, emails: [ada@example.com]}", True),
    ('budget: {monthly: "100", emails: [ada@example.com]}', False),
    ("budget: {monthly: 0.5, emails: [ada@example.com]}", False),
    ("filesystems: {data: {kind: nfs_server, path: /data}}", True),
    ("filesystems: {data: {kind: nfs_server, path: data}}", False),
    ("filesystems: {data: {kind: nfs_server, path: /data, versions: [4]}}", False),
    ("filesystems: {data: {kind: nfs_server, path: /data, backup: {keep: 30d}}}", True),
    ("filesystems: {data: {kind: nfs_server, path: /data, backup: {keep: 30}}}", False),
    ("storage: {containers: {data: {expire: 30d}}}", True),
    ("storage: {containers: {data: {expire: 30}}}", False),
]


JOB_ROWS = [
    ("timeout: 1.5h", True),
    ("timeout: 60", False),
    ('nodes: "2"', False),
    ("processes_per_node: gpus", True),
    ("processes_per_node: gpu", False),
    ("retries: -1", False),
    ("retry: {node: 1}", True),
    ("retry: {nodes: 1}", False),
    ("metrics: {loss: 'loss=([0-9.]+)'}", True),
    ("metrics: {loss: {pattern: 'loss=(.*)', better: low}}", False),
    ("outputs: {model: {required: true}}", True),
    ("outputs: {model: {required: yes please}}", False),
    ("outputs: [model]", False),
    ("env: {A: 1}", False),
    ("priority: urgent", False),
    ("priority: 1001", False),
    ("container: img:1", False),
    ("checkpoint: {grace: 10}", False),
    ("sample_every: null", True),
    ("sample_every: 5", False),
    ("setup: {admin: true}", False),
    ("target: {cheapest: [local], by: price}", True),
    ("target: {cheapest: [local], by: cost}", False),
    ("secrets: {KEY: key}", False),
    ("max_cost: -1", False),
    ("sweep: {points: {random: {count: 3, lr: {uniform: [0, 1]}}}}", True),
    ("sweep: {points: {random: {count: 3, lr: {uniform: {low: 0, high: 1}}}}}", False),
    ("sweep: {lr: [1]}", False),
    ("inputs: {m: {from: run, run: a, task: last}}", False),
    ("inputs: {m: {from: run, run: a, stage: scratch}}", False),
    ("inputs: {m: {run: a}}", False),
    ("inputs: {m: {best: {metric: loss}}}", False),
    ("inputs: {m: {from: 'datasets:x', stage: disk}}", False),
    ("container: {image: x, shm_size: '8'}", False),
    ("max_cost: nan", False),
]


@pytest.mark.parametrize(
    ("kind", "text", "fits"),
    [
        *(("environment", ENVIRONMENT + text, fits) for text, fits in ENVIRONMENT_ROWS),
        *(("job", JOB + text, fits) for text, fits in JOB_ROWS),
    ],
)
def test_schema_and_loader_accept_the_same_files(
    schemas: Any, tmp_path: Path, kind: str, text: str, fits: bool
) -> None:
    (file := tmp_path / f"{kind}.yaml").write_text(text)
    assert _fits(schemas[kind], text) is fits
    with nullcontext() if fits else pytest.raises(UserError):
        if kind == "environment":
            load_environment(file)
        for each in load_job(file).tasks() if kind == "job" else ():
            each.resolve(Target.local())

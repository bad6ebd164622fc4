"""Use of nodes as it is shown: in words, as a table, and on a run's page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairway_cli.ui.catalogue import gpu_table, use_table
from fairway_runner.runs.figures import Gpu, Sample, figures, in_words
from fairway_runner.runs.report.page import page

if TYPE_CHECKING:
    from conftest import MakeRun, RunFairway

    from fairway_runner.runs.store import Run, RunStore

BUSY = Sample(
    1000.0,
    cpu=0.5,
    io_wait=0.38,
    memory=2.0**31,
    memory_total=2.0**32,
    disk_read=2.0**20,
    fabric_sent=61e9,
    fabric_received=10e9,
    fabric_limit=100e9,
    gpus=(
        Gpu(0, use=0.4, memory=2.0**30, memory_total=2.0**31, power=300.4),
        Gpu(1, use=0.46, memory=2.0**30, memory_total=2.0**31, nvlink_sent=5.0),
    ),
)


def write(run: Run, nodes: dict[str, list[dict[str, Any]]]) -> None:
    (run.folder / "figures").mkdir()
    for node, samples in nodes.items():
        text = "".join(json.dumps(sample) + "\n" for sample in samples)
        (run.folder / "figures" / f"{node}.jsonl").write_text(text)


def test_figures_in_words_and_tables() -> None:
    assert in_words([BUSY]) == (
        "GPUs 43 % busy; processors 50 % busy; 38 % of the time waiting for files; "
        "InfiniBand at 61 % of its speed"
    )
    assert in_words([]) == ""
    assert in_words([Sample(0.0)]) == ""
    header, line = use_table({"nd-1": BUSY}, now=1075.0).splitlines()
    assert header.split("  ")[0] == "NODE"
    assert "NETWORK" not in header  # nobody tells
    for part in ("43%", "2.0 GiB of 4.0 GiB", "300 W", "50%", "1.0 MiB/s / ?", "38%", "1m15s"):
        assert part in line
    assert gpu_table({"nd-1": Sample(0.0)}) == ""
    _, *lines = gpu_table({"nd-1": BUSY}).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "nd-1 0 40% 1.0 GiB of 2.0 GiB 300 W",
        "nd-1 1 46% 1.0 GiB of 2.0 GiB ? / 5 B/s",
    ]
    assert "\x1b" not in use_table({"a\x1b[2Jb": BUSY}, now=0.0)


def test_page_draws_each_node(make_run: MakeRun) -> None:
    run = make_run("job-aaaaaa", state="succeeded")
    assert 'id="nodes"' not in page(run)
    samples = [{"time": 60.0 * n, "cpu": 0.5, "gpus": [{"index": 0, "use": 0.9}]} for n in range(9)]
    write(run, {"nd-1": samples, "nd-<b>": samples, "nd-3": [], "nd-4": [{"time": 5.0}]})
    text = page(run)
    assert "GPUs 90 % busy; processors 50 % busy" in text
    assert "2 nodes, with averages from 90 to 90 %." in text
    assert "InfiniBand, %" not in text
    assert "nd-&lt;b&gt;" in text
    assert "nd-<b>" not in text
    run = make_run("job-bbbbbb", state="succeeded")
    write(run, {f"nd-{n}": [{"time": 1.0, "cpu": 0.5}] for n in range(200)})
    assert page(run).count('class="series cx"') == 64


def test_top_prints_sampled_figures(
    make_run: MakeRun, fairway: RunFairway, store: RunStore
) -> None:
    here = store.base.parent
    run = make_run("job-aaaaaa", state="succeeded")
    none = "job-aaaaaa  succeeded\nnone of its nodes was sampled\n"
    assert fairway(here, "top", "job", "--once") == (0, none, "")
    write(run, {"nd-1": [{"time": 1.7e9, "cpu": 0.25, "gpus": [{"index": 3, "use": 0.5}]}]})
    assert len(figures(run)["nd-1"]) == 1
    shown = fairway(here, "top", "job", "--gpus")[1].splitlines()
    assert [line.split() for line in shown[1:3]] == [["NODE", "GPU", "USE"], ["nd-1", "3", "50%"]]
    assert shown[-1] == "so far: GPUs 50 % busy; processors 25 % busy"
    facts = json.loads(fairway(here, "top", "job", "--json")[1])
    assert (facts["run_id"], facts["state"]) == ("job-aaaaaa", "succeeded")
    (node,) = facts["nodes"]
    assert (node["node"], node["time"], node["cpu"]) == ("nd-1", "2023-11-14T22:13:20Z", 0.25)
    assert "use     GPUs 50 % busy" in fairway(here, "show", "job")[1]

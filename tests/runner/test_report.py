"""The page about a run and the use of its nodes: complete, accessible, and safe from injection."""

import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway

from fairway_cli.ui.catalogue import gpu_table, use_table
from fairway_runner.output_file import write_output
from fairway_runner.runs.figures import Gpu, Sample, figures, summarize_use
from fairway_runner.runs.records import STEPS_FILE, StepRecord, steps_text
from fairway_runner.runs.report import charts
from fairway_runner.runs.report.charts import overlay, points, throughput_metric
from fairway_runner.runs.report.data import MOST_CURVES, read
from fairway_runner.runs.report.page import page
from fairway_runner.runs.report.svg import label, scale_of, tag
from fairway_runner.runs.store import Run

MOST = sys.float_info.max
EVIL = "<script>alert('x')</script>\"'&"
METRICS = {
    "loss": "loss=([0-9.]+)",
    "images_per_second": "speed=([0-9.]+)",
    "<b>": "bold=([0-9.]+)",
}


class _Structure(HTMLParser):
    """Elements of a page with their attributes; asserts that open elements are closed."""

    _VOID = ("meta", "link", "br", "img", "input")

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def named(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def structure(text: str) -> _Structure:
    parser = _Structure()
    parser.feed(text)
    assert parser.open == []
    return parser


def task(index: int, ranks: int = 1, **facts: Any) -> dict[str, Any]:
    speed = {1: 100, 2: 150, 4: 200}[ranks]
    log = "".join(f"loss={(10 - n) / (index + 1)} speed={speed}\n" for n in range(5))
    return {
        "params": {"lr": 10.0**-index, "optimizer": EVIL if index % 2 else "sgd", "fixed": EVIL},
        "processes_per_node": ranks,
        "log": log,
        **facts,
    }


@pytest.fixture
def sweep(make_run: MakeRun) -> Run:
    ranks = (1, 1, 2, 4)
    tasks = [task(index, ranks[index]) for index in range(4)]
    words = {"job_file": f"{EVIL}.yaml", "note": f"note {EVIL}", "tags": ["one", "two"]}
    return make_run("sweep-a", tasks, metrics=METRICS, **words)


def test_report_page_is_complete_escaped_and_accessible(sweep: Run) -> None:
    text = page(sweep)
    found = structure(text)
    names = {name for name, _ in found.elements}
    assert not names & {"script", "link", "iframe", "img", "object"}
    for _, attributes in found.elements:
        assert not {"src", "href", "xlink:href"} & set(attributes)
        assert not any(name.startswith(("on", "alert(", "'&")) for name in attributes)
    assert not re.search(r"url\(|@import|https?:", text)
    assert text.count("&lt;script&gt;alert") >= 5  # table, curves, sweep, job file, note
    assert all(each in text for each in (">note &lt;script", ">one, two<"))
    images = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(images) == 4  # two metrics, the sweep, scaling
    for image in images:
        root = ElementTree.fromstring(image)  # must be XML too
        words = [root.find("title"), root.find("desc")]
        assert all(each.text for each in words)
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-labelledby"] == " ".join(each.attrib["id"] for each in words)
    assert all(header.get("scope") in ("col", "row") for header in found.named("th"))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert found.named("html")[0]["lang"] == "en"


def test_report_measures_scaling_against_the_smallest_task(sweep: Run) -> None:
    report = read(sweep)
    assert throughput_metric(report, None) == "images_per_second"
    found = [
        (each.ranks, each.tasks, each.throughput, each.efficiency)
        for each in points(report, "images_per_second")
    ]
    assert found == [(1, 2, 100.0, 1.0), (2, 1, 150.0, 0.75), (4, 1, 200.0, 0.5)]
    text = page(sweep)
    assert all(f">{shown}</td>" in text for shown in ("100.0%", "75.0%", "50.0%"))
    assert "loss over ranks" in page(sweep, "loss")
    refused(lambda: page(sweep, "speed"), "no metric `speed`")
    (sweep.folder / STEPS_FILE).write_text(steps_text([StepRecord("one", "one-a", "local", {})]))
    refused(lambda: page(sweep, "images_per_second"), "is a run of several steps")


@pytest.mark.usefixtures("sweep")
def test_report_command_writes_the_complete_file_or_none(tmp_path: Path, here: RunFairway) -> None:
    assert here("report", "sweep-a", "-o", "page.html")[:2] == (0, "page.html\n")
    assert (tmp_path / "page.html").read_text().endswith("</html>")
    assert here("report", "sweep-a")[1] == "report-sweep-a.html\n"
    facts = {"run_id": "sweep-a", "file": "report-sweep-a.html"}
    assert json.loads(here("report", "sweep-a", "--json")[1]) == facts
    done = here("report", "sweep-a", "-o", "none/page.html")
    ends(done, 2, "cannot be written: No such file or directory")
    assert [path.name for path in tmp_path.glob(".page*")] == []


def test_report_output_writes_into_pipes_links_and_open_files_in_place(tmp_path: Path) -> None:
    """Otherwise the draft of the file would replace them, such as root's `-o /dev/null`."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    try:
        write_output(tmp_path / "pipe", "page\n")
        assert os.read(reader, 100) == b"page\n"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "there").mkdir()
    (link := tmp_path / "page.html").symlink_to("there/page.html")
    for text in ("new", "replaced"):
        write_output(link, text)
    assert (link.is_symlink(), link.read_text()) == (True, "replaced")
    (kept := tmp_path / "kept").write_text("before\n")
    with kept.open("a") as stream:  # like a shell's `>> kept`
        write_output(Path(f"/dev/fd/{stream.fileno()}"), "page\n")
    assert kept.read_text() == "before\npage\n"


def test_report_page_of_one_task_of_nothing_or_of_several_targets(make_run: MakeRun) -> None:
    one = page(make_run("one-a", [task(0)], metrics=METRICS))
    assert one.count("<svg") == 2
    assert "Here they do not" in one
    empty = page(make_run("empty-a", [{"state": "failed"}], state="failed"))
    structure(empty)
    assert "<svg" not in empty
    diverged = page(make_run("nan-a", [{"log": "loss=3\nloss=nan\n"}] * 9, metrics=METRICS))
    assert (diverged.count('class="series'), ">3</td>" in diverged) == (9, False)
    lines = [{"log": "loss=3\n"}, {"log": "loss=3\n", "state": "failed"}]
    equal = page(make_run("equal-a", lines, metrics=METRICS))
    assert 'class="series c1"' in equal
    assert "NaN" not in equal
    run = make_run("job-a", target="spot")
    facts = {"passed_over": {"nd": f"the pool cannot grow: {EVIL}"}}
    (run.folder / "provenance.json").write_text(json.dumps(facts))
    text = page(run)
    assert "nd was passed over: the pool cannot grow" in text
    assert EVIL not in text


@pytest.mark.integration
def test_report_page_of_many_tasks_draws_a_selection_of_curves(make_run: MakeRun) -> None:
    tasks = [{"params": {"n": n}, "log": f"loss={n}\n"} for n in range(1001)]
    run = make_run("many-a", tasks, metrics=METRICS)
    text = page(run)
    assert f"{MOST_CURVES} of 1,001 tasks are drawn" in text
    assert "… and 1 more." in text
    assert len(text) < 2_000_000
    drawn = [row.metrics["loss"] for row in read(run).drawn]
    assert (len(drawn), min(drawn), max(drawn)) == (MOST_CURVES, 0, 1000)
    shades = {row.shade for row in read(run).rows}
    assert shades == {f"q{n}" for n in range(7)}


@pytest.mark.parametrize(
    ("values", "bounds", "ticks"),
    [
        ([0.13, 0.97], [0.0, 1.0], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ([5, 5], [4.7, 5.3], ["4.7", "4.8", "4.9", "5", "5.1", "5.2", "5.3"]),
        ([-3, 4], [-4.0, 4.0], ["-4", "-2", "0", "2", "4"]),
        ([0, 0], [-0.6, 0.6], ["-0.6", "-0.4", "-0.2", "0", "0.2", "0.4", "0.6"]),
        ([1, 1000], [0.95, 1050.0], ["1", "10", "100", "1000"]),
        ([-1.7e308, MOST], [-1e300, 1e300], ["-1e300", "-5e299", "0", "5e299", "1e300"]),
        ([5e-324, 0], [-0.6, 0.6], ["-0.6", "-0.4", "-0.2", "0", "0.2", "0.4", "0.6"]),
        ([1, 1 + 2**-52], [0.94, 1.06], ["0.94", "0.96", "0.98", "1", "1.02", "1.04", "1.06"]),
    ],
)
def test_report_chart_axes_have_round_bounds_and_ticks(
    values: list[float], bounds: list[float], ticks: list[str]
) -> None:
    scale = scale_of(values, 0, 100)
    assert [scale.low, scale.high] == pytest.approx(bounds)
    assert [label(tick) for tick in scale.ticks()] == ticks
    assert all(-0.1 <= scale(value) <= 100.1 for value in [*values, *scale.ticks()])


def test_report_draws_extreme_values(make_run: MakeRun) -> None:
    """The page draws metrics, steps, parameters and throughputs that are extreme alike."""
    metrics = {name: rf"{name}=(\S+)" for name in ("loss", "samples_per_second")}
    values = ["1.7e308", "5e-324", "-1e308", f"{MOST}", "0", "1e308"]
    tasks = [
        {
            "params": {"x": float(value), "n": 10**400 + index},
            "processes_per_node": 2**index,
            "log": f"samples_per_second={value}\n"
            + "".join(f"step={at}{'0' * 305} loss={each}\n" for at, each in enumerate(values)),
        }
        for index, value in enumerate(values)
    ]
    text = page(make_run("job-a", tasks, metrics=metrics))
    images = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(images) == 4
    assert not re.search(r"[LM ,\"](nan|-?inf)", "".join(images))


def test_report_svg_escapes_text_and_attributes() -> None:
    written = tag("text", EVIL, tag("b", "1"), class_=EVIL, x=1.04)
    assert str(written) == (
        '<text class="&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34;&#39;&amp;" x="1">'
        "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34;&#39;&amp;<b>1</b></text>"
    )


def test_report_curves_and_best_values_come_from_the_logs_of_tasks(make_run: MakeRun) -> None:
    tasks = [{"log": f"loss={each} accuracy={each}\n"} for each in (3, 1, 2)]
    patterns = {name: f"{name}=([0-9.]+)" for name in ("loss", "accuracy")}
    text = page(make_run("job-a", tasks, metrics=patterns))
    tiles = re.sub(r"<[^>]*>|\s+", " ", text.partition('class="tiles"')[2][:2000])
    assert re.search(r"loss +1 +lowest; highest 3 ", tiles)
    assert re.search(r"accuracy +3 +highest; lowest 1 ", tiles)
    # Curves are over the steps that the job prints, or over the values, counted from 1.
    log = "step=10 loss=3\nstep=20 loss=2\nloss=nan\n"
    run = make_run(
        "job-d", [{"log": log}, {"log": "loss=5\nloss=4\n"}, {}], metrics={"loss": "loss=([0-9]+)"}
    )
    first, second, third = run.tasks
    assert first.curves == {"loss": [(10.0, 3.0), (20.0, 2.0)]}
    assert second.curves == {"loss": [(1.0, 5.0), (2.0, 4.0)]}
    assert third.curves == {}
    assert make_run("job-b", [{"log": "loss=5\n"}]).tasks[0].curves == {}
    log = "".join(f"loss={n}\n" for n in range(5000))
    many = make_run("job-c", [{"log": log}], metrics={"loss": "loss=([0-9]+)"})
    points = many.tasks[0].curves["loss"]
    assert (len(points) <= 1001, points[0], points[-1]) == (True, (1.0, 0.0), (5000.0, 4999.0))


def test_report_curves_are_drawn_over_the_printed_steps(make_run: MakeRun) -> None:
    """Two tasks print at different rates, and a last line repeats a value."""
    logs = [
        "".join(f"step {n}: loss={9 - n / 100}\n" for n in range(0, 500, every)) + "done loss=1\n"
        for every in (10, 50)
    ]
    metrics = {"loss": "loss=([.0-9]+)"}
    text = page(make_run("job-a", [{"log": log} for log in logs], metrics=metrics))
    image = re.findall(r"<svg.*?</svg>", text, re.DOTALL)[0]
    assert ">step</text>" in image
    assert ">400</text>" in image
    last = {re.findall(r"L([0-9.]+),", path)[-1] for path in re.findall(r' d="([^"]*)"', image)}
    assert len(last) == 2  # 490 and 450
    log = "at 100 of 900\nloss=3\nat 200 of 900\nloss=2\n"
    run = make_run("job-b", [{"log": log}], metrics={"loss": "loss=([.0-9]+)"})
    assert ">value printed</text>" in page(run)
    said = {"loss": {"pattern": "loss=([.0-9]+)", "step": "at ([0-9]+) of"}}
    (run.folder / "job.json").write_text(json.dumps({"metrics": said}))
    text = page(run)
    assert all(each in text for each in (">step</text>", ">200</text>"))
    log = "".join(f"epoch {e} step {n}: loss={9 - e}\n" for e in range(3) for n in range(4))
    run = make_run("job-c", [{"log": log}], metrics={"loss": "loss=([.0-9]+)"})
    assert ">epoch</text>" in page(run)


LOSS = {"loss": "loss=([0-9.]+)"}


def _log(first: int, last: int) -> str:
    return "".join(f"step {n} loss={n}\n" for n in range(first, last))


def test_report_overlay_draws_several_runs_in_one_chart(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        make_run("job-a", [{"log": _log(0, 5)}, {"log": _log(5, 9)}], metrics=LOSS),
        make_run("job-b", [{"log": _log(3, 7)}], metrics=LOSS),
        make_run("job-c", [{"log": "nothing\n"}]),
    ]
    found = overlay(runs)
    ((name, chart),) = found.charts
    assert name == "loss"
    assert chart.count('class="series') == 3
    for title in ("job-a/0: 4", "job-a/1: 8", "job-b: 6", "3 tasks", ">step<"):
        assert title in chart
    assert found.legend == [("job-a", "c0"), ("job-b", "c1"), ("job-c", "c2")]
    assert found.left_out == 0
    monkeypatch.setattr(charts, "MOST_CURVES", 2)
    run = make_run("job-d", [{"log": _log(0, 5)}] * 3, metrics=LOSS)
    found = overlay([run])
    assert found.left_out == 1
    assert found.charts[0][1].count('class="series') == 2
    run = make_run("job-e", metrics=LOSS)
    (run.folder / "tasks.jsonl").write_text("{")
    refused(lambda: overlay([run]), "job-e")


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


def test_figures_are_shown_in_words_and_tables() -> None:
    assert summarize_use([BUSY]) == (
        "GPUs 43 % busy; processors 50 % busy; 38 % of the time waiting for files; "
        "InfiniBand at 61 % of its speed"
    )
    assert summarize_use([]) == ""
    assert summarize_use([Sample(0.0)]) == ""
    header, line = use_table({"nd-1": BUSY}, now=1075.0).splitlines()
    assert header.split("  ")[0] == "NODE"
    assert "NETWORK" not in header  # no sample has it
    for part in ("43%", "2.0 GiB of 4.0 GiB", "300 W", "50%", "1.0 MiB/s / ?", "38%", "1m15s"):
        assert part in line
    assert gpu_table({"nd-1": Sample(0.0)}) == ""
    _, *lines = gpu_table({"nd-1": BUSY}).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "nd-1 0 40% 1.0 GiB of 2.0 GiB 300 W",
        "nd-1 1 46% 1.0 GiB of 2.0 GiB ? / 5 B/s",
    ]
    assert "\x1b" not in use_table({"a\x1b[2Jb": BUSY}, now=0.0)


def test_report_page_draws_figures_of_each_node(make_run: MakeRun) -> None:
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


def test_figures_are_shown_by_top_show_and_report(
    make_run: MakeRun, here: RunFairway, tmp_path: Path
) -> None:
    run = make_run("job-aaaaaa", state="succeeded")
    none = "job-aaaaaa  succeeded\nnone of its nodes was sampled\n"
    assert here("top", "job", "--once") == (0, none, "")
    write(run, {"nd-1": [{"time": 1.7e9, "cpu": 0.25, "gpus": [{"index": 3, "use": 0.5}]}]})
    assert len(figures(run)["nd-1"]) == 1
    shown = here("top", "job", "--gpus")[1].splitlines()
    assert [line.split() for line in shown[1:3]] == [["NODE", "GPU", "USE"], ["nd-1", "3", "50%"]]
    assert shown[-1] == "so far: GPUs 50 % busy; processors 25 % busy"
    facts = json.loads(here("top", "job", "--json")[1])
    assert (facts["run_id"], facts["state"]) == ("job-aaaaaa", "succeeded")
    (node,) = facts["nodes"]
    assert (node["node"], node["time"], node["cpu"]) == ("nd-1", "2023-11-14T22:13:20Z", 0.25)
    assert "use     GPUs 50 % busy" in here("show", "job")[1]
    assert here("report", "job")[:2] == (0, "report-job-aaaaaa.html\n")
    assert "GPUs 50 % busy" in (tmp_path / "report-job-aaaaaa.html").read_text()

"""Assembles the page of a run."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fairway_agent.records import section_of
from fairway_runner.quantities import duration, format_cell, iso, money, number
from fairway_runner.runs.figures import figures, summarize_use
from fairway_runner.runs.report import charts
from fairway_runner.runs.report.data import MOST_CURVES, SHADES, Report, read
from fairway_runner.runs.view import run_facts, target_facts

if TYPE_CHECKING:
    from fairway_runner.runs.store import Run


def html_templates(package: str, folder: str) -> Environment:
    """Returns a package's templates: values are escaped, and must all be given."""
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"money": money, "number": number, "shown": format_cell}
    environment.filters |= {"duration": duration, "iso": iso}
    return environment


_MOST_ROWS = 1000


def page(run: Run, throughput: str | None = None) -> str:
    """Returns the run's page as self-contained HTML; scaling is by the metric `throughput`, or the
    first that is a rate. Raises UserError if the run has no such metric."""
    return _template().render(_context(run, throughput))


def sections(run: Run) -> Markup:
    """Renders the page's sections, for a page that has a frame of its own."""
    template = _template()
    block = template.blocks["sections"]
    return Markup("".join(block(template.new_context(_context(run)))))  # noqa: S704 - it escapes


@cache
def _template() -> Template:
    return html_templates("fairway_runner.runs.report", ".").get_template("page.html.j2")


def _context(run: Run, throughput: str | None = None) -> dict[str, Any]:
    report = read(run)
    rate = charts.throughput_metric(report, throughput)
    found = charts.points(report, rate) if rate else []
    facts, sampled = run_facts(run) | target_facts(run), figures(run)
    return {
        "report": report,
        "facts": facts,
        "tiles": _tiles(report, facts),
        "provenance": _provenance(report, facts),
        "setup": run.setup_status(facts["state"]),
        "most_rows": _MOST_ROWS,
        "most_curves": MOST_CURVES,
        "shades": SHADES,
        "curves": [
            (name, chart)
            for name in report.metrics
            if (chart := charts.curves(name, report.drawn, report.params)) is not None
        ],
        "parallel": charts.parallel_coordinates(report),
        "rate": rate,
        "points": found,
        "scaling": charts.scaling(found, rate) if rate and found else None,
        "nodes": charts.node_charts(sampled),
        "node_legend": charts.legend(sampled),
        "use": summarize_use([sample for samples in sampled.values() for sample in samples]),
        "drawn_at": iso(time.time()),
    }


def _tiles(report: Report, facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Returns the headline figures: name, value, remark."""
    succeeded = sum(row.task.state == "succeeded" for row in report.rows)
    count = len(report.rows)
    tiles = [("time", duration(facts["seconds"]) or "–", f"on {facts['target']}")]
    if count > 1:
        tiles.append(("tasks succeeded", f"{succeeded:,}", f"of {count:,}"))
    ranks = sorted({row.task.world_size for row in report.rows})
    tiles.append(("ranks per task", "–".join({f"{ranks[0]}": 0, f"{ranks[-1]}": 0}), ""))
    for name in report.metrics[:4]:
        if not (values := report.values(name)):
            tiles.append((name, "–", "not finite at the end"))
        elif count == 1 or len(values) == 1:
            tiles.append((name, number(values[0]), "last value"))
        else:
            best = report.settings[name].best(values)
            low, high = number(min(values)), number(max(values))
            other = f"lowest; highest {high}" if best == min(values) else f"highest; lowest {low}"
            tiles.append((name, number(best), other))
    return tiles


def _provenance(report: Report, facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns the origin of the run as rows of a name and a value, from its record."""
    record, known, job = report.run.record, report.provenance, report.job
    git = section_of(known, "git")
    commit = str(git.get("commit") or "")
    dirty = " and uncommitted changes" if git.get("dirty") else ""
    rows = [
        ("Job file", record.job_file),
        ("Command" if len(report.rows) == 1 else "Command of task 0", str(job.get("command", ""))),
        ("Template", str(job.get("template", ""))),
        ("Tags", ", ".join(facts["tags"])),
        ("Note", facts["note"]),
        ("Submitted", iso(record.created) or ""),
        ("Ended", facts["ended"] or ""),
        ("Rerun of", str(known.get("rerun_of") or "")),
        ("Commit", commit and commit[:12] + dirty),
        ("Code", str(known.get("code", ""))[:16]),
        ("Fairway", record.fairway),
        ("Python", " on ".join(filter(None, (known.get("python"), known.get("machine"))))),
        ("Folder", str(report.run.folder)),
    ]
    return [(name, value) for name, value in rows if value]

"""`fairway review` without Typer: the same as with it, and everything else is left to Typer."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import finished

from fairway_cli.main import main
from fairway_cli.ui.reviews import Asked, asked_plainly, environment_in

pytestmark = pytest.mark.integration

PROGRAM = [sys.executable, "-P", "-m", "fairway_cli.entry"]
SAMPLES = Path(__file__).resolve().parents[1] / "core/review/plans"


@pytest.mark.parametrize(
    "words",
    [
        ["a.json"],
        ["a.json", "b=c.json", "--markdown"],
        ["--json", "a.json"],
        ["a.json", "--base", "b.json", "--base", "c=d.json", "e.json"],
        ["a.json", "--allow", "x[0]", "--allow", 'y["b c"]'],
        ["a.json", "--prices", "first.toml", "--prices", "p.toml"],
        ["--json", "--markdown", "a.json"],
    ],
)
def test_typer_reads_the_same(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def keep(one: Asked) -> int:
        asked.append(one)
        return 0

    monkeypatch.setattr("fairway_cli.ui.reviews.review_files", keep)
    with pytest.raises(SystemExit) as ended:
        main(["review", *words])
    assert not ended.value.code
    assert asked == [asked_plainly(words)]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--help"],
        ["-h", "a.json"],
        ["a.json", "--jsn"],
        ["a.json", "--base"],
        ["a.json", "--base", "--json"],
        ["a.json", "--allow=x"],
        ["--", "a.json"],
        ["a.json", ""],
        ["--markdown"],
        ["-"],
    ],
)
def test_the_rest_is_left_to_typer(words: list[str]) -> None:
    assert asked_plainly(words) is None


def _run(*words: Any, **settings: Any) -> subprocess.CompletedProcess[str]:
    return finished([*PROGRAM, "review", *map(str, words)], **settings)


def test_the_program_ends_as_the_command_does(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONVERBOSE": ""}
    plan = f"demo-compute={SAMPLES / 'move-disks.json'}"
    lost = _run(plan, env=environment)
    assert (lost.returncode, lost.stderr) == (3, "")
    assert "data would be lost; to accept all of it:" in lost.stdout
    again = lost.stdout.splitlines()[-1].split()
    assert again[:3] == ["fairway", "review", plan]
    allowed = {**environment, "FAIRWAY_ALLOW": " ".join(again[4::2]).replace("'", "")}
    assert _run(plan, env=allowed).returncode == 0
    missing = _run(tmp_path / "none.json")
    assert missing.returncode == 2
    assert "none.json: no such file [no-such-file]" in missing.stderr
    two = _run("a", "--json", "--markdown")
    assert (two.returncode, "choose one" in two.stderr) == (2, True)
    usage = _run("a", "--jsn")
    assert (usage.returncode, "--jsn" in usage.stderr) == (2, True)
    assert not any("Traceback" in one.stderr for one in (lost, missing, two, usage))


def test_a_reader_that_goes_away_ends_it() -> None:
    words = [*PROGRAM, "review", f"a={SAMPLES / 'create.json'}", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, timeout=300)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
    full = subprocess.run(
        ["bash", "-c", '"$@" >/dev/full', "bash", *words], capture_output=True, timeout=300
    )
    assert (full.returncode, b"No space left" in full.stderr) == (5, True)


def test_typer_is_not_imported_for_it() -> None:
    code = (
        "import os, sys\n"
        "real = os._exit\n"
        "os._exit = lambda code: (print(*sys.modules, file=sys.stderr, flush=True), real(code))\n"
        f"sys.argv = ['fairway', 'review', {str(SAMPLES / 'grow.json')!r}, '--markdown']\n"
        "from fairway_cli.entry import main; main()"
    )
    done = finished([sys.executable, "-P", "-c", code])
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "fairway_core.review.review" in loaded
    slow = {"typer", "pydantic", "rich", "ruamel.yaml", "cdktf", "azure", "jinja2"}
    assert not loaded & (slow | {"urllib.request", "ssl", "fairway_core.environment"})


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ([], ""),
        (["demo"], "demo"),
        (["environments/lab.yaml"], "environments/lab.yaml"),
        (["plan.json"], None),
        (["lab=plan.json"], None),
        (["plans", "plan.json"], None),
        (["gone.json"], None),
        (["cpu-hpc"], None),  # a folder of plans that is named as an environment
    ],
)
def test_review_command_recognises_an_environment_in_place_of_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    for folder in ("plans", "cpu-hpc"):
        (tmp_path / folder).mkdir()
    assert environment_in(words) == environment

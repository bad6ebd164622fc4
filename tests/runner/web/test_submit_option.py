"""Command `fairway --server URL submit`: local jobs and code run as if submitted on the server."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from endings import ends
from programs import executable
from running import RunFairway

from fairway_runner.runs.store import RunStore
from fairway_web.threads import Follower

Ask = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.integration

JOB = "name: hello\ncommand: cat word.txt\n"


@pytest.fixture(autouse=True)
def ended(store: RunStore) -> Iterator[None]:
    """Waits for all runs after each test."""
    yield
    for run in store.unsorted():
        run.wait()


@pytest.fixture
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "job.yaml").write_text(JOB)
    (folder / "word.txt").write_text("one\n")
    return folder


@pytest.fixture
def send(url: str, laptop: Path, fairway: RunFairway) -> Ask:
    return lambda *words: fairway(laptop, "--server", url, "submit", *words)


def _log(store: RunStore, run_id: str) -> str:
    run = store.find(run_id)
    run.wait()
    return run.log_text()


def test_submit_to_server_runs_the_local_code_once_and_sends_it_once(
    send: Ask, laptop: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["job.yaml", "--run-id", "hello-a", "--tag", "t", "--note", "n"]
    for _ in range(2):  # repeated, it starts once
        code, printed, said = send(*words)
        assert (code, said) == (0, "")
        assert printed == (
            "hello-a runs on local\n  follow it:  fairway logs hello-a -f\n"
            "  end it:     fairway cancel hello-a\n"
        )
    (run,) = store.unsorted()
    assert (run.tags, run.note, _log(store, "hello-a")) == (("t",), "n", "one\n")
    done = send("job.yaml", "--run-id", "hello-a", "-s", "command=true")
    ends(done, 2, "`hello-a` is of another job")
    sent: list[str] = []
    real = __import__("fairway_web.code_upload", fromlist=["Uploads"]).Uploads.keep
    monkeypatch.setattr(
        "fairway_web.code_upload.Uploads.keep", lambda *a: sent.append(a[1]) or real(*a)
    )
    assert send("job.yaml", "--run-id", "hello-b", "-q") == (0, "hello-b\n", "")
    assert len(sent) == 1  # only the list: the pieces exist on the server
    assert not list((store.base / "sent").glob("*/.*"))


def test_submit_to_server_sends_linked_and_empty_folders(
    send: Ask, laptop: Path, store: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "word.txt").write_text("linked\n")
    (laptop / "lib").symlink_to(tmp_path / "lib")
    (laptop / "out" / "deep").mkdir(parents=True)
    words = ("-s", "command=cat lib/word.txt; ls -F out", "--run-id", "hello-a")
    (laptop / "gone").symlink_to("nothing")
    code, _, said = send("job.yaml", *words)
    assert (code, said.count("gone (a link to nothing) [left-out]")) == (0, 1)
    assert _log(store, "hello-a") == "linked\ndeep/\n"


def test_submit_to_server_with_watch_follows_the_job_to_its_end(send: Ask, store: RunStore) -> None:
    words = ["job.yaml", "--watch", "--run-id", "hello-a"]
    code, printed, said = send(*words, "-s", "command=cat word.txt; exit 3")
    assert (code, said) == (3, "")
    begun, log, ended = printed.splitlines()
    assert (begun, log) == ("hello-a runs on local", "one")
    assert ended.startswith("hello-a failed")
    assert ended.endswith(f"its files are in {store.folder / 'hello-a'}")
    code, printed, said = send("job.yaml", "--watch", "--json")
    assert (code, said) == (0, "one\n")
    facts = json.loads(printed)
    assert facts.pop("run_id").startswith("hello-")
    assert facts == {
        "target": "local",
        "tasks": 1,
        "state": "succeeded",
        "exit_code": 0,
        "reason": None,
    }


_STEPS = "name: two\nsteps:\n  a: {command: echo a}\n  b: {command: echo b, after: a}\n"
_MANY = "name: many\ncommand: echo\nparams: {n: 1}\nsweep: {points: {repeat: 1200}}\n"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (JOB, ["--dry-run"]),
        (JOB, ["--dry-run", "--json"]),
        (_STEPS, ["--dry-run"]),
        (_STEPS, ["--dry-run", "--json"]),
        (_MANY, ["--dry-run"]),
        (_MANY, []),
        (JOB, ["--target", "none"]),
        (JOB, ["--target", "a,"]),
        (JOB, ["--run-id", "A B"]),
        (JOB, ["-s", "comand=x"]),
        (JOB, ["-s", "nodes=none"]),
        (JOB, ["-s", "code.path=none"]),
        ("", []),
        ("name: [", []),
        (JOB.replace("command", "comand"), ["--json"]),
        (JOB + "template: none\n", []),
        (JOB, ["-s", "name=b", "-s", "nodes=none"]),
        (JOB + "sweep: {points: {files: 'none/*'}}\nparams: {file: a, name: b, stem: c}\n", []),
        (JOB + "sweep: {points: {files: {input: d}}}\nparams: {file: a, name: b, stem: c}\n", []),
    ],
)
def test_submit_to_server_prints_the_same_as_a_local_submit(
    send: Ask, fairway: RunFairway, laptop: Path, store: RunStore, job: str, words: list[str]
) -> None:
    (laptop / "job.yaml").write_text(job)
    here = fairway(laptop, "submit", "job.yaml", *words)
    there = send("job.yaml", *words)
    if "--target" in words:
        here = (here[0], here[1], here[2].replace(str(laptop), str(store.base.parent)))
    assert there[:2] == here[:2]
    said = re.sub(r"in /\S+/\.code-\w+", f"in {laptop}", there[2])
    assert said == here[2]
    assert here[0] in (0, 2)
    assert not list(store.unsorted())


def test_submit_to_server_refuses_unsupported_options_and_files(send: Ask, laptop: Path) -> None:
    for words, message in (
        ([], "no job is given"),
        (["--resume", "a"], "`fairway submit` has no --resume with --server"),
        (["job.yaml", "-s", "code.path=/etc"], "the folder `/etc` cannot be sent to a server"),
        (["job.yaml", "-s", "code.path={{ name }}"], "cannot be sent to a server"),
        (
            ["job.yaml", "-s", "checkpoint.directory=kept"],
            "would be in the copy of the code that was sent",
        ),
        (
            ["job.yaml", "-s", "sweep={points: {files: '/etc/*'}}"],
            "the pattern `/etc/*` cannot be listed here for a server",
        ),
    ):
        ends(send(*words), 2, message, printed="")


def test_submit_to_server_names_the_server_for_missing_secrets_and_templates(
    send: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORD", raising=False)
    done = send("job.yaml", "-s", "secrets.KEY=env:WORD")
    ends(done, 2, "WORD is not set on the server", "use keyvault:NAME")
    assert "read -rs" not in done[2]
    done = send("job.yaml", "-s", "template=./none.sh.j2")
    ends(done, 2, "there is no template `./none.sh.j2` in the job's folder")
    assert ".fairway" not in done[2]


def test_submit_to_server_refuses_too_much_code_before_sending_it(
    send: Ask, laptop: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code alone would be accepted, but not together with the job's templates."""
    (laptop / "src").mkdir()
    (laptop / "src" / "run.sh").write_text("echo one\n")
    (laptop / "src" / "data.csv").write_text("1\n")
    job = (laptop / "job.yaml").read_text()
    (laptop / "job.yaml").write_text(f"{job}template: mine\ncode: {{path: src}}\n")
    (laptop / "job_templates").mkdir()
    (laptop / "job_templates" / "mine.sh.j2").write_text(
        "{# description: mine #}\nbash -c {{ command }}\n"
    )
    monkeypatch.setattr("fairway_runner.submit.snapshot.MOST_FILES", 2)
    ends(send("job.yaml"), 2, "this is more code than a server accepts")
    assert not list(store.unsorted())


def test_submit_to_server_sends_code_templates_sweep_files_and_git_state(
    send: Ask, laptop: Path, store: RunStore
) -> None:
    for folder in ("jobs/job_templates", "src", "jobs/data", "src/.git", "src/__pycache__"):
        (laptop / folder).mkdir(parents=True)
    (laptop / "src" / ".git" / "config").write_text("")
    executable(laptop / "src" / "run.sh", "echo $1")
    (laptop / "src" / "big.bin").write_bytes(bytes(range(256)) * 9000)
    (laptop / "src" / "skip.me").write_text("x")
    (laptop / "jobs" / "data" / "a.csv").write_text("much")
    (laptop / "jobs" / "job_templates" / "mine.sh.j2").write_text(
        "{# description: mine #}\necho mine\nbash -c {{ command }}\n"
    )
    (laptop / "jobs" / "job.yaml").write_text(
        "name: hello\ntemplate: mine\ncommand: ./run.sh {{ params.file }}; wc -c < big.bin; ls\n"
        "code: {path: ../src, exclude: ['*.me']}\nparams: {file: '', name: '', stem: ''}\n"
        "sweep: {points: {files: 'data/*.csv'}}\n"
    )
    subprocess.run(["git", "init", "-q", str(laptop)], check=True)
    code, _, said = send("jobs/job.yaml", "--run-id", "hello-a")
    assert (code, said) == (0, "")
    assert _log(store, "hello-a").split() == [
        "mine",
        "data/a.csv",
        str(256 * 9000),
        "big.bin",
        "run.sh",
    ]
    facts = json.loads((store.find("hello-a").folder / "provenance.json").read_text())
    assert facts["git"] == {"commit": None, "dirty": True, "untracked": facts["git"]["untracked"]}
    assert "job.yaml" in facts["git"]["untracked"]


def test_submit_to_server_refuses_sweep_files_that_a_later_step_would_miss(
    send: Ask, laptop: Path, store: RunStore
) -> None:
    """When the later step starts, the server has only the snapshot of the code."""
    (laptop / "src").mkdir()
    (laptop / "src" / "a.csv").write_text("")
    job = (
        "name: two\ncode: {path: src}\nsteps:\n  a: {command: cat word.txt}\n  b:\n"
        "    after: {a: ended}\n    command: echo {{ params.file }}\n"
        "    params: {file: '', name: '', stem: ''}\n    sweep: {points: {files: '%s'}}\n"
    )
    (laptop / "job.yaml").write_text(job % "src/*.csv")
    ends(send("job.yaml", "--run-id", "two-a"), 2, "`src/*.csv` matches no file")
    assert not list(store.unsorted())
    (laptop / "job.yaml").write_text((job % "*.csv").replace("code: {path: src}\n", ""))
    (laptop / "a.csv").write_text("")
    assert send("job.yaml", "--run-id", "two-a")[0] == 0
    store.find("two-a").wait()
    assert _log(store, "two-a-b").split() == ["a.csv"]


def test_submit_to_server_says_that_the_server_starts_later_steps(
    send: Ask, laptop: Path, store: RunStore, follower: Follower
) -> None:
    (laptop / "steps.yaml").write_text(
        "name: two\nsteps:\n  a:\n    command: echo accuracy=1 | tee $FAIRWAY_OUTPUT_M/m\n"
        "    outputs: {m: {}}\n  other:\n    after: a\n    command: 'true'\n  b:\n"
        "    after: other\n    inputs: {m: {from: step, step: a}}\n"
        "    command: cat $FAIRWAY_INPUT_M/m\n"
    )
    code, printed, said = send("steps.yaml", "--run-id", "two-a")
    assert (code, said) == (0, "")
    assert "\n  the server has to stay on to begin: b\n" in printed
    store.find("two-a-other").wait()
    for thread in follower.look():
        thread.join()
    assert _log(store, "two-a-b") == "accuracy=1\n"


def test_submit_to_server_that_disconnects_hints_at_resubmission(
    send: Ask, monkeypatch: pytest.MonkeyPatch, store: RunStore
) -> None:
    from fairway_cli.server.client import Server

    real = Server.answer

    def answer(server: Server, method: str, path: str, *rest: Any, **more: Any) -> Any:
        if path == "/runs":
            raise server.away(ConnectionResetError(104, "Connection reset by peer"))
        return real(server, method, path, *rest, **more)

    monkeypatch.setattr(Server, "answer", answer)
    hint = "submit it again with --run-id hello-a: nothing starts twice"
    ends(send("job.yaml", "--run-id", "hello-a"), 5, "hello-a may have been started", hint)


def test_submit_to_server_refuses_code_that_changes_while_it_is_sent(
    send: Ask, laptop: Path, monkeypatch: pytest.MonkeyPatch, store: RunStore
) -> None:
    from fairway_cli.server.client import Server
    from fairway_runner.submit.code_upload import CodeUpload

    real, change = Server.post, lambda: (laptop / "word.txt").write_text("two\n")

    def post(server: Server, path: str, *rest: Any) -> Any:
        if path == "/code":
            change()
        return real(server, path, *rest)

    monkeypatch.setattr(Server, "post", post)
    assert "the code changed while it was sent" in send("job.yaml")[2]
    change = lambda: (laptop / "word.txt").write_text("three\n")  # noqa: E731
    ends(send("job.yaml"), 2, "word.txt changed while it was read")
    listed = CodeUpload.of

    def gone(job_file: Any) -> CodeUpload:
        found = listed(job_file)
        (laptop / "word.txt").unlink()
        return found

    monkeypatch.setattr(CodeUpload, "of", gone)
    assert "word.txt: No such file or directory" in send("job.yaml")[2]
    assert not list(store.unsorted())

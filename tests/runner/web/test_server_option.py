"""Commands with `--server URL`: the output and exit codes of the commands on the server."""

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endings import ends
from running import MakeRun, RunFairway
from serving import Handler, serving

from fairway_runner.runs.store import Run, RunRecord, RunStore
from fairway_web.server import on_loopback

Ask = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.integration

_LOG = "step 1\nloss=0.5\n\x1b[1mbold\x1b[0m \xff\n"


@pytest.fixture
def runs(make_run: MakeRun) -> list[Run]:
    tasks: list[dict[str, Any]] = [
        {"params": {"lr": 1}, "log": "loss=0.5\n", "kept": {"best": "of 0"}},
        {"params": {"lr": 2}, "log": "loss=0.25\nlast", "kept": {"best": "of 1"}},
    ]
    tasks[1] |= {"state": "failed", "exit_code": 7}
    model = {"model/a b.bin": [b"\xff" * 3000]}
    first = make_run("job-a", [{"log": _LOG, "kept": model}], metrics={"loss": "loss=(.*)"})
    kept = first.task_folder(0) / "outputs"
    (kept / "model" / "a b.bin").chmod(0o600)
    (kept / "last").mkdir()
    (kept / "last" / "newest").symlink_to("../model")
    (kept / "gone").symlink_to("nowhere")
    sweep = make_run("sweep-b", tasks, "failed", created=2e9, metrics={"loss": "loss=(.*)"})
    for task in (0, 1):
        (sweep.task_folder(task) / "outputs" / "best").chmod(0o500)
    return [
        first,
        sweep,
        make_run("sweep-c", [{"state": "cancelled"}], "cancelled", created=3e9, target="nd"),
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["list", "--json", "--limit", "2"],
        ["list", "--state", "failed", "--state", "cancelled", "--json"],
        ["list", "--columns", "metric:loss,param:lr", "--sort", "metric:loss", "--reverse"],
        ["list", "--columns", "metric:los"],
        ["list", "--sort", "name", "--json", "--limit", "1"],
        ["list", "--since", "1d"],
        ["list", "--name", "none"],
        ["list", "--text", "JOB-"],
        ["list", "--target", "nd"],
        ["list", "--watch", "--json"],
        ["list", "--state", "odd"],
        ["show", "job"],
        ["show", "sweep-b"],
        ["show", "sweep-b", "--failed", "--limit", "1"],
        ["show", "sweep-b", "--json"],
        ["show", "sweep"],
        ["logs", "job-a"],
        ["logs", "sweep-b", "--follow"],
        ["logs", "job-a", "--follow", "--tail", "1"],
        ["logs", "sweep-b", "--task", "1", "--json"],
        ["logs", "sweep-b", "--grep", "loss", "--tail", "1"],
        ["logs", "sweep-b", "--grep", "("],
        ["logs", "job-a", "--attempt", "1"],
        ["logs", "sweep-b", "--rank", "0"],
        ["logs", "sweep-b", "--rank", "3"],
        ["logs", "sweep-b", "--task", "9"],
        ["wait", "job-a", "sweep-b"],
        ["wait", "sweep-b", "job-a", "--json"],
        ["wait", "sweep-c"],
        ["fetch", "sweep-b", "--task", "1", "--to", "{to}"],
        ["fetch", "job-a", "--to", "{to}", "--json"],
        ["cancel", "job-a"],
        ["cancel", "job-a", "sweep-c", "--json"],
        ["cancel", "sweep-b", "--task", "1", "--json"],
    ],
    ids=" ".join,
)
def test_server_option_gives_the_same_output_as_on_the_server(
    ask: Ask, here: RunFairway, runs: list[Run], store: RunStore, words: list[str]
) -> None:
    to = store.base.parent / "kept"
    words = [each.format(to=to) for each in words]
    there = here(*words)
    fetched = _tree(to)
    shutil.rmtree(to, ignore_errors=True)
    assert ask(*words) == there
    assert there[0] in (0, 2, 7, 130)
    assert fetched == _tree(to)


def _tree(folder: Path) -> dict[str, object]:
    """Returns the files below a folder, with their bytes and modes, and the links to no files."""
    return {
        each.name: (each.read_bytes(), each.stat().st_mode) if each.is_file() else each.readlink()
        for each in folder.rglob("*")
        if each.is_file() or each.is_symlink()
    }


def test_server_option_fetches_files_within_the_umask(
    ask: Ask, runs: list[Run], tmp_path: Path
) -> None:
    best = runs[1].task_folder(1) / "outputs" / "best"
    best.chmod(0o777)
    ends(ask("fetch", "sweep-b", "--task", "1", "--to", str(tmp_path / "kept")), 0)
    umask = os.umask(0o022)
    os.umask(umask)
    (kept,) = (each for each in (tmp_path / "kept").rglob("best"))
    assert kept.stat().st_mode & 0o777 == 0o755 & ~umask


def test_server_option_refuses_unknown_runs_and_commands(ask: Ask, runs: list[Run]) -> None:
    for words in (
        ["show", "none"],
        ["logs", "none"],
        ["wait", "none"],
        ["cancel", "../a"],
        ["show", ".."],
        ["show", ""],
    ):
        ends(ask(*words), 2, f"there is no run `{words[1]}`", printed="")
    hint = "leave --server out; these work with it: list, show, logs, fetch, submit, wait, cancel"
    ends(ask("rerun", "job-a"), 2, "`fairway rerun` does not work with --server", hint)


def test_server_option_wait_ends_with_its_timeout(ask: Ask, make_run: MakeRun) -> None:
    make_run("job-a", [{"state": "running"}], "running", engine="none-such")
    done = ask("wait", "job-a", "--timeout", "0.1s")
    ends(done, 5, "job-a is still running after 0.1s")
    assert "does not answer" not in done[2]


def test_server_variable_applies_only_to_commands_that_servers_support(
    url: str, runs: list[Run], fairway: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_SERVER", url)
    code, printed, _ = fairway(tmp_path.parent, "show", "job-a", "--json")
    assert code == 0
    assert json.loads(printed)["run_id"] == "job-a"
    assert fairway(tmp_path, "templates")[0] == 0


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://example.com", "http://example.com would send the token unencrypted"),
        ("http://127.0.0.1.example.com", "would send the token unencrypted"),
        ("", "is not the URL of a server"),
        ("ftp://127.0.0.1", "is not the URL of a server"),
        ("127.0.0.1:80", "is not the URL of a server"),
        ("https://", "is not the URL of a server"),
        ("https://a b", "is not the URL of a server"),
        ("https://h/a b", "is not the URL of a server"),
        ("https://h/é", "is not the URL of a server"),
        (f"https://{'a' * 64}.example", "is not the URL of a server"),
        ("https://h:port", "is not the URL of a server"),
        ("https://me:secret@host", "`--server …` is not the URL of a server"),
        ("https://host?token=secret", "`--server …` is not the URL of a server"),
    ],
)
def test_server_option_refuses_invalid_and_unencrypted_urls(
    here: RunFairway, url: str, message: str
) -> None:
    ends(done := here("--server", url, "list"), 2, message)
    assert "secret" not in done[2]


def test_server_option_reads_the_token_from_environment_file_or_record(
    url: str,
    runs: list[Run],
    fairway: RunFairway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: RunStore,
) -> None:
    token = os.environ["FAIRWAY_SERVER_TOKEN"]
    monkeypatch.delenv("FAIRWAY_SERVER_TOKEN")
    words = ["--server", url, "show", "job-a"]
    ends(fairway(tmp_path.parent, *words), 2, f"there is no token for {url}")
    record = store.base / "serve.json"
    record.write_text(json.dumps({"url": url, "token": token}))
    assert fairway(tmp_path, *words)[0] == 0
    record.write_text(json.dumps({"url": "http://localhost", "token": token}))
    ends(fairway(tmp_path, *words), 2, f"there is no token for {url}")
    assert "there is no token" in fairway(tmp_path, "--server", "http://localhost", "list")[2]
    record.write_text("[]")
    assert fairway(tmp_path, *words)[0] == 2
    file = tmp_path / "token"
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN_FILE", str(file))
    assert f"{file}: No such file" in fairway(tmp_path, *words)[2]
    file.write_bytes(b"\xff")
    assert f"{file}: it is not text" in fairway(tmp_path, *words)[2]
    file.write_text("two words")
    assert f"{file} has no token: one line" in fairway(tmp_path, *words)[2]
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN_FILE", "/dev/zero")
    assert "/dev/zero has no token" in fairway(tmp_path, *words)[2]
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN_FILE", str(file))
    file.write_text(f"{token}\n")
    assert fairway(tmp_path, *words)[0] == 0
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN", "wrong")
    ends(fairway(tmp_path, *words), 2, "this is not the token of this server")


@pytest.fixture
def ask_strange(fairway: RunFairway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Returns a function that runs a command against a server with this handler."""
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN", "t")

    def ask(handler: type[Handler], *words: str) -> tuple[int, str, str]:
        with serving(handler) as url:
            return fairway(tmp_path, "--server", url, *words)

    return ask


def _stub(status: int, body: bytes, **headers: str) -> type[Handler]:
    class Stub(Handler):
        def do_GET(self) -> None:
            self.answer(body, status, **headers)

    return Stub


_JSON = {"Content_Type": "application/json"}
_BAD_TOKEN = b'{"findings": [{"id": "bad-token", "message": "another"}]}'
_ODD = json.dumps({"run_id": "a\x1b[2J", "target": 1, "state": "odd", "exit_code": "x"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "headers", "message"),
    [
        (200, b"<html>", {"Content_Type": "text/html"}, "its answer is text/html"),
        (
            302,
            b"",
            {"Location": "https://evil.example/"},
            "it redirects elsewhere, with status 302",
        ),
        (500, b"oh", {"Content_Type": "text/plain"}, "status 500, text/plain"),
        (200, b"[]", _JSON, "its answer is not what was asked for"),
        (200, b"[" * 100_000, _JSON, "its answer is application/json"),
        (200, _ODD, _JSON, "its answer is not what was asked for"),
        (
            404,
            b'{"findings": [{"id": "no-such-page", "message": "Not Found"}]}',
            _JSON,
            "is older than this program: it has no GET /runs/job-a/records",
        ),
        (
            502,
            b'{"findings": [{"id": "a\\u001b[2J", "message": "\\u001b[2J", "hint": "\\u001b[2J"}]}',
            _JSON,
            "[a\ufffd[2J]",
        ),
        (400, b'{"findings": [1]}', _JSON, "status 400, application/json"),
    ],
)
def test_server_option_reports_answers_of_a_foreign_server(
    ask_strange: Ask, status: int, body: bytes, headers: dict[str, str], message: str
) -> None:
    done = ask_strange(_stub(status, body, **headers), "show", "job-a")
    ends(done, 5, message, printed="")
    assert "\x1b" not in done[2]


class _Endless(Handler):
    """A server whose answers never end."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/records"):
            self.answer(json.dumps(_RECORDS).encode())
        elif path.endswith("/log"):
            self.answer(b"x")
        else:
            self.answer(b"[{}]", Findings="[]", Link='</api/v1/runs?x=y>; rel="next"')


_RUN = RunRecord("job-a", "job", "local", 1e9, tasks=1, job_file="job.yaml", fairway="0")
_FILES = {
    "run.json": json.dumps(_RUN.to_json()),
    "state.json": '{"state": "running"}',
    "tasks.jsonl": '{"index": 0, "params": {}, "script": "true"}\n',
}
_FOLDER = {"folder": "/there", "last_known": 1e9, "files": _FILES, "logs": {"0": 1 << 50}}
_RECORDS = {"since": 1, "runs": {"job-a": _FOLDER}}


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (["list"], "store._MOST_PAGES"),
        (["logs", "job-a"], "store._MOST_BYTES"),
        (["logs", "job-a", "-f"], "store._MOST_BYTES"),
        (["show", "job-a"], "client._LARGEST"),
    ],
)
def test_server_option_limits_answers_that_never_end(
    ask_strange: Ask, monkeypatch: pytest.MonkeyPatch, words: list[str], limit: str
) -> None:
    monkeypatch.setattr(f"fairway_cli.server.{limit}", 20)
    ends(ask_strange(_Endless, *words), 5, "its answer does not end")


@pytest.mark.parametrize(
    ("run_id", "folder"),
    [
        ("../a", _FOLDER),
        ("job-a", {**_FOLDER, "files": {"../a.json": ""}}),
        ("job-a", {**_FOLDER, "files": {"/tmp/a.json": ""}}),
        ("job-a", {**_FOLDER, "files": {"tasks/0/launch.sh": ""}}),
        ("job-a", {**_FOLDER, "files": {"run.json": 7}}),
        ("job-a", {**_FOLDER, "logs": {"../0": 5}}),
    ],
)
def test_server_option_refuses_records_that_lead_out_of_their_folder(
    ask_strange: Ask,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_id: str,
    folder: dict[str, Any],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    body = json.dumps({"since": 1, "runs": {run_id: folder}}).encode()
    ends(ask_strange(_stub(200, body, **_JSON), "logs", "job-a"), 5, "[strange-server]")
    assert not list(tmp_path.rglob("*.json"))
    assert not list(tmp_path.rglob("*.sh"))


@pytest.mark.parametrize(
    "listed",
    [
        [("0/m", "../../..")],
        [("0/m", "/tmp")],
        [("0/m", "d/l/.."), ("0/d/l", ".."), ("0/m/x/y", None)],
        [("0/m", "d/l/.."), ("0/d/l", ".."), ("0/m/x", "outputs/y")],  # a link outside, back in
        [("0/d/../m", None)],
        [("/0/m", None)],
    ],
)
def test_server_option_fetch_refuses_outputs_that_lead_out_of_their_folder(
    ask_strange: Ask, tmp_path: Path, listed: list[tuple[str, str | None]]
) -> None:
    done = ask_strange(_listing(listed), "fetch", "job-a", "--to", str(tmp_path / "to"))
    ends(done, 5, "[strange-server]")


def test_server_option_fetch_accepts_a_link_that_is_listed_twice(
    ask_strange: Ask, tmp_path: Path
) -> None:
    """An output may be added before the link while the pages are read."""
    twice = [("0/l", "m"), ("0/l", "m"), ("0/m/x", None)]
    done = ask_strange(_listing(twice), "fetch", "job-a", "--to", str(tmp_path / "to"))
    ends(done, 0)
    assert (tmp_path / "to" / "0" / "l" / "x").read_text() == "x"


def _listing(listed: list[tuple[str, str | None]]) -> type[Handler]:
    """Returns a server with a run that has these outputs: the link of each, or None for a file."""

    class Linked(Handler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path.endswith("/records"):
                self.answer_json({"since": 1, "runs": {"job-a": {**_FOLDER, "logs": {}}}})
            elif path.endswith("/outputs"):
                found = [{"path": name, "size": 0, "link": link} for name, link in listed]
                self.answer(json.dumps(found if query == "from=0" else []).encode())
            else:
                self.answer(b"x")

    return Linked


def test_server_option_wait_reads_the_token_of_a_restarted_server_again(
    ask_strange: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, said, begun = tmp_path / "token", list[str](), list[str]()

    class Restarted(Handler):
        def do_GET(self) -> None:
            begun.append(self.headers["Authorization"])
            if len(begun) == 2:  # its file is behind
                self.answer(_BAD_TOKEN, 401, **_JSON)
                return
            if len(begun) == 1:
                file.unlink()
            state = json.dumps({"state": "running" if len(begun) == 1 else "succeeded"})
            folder = {**_FOLDER, "logs": {}, "files": {**_FILES, "state.json": state}}
            self.answer_json({"since": 1, "runs": {"job-a": folder}})

    def warn(_: str, message: str, *_more: object) -> None:
        said.append(message)
        file.write_text("new")

    monkeypatch.setattr("fairway_runner.engines.outage.warn", warn)
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN_FILE", str(file))
    monkeypatch.delenv("FAIRWAY_SERVER_TOKEN")
    file.write_text("old")
    ends(ask_strange(Restarted, "wait", "job-a"), 0, printed="job-a succeeded\n")
    assert begun == ["Bearer old", "Bearer new", "Bearer new"]
    assert said == [f"{file}: No such file or directory"]
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN", "old")
    file.touch()
    begun.clear()
    ends(ask_strange(Restarted, "wait", "job-a"), 2, "[bad-token]")


class _Dripping(Handler):
    """A server that sends one more byte forever, in the part of the answer that `kind` names."""

    kind = ""

    def do_GET(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        first, again = {
            "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            "status": (b"HTTP/1.1 ", b"2"),
            "headers": (head, b"X: y\r\n"),
            "body": (head + b"\r\n", b" "),
            "chunks": (head + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        }[self.kind]
        with contextlib.suppress(OSError):
            self.wfile.write(first)
            while True:
                self.wfile.write(again)
                self.pause.wait(0.01)

    pause = threading.Event()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        *((each, ["list"]) for each in ("continue", "status", "headers", "body", "chunks")),
        *((each, ["logs", "job-a"]) for each in ("continue", "body")),
    ],
)
def test_server_option_ends_a_dripping_answer_at_the_deadline(
    ask_strange: Ask, monkeypatch: pytest.MonkeyPatch, kind: str, words: list[str]
) -> None:
    monkeypatch.setattr("fairway_cli.server.client._PATIENCE", 0.5)
    monkeypatch.setattr(_Dripping, "kind", kind)
    done = ask_strange(_Dripping, *words, "--deadline", "1s")
    ends(done, 5, "[service-away]", "its answer did not end within 1 s")


def test_server_option_wait_for_a_silent_server_ends_with_its_timeout(
    ask_strange: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_runner.engines.outage.LEAST", 0.2)
    monkeypatch.setattr(_Dripping, "kind", "body")
    done = ask_strange(_Dripping, "wait", "job-a", "--timeout", "0.1s")
    ends(done, 5, "its answer did not end within 0.2 s")


def test_server_option_reports_a_server_that_does_not_answer(
    here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN", "t")
    address = on_loopback(0)
    address.listener.close()
    done = here("--server", address.url, "list")
    ends(done, 5, f"{address.url} does not answer: Connection refused")

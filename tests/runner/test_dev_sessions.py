"""Sessions as runs: their jobs, which runs are sessions, and what the command refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import MakeRun, RunFairway
from targets import target_of

from fairway_core.findings import UserError
from fairway_core.target import Target
from fairway_runner.dev_sessions import (
    SessionAccess,
    SessionRequest,
    begin,
    chosen,
    has_jupyter,
    is_session,
    look,
    session_job,
)
from fairway_runner.dev_sync import SessionExec
from fairway_runner.runs.store import Run, RunStore
from fairway_runner.runs.view import run_facts

HERE = Target.local()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own folder as the current folder and the parent of the home directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def _job(**fields: Any) -> str:
    Path("job.yaml").write_text(json.dumps({"name": "train", "command": "true", **fields}))
    return "job.yaml"


def _session(make_run: MakeRun, name: str, state: str = "running", **facts: Any) -> Run:
    run = make_run(name, [{"state": state, **facts}], state=state)
    job = {"template": "dev", "options": {"idle": 1800}, "timeout": 14400.0}
    (run.folder / "job.json").write_text(json.dumps(job))
    return run


class TestJob:
    """The job of a session."""

    def test_dev_session_job_is_named_dev_or_after_the_given_job(self) -> None:
        job = session_job(SessionRequest(nodes=2), HERE).resolve(HERE)
        assert (job.name, job.template, job.nodes) == ("dev", "dev", 2)
        assert (job.timeout, job.options) == (14400.0, {"idle": 1800})
        job = session_job(SessionRequest(_job(name="a" * 35 + "-bcde")), HERE).resolve(HERE)
        assert job.name == "dev-" + "a" * 35
        for seconds, timeout in ((8784 * 3600.0, 31622400.0), (4444.4444, 4444.444), (1e-9, 0.001)):
            assert (
                session_job(SessionRequest(seconds=seconds), HERE).resolve(HERE).timeout == timeout
            )

    def test_dev_session_job_has_the_environment_of_the_given_job_only(self) -> None:
        """Retries, sweeps, metrics and the like of the given job are dropped."""
        params = {"lr": 0.1, "text": "é 😀 \u2028 \x7f"}
        fields = {
            "env": {"RATE": "{{ params.lr }}", "TEXT": "{{ params.text }}"},
            "params": params,
            "container": {"image": "train:1"},
            "setup": "make",
            "outputs": {"model": {}},
            "template": "torchrun",
            "options": {"rendezvous": "static"},
            "retries": 3,
            "max_duration": "9h",
            "idle_gpu": {"below": 5, "for": "30m"},
            "after": ["other-run"],
            "finally": {"command": "false"},
            "metrics": {"loss": "loss=([0-9.]+)"},
            "sweep": {"points": [{"grid": {"lr": [0.5, 0.7]}}]},
        }
        wanted = SessionRequest(_job(**fields), ["nodes=3"], seconds=1.8, idle=0.2, jupyter=True)
        job = session_job(wanted, HERE).resolve(HERE)
        assert (job.name, job.template, job.nodes) == ("dev-train", "dev", 3)
        assert job.env == {"RATE": "0.5", "TEXT": params["text"]}
        assert job.container is not None
        assert (job.setup, list(job.outputs)) == ("make", ["model"])
        assert (job.timeout, job.options) == (1.8, {"idle": 1, "jupyter": True})
        assert (job.retries, job.max_duration, job.after, job.metrics) == (0, None, (), {})
        assert (job.finally_, job.sweep, job.idle_gpu) == (None, None, None)

    def test_dev_session_job_error_names_the_job_file(self) -> None:
        finding = refused(lambda: session_job(SessionRequest(_job(comand="x")), HERE), "comand")
        assert finding.location.file.endswith("job.yaml")


def test_dev_session_of_several_nodes_on_batch_is_refused(store: RunStore) -> None:
    with pytest.raises(UserError, match="a session on `pool` has one node: its engine is `batch`"):
        begin(SessionRequest(nodes=2), target_of("batch", name="pool"), store)


class TestRuns:
    """Choice of a session among the runs."""

    def test_dev_session_is_chosen_if_it_is_the_only_one_and_named_otherwise(
        self, make_run: MakeRun, store: RunStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_run("job-a", [{"state": "running"}], state="running")
        refused(lambda: chosen(store, None), "no session is running in")
        _session(make_run, "dev-old", state="cancelled")
        refused(lambda: chosen(store, None), "no session is running in")
        said = "job-a is not a session of `fairway dev`"
        hint = refused(lambda: chosen(store, "job-a"), said).hint
        assert hint == "end it with: fairway cancel job-a"
        assert chosen(store, "dev-o").id == "dev-old"
        found = [_session(make_run, name) for name in ("dev-a", "dev-b")]
        monkeypatch.setattr("fairway_runner.dev_sessions.active_sessions", lambda _: (found, []))
        finding = refused(lambda: chosen(store, None), "2 sessions are running: dev-a, dev-b")
        assert finding.hint == "name one: fairway dev stop dev-b"

    def test_dev_session_needs_a_readable_job_and_exit_code_124_is_reported_as_unused(
        self, make_run: MakeRun
    ) -> None:
        run = _session(make_run, "dev-a")
        assert is_session(run)
        assert not has_jupyter(run)
        (run.folder / "job.json").write_text("{")
        assert not is_session(run)
        # Not every backend can tell a timeout from a script that exits with 124.
        run = _session(make_run, "dev-c", "failed", exit_code=124, started=1e9, ended=1e9 + 2000)
        assert run_facts(run)["reason"] == "unused for 30m00s"
        run = _session(make_run, "dev-d", "failed", exit_code=7)
        assert run_facts(run)["reason"] is None


class TestCommand:
    """Command lines that `fairway dev` refuses."""

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["nowhere"], "there is no target `nowhere`"),
            (["lsit"], "did you mean `fairway dev list`?"),
            (["lcal"], "did you mean `local`?"),
            (["local", "--hours", "0"], "--hours: 0 is not a valid length of a session"),
            (["local", "--hours", "-1"], "--hours: -1 is not a valid length of a session"),
            (["local", "--hours", "nan"], "--hours: nan is not a valid length of a session"),
            (["local", "--hours", "1e9"], "--hours: 1e+09 is not a valid length of a session"),
            (["local", "--idle", "soon"], "--idle: "),
            (["local", "--json"], "--json needs --detach"),
            (["local", "--job", "none.yaml"], "none.yaml"),
            (["local", "--nodes", "0"], "--nodes"),
            (["stop", "dev-none"], "there is no run `dev-none`"),
            (["stop"], "no session is running in"),
            (["connect", "dev-none"], "there is no run `dev-none`"),
            (["local", "more"], "more"),
        ],
    )
    def test_dev_command_refuses_wrong_arguments(
        self, here: RunFairway, tmp_path: Path, words: list[str], said: str
    ) -> None:
        code, out, errors = here("dev", *words)
        assert (code, out) == (2, "")
        assert said in errors
        assert "Traceback" not in errors
        assert not (tmp_path / "home").exists()

    def test_dev_list_prints_no_sessions_and_typos_suggest_commands_or_targets(
        self, here: RunFairway, tmp_path: Path
    ) -> None:
        code, out, _ = here("dev", "list")
        assert (code, out) == (0, "no session is running; start one with: fairway dev TARGET\n")
        assert here("dev", "list", "--json")[1] == "[]\n"
        damaged = tmp_path / ".fairway" / "runs" / "job-222222"
        damaged.mkdir(parents=True)
        (damaged / "run.json").write_text("{")
        assert here("dev", "list", "--json") == (0, "[]\n", "")
        code, out, _ = here("dev", "--help")
        assert code == 0
        assert "connect" not in out
        ssh = "ssh: {host: h, user: u, shared: /data}"
        lust = f"{{name: lust, engine: ssh, nodes: {{min: 1, max: 1}}, {ssh}}}"
        (tmp_path / "fairway.yaml").write_text(f"targets: [{lust}]\n")
        done = here("dev", "lsit")
        ends(done, 2, "did you mean `fairway dev list`, or the target `lust`?", printed="")
        job = _job(container={"image": "train:1"})
        words = ["local", "--job", job, "--nodes", "2", "--jupyter"]
        ends(here("dev", *words), 2, "Jupyter is not started in containers on several nodes")


class Says(SessionExec):
    """A session with a given answer."""

    said = ""

    def ask(self, *_: Any, **__: Any) -> str:
        """Returns `said`, in place of the session's answer."""
        return self.said


def _look(make_run: MakeRun, said: str) -> SessionAccess | None:
    session = Says(make_run(f"dev-{abs(hash(said)):x}"[:20]), ["fairway"])
    object.__setattr__(session, "said", said)
    return look(session)


def test_dev_session_access_is_read_from_its_output(make_run: MakeRun) -> None:
    said = "motd\n\nfairway-user=me\n\nfairway-folder=/data/a b\n\n"
    said += "fairway-port=\n\nfairway-token=\n"
    assert _look(make_run, said) == SessionAccess("me", "/data/a b", None)
    assert _look(make_run, "motd\n\nfairway-begun=no\n") is None
    token = "0f" * 24
    with_port = said.replace("port=", "port=10080").replace("token=", f"token={token}")
    found = _look(make_run, with_port)
    assert (found.port, found.token) == (10080, token)
    assert token not in repr(found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("user=me", "user=-oProxyCommand=x"),
        ("user=me", "user=a b"),
        ("user=me", "user="),
        ("folder=/data", "folder=data"),
        ("folder=/data", "folder="),
        ("folder=/data", "folder=/da\x1b[2Jta"),
        ("port=", "port=70000"),
        ("port=", "port=1;x"),
        ("token=", "token=x\x1b]0;"),
        ("fairway-user", "other-user"),
    ],
)
def test_dev_session_access_with_malformed_values_is_refused(
    make_run: MakeRun, before: str, after: str
) -> None:
    said = "fairway-user=me\nfairway-folder=/data\nfairway-port=\nfairway-token=\n"
    with pytest.raises(UserError, match="does not report its user and folder"):
        _look(make_run, said.replace(before, after))

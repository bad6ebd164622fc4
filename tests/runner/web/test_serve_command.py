"""The command `fairway serve`, alone and behind a proxy: its address and its sign-in."""

import json
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from endings import ends, refused
from entra import AUDIENCE, TENANT, Entra
from running import MakeRun, RunFairway
from served import serve
from serving import Handler, serving
from starlette.testclient import TestClient

from fairway_cli.commands import serve as serve_command
from fairway_runner.runs.store import RunStore
from fairway_simulator.certificate import serve_as_localhost
from fairway_web.auth import ByToken, RequestDenied, SigningKeys
from fairway_web.server import Address, _recorded, on_loopback, socket_file

pytestmark = pytest.mark.integration


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[TestClient], object]], None]:
    """Makes `fairway serve` pass its application to a function, and end, instead of serving it."""
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def instead(look: Callable[[TestClient], object]) -> None:
        def run(server: Any, sockets: list[socket.socket]) -> None:
            look(TestClient(server.config.app, "http://localhost"))

        monkeypatch.setattr("uvicorn.Server.run", run)

    return instead


def get(url: str, token: str, **headers: str) -> str:
    headers["Authorization"] = f"Bearer {token}"
    with urlopen(Request(url, headers=headers)) as answer:
        text: str = answer.read().decode()
    return text


def test_serve_command_answers_until_ctrl_c_ends_it(project: Path, make_run: MakeRun) -> None:
    make_run("job-a")
    record = project / ".fairway" / "serve.json"
    with serve(project) as (process, said):
        known = json.loads(record.read_text())
        assert said == f"ready: open {known['url']}/login?token={known['token']}\n"
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        assert known["url"].startswith("http://127.0.0.1:")
        assert json.loads(get(f"{known['url']}/api/v1/runs/job-a", known["token"]))
        with pytest.raises(HTTPError, match="401"):
            get(f"{known['url']}/", "wrong")
        process.send_signal(signal.SIGINT)
        process.wait()
        assert process.stdout.read() == ""
    assert process.returncode == 130
    assert not record.exists()


@pytest.mark.parametrize(
    ("left", "stays"),
    [
        (f'{{"pid": {os.getppid()}}}', True),  # of another server that still runs
        *((f'{{"pid": {pid}}}', False) for pid in ("0", '"1"', "1e999", 99_999_999, 10**30)),
        *((each, False) for each in ("[]", "{")),
    ],
    ids=["of-another", *"abcdefg"],
)
def test_serve_record_of_a_running_server_is_restored_and_a_stale_one_is_not(
    store: RunStore, left: str, stays: bool
) -> None:
    record = store.base / "serve.json"
    record.parent.mkdir()
    record.write_text(left)
    with on_loopback(0).listener as listener:
        address = Address(listener, "http://127.0.0.1:1", ByToken((), "c"))
        with _recorded(store, address):
            assert json.loads(record.read_text())["pid"] == os.getpid()
        assert (record.exists() and record.read_text() == left) is stays
        with _recorded(store, address):
            record.write_text("{}")  # the record of a server that started later
        assert record.read_text() == "{}"


def test_serve_streams_log_lines_at_once_until_it_ends(project: Path, make_run: MakeRun) -> None:
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")
    record = project / ".fairway" / "serve.json"
    with serve(project) as (process, _):
        known = json.loads(record.read_text())
        headers = {"Authorization": f"Bearer {known['token']}", "Accept": "text/event-stream"}
        address = f"{known['url']}/api/v1/runs/job-a/log"
        with urlopen(Request(address, headers=headers)) as events:
            assert [events.readline() for _ in range(3)][1] == b'data: "one\\n"\n'
            with run.log(0).open("a") as log:
                log.write("two\nthr")
            assert [events.readline() for _ in range(3)][1] == b'data: "two\\n"\n'
            process.terminate()
            process.wait()
    assert process.returncode == 143
    assert not record.exists()


HOST = "runs.example.org"
URL = f"https://{HOST}"
OPTIONS = ("--public-url", URL, "--tenant", TENANT, "--audience", AUDIENCE)


@pytest.mark.parametrize(
    ("options", "mode", "said"),
    [
        ((), 0o600, "; the token is in "),
        (("--behind-proxy", *OPTIONS), 0o660, f" for the proxy of {URL}\n"),
    ],
)
def test_serve_socket_has_the_mode_for_owner_or_proxy_and_accepts_any_port(
    project: Path, fairway: RunFairway, in_place: Any, options: list[str], mode: int, said: str
) -> None:
    path = project / "page.sock"
    with socket_file(path):
        pass  # leaves a socket where nobody listens
    seen: list[int] = []

    def look(client: TestClient) -> None:
        hosts = ("localhost", "LocalHost:1234", "127.0.0.1", "x.io:1234")
        found = (client.get("/healthz", headers={"Host": host}) for host in hosts)
        seen.extend([stat.S_IMODE(path.stat().st_mode), *(each.status_code for each in found)])

    in_place(look)
    code, printed, _ = fairway(project, "serve", "--socket", str(path), *options)
    assert (code, seen) == (0, [mode, 200, 200, 200, 421])
    assert printed.startswith(f"ready: listening on {path}{said}")


@pytest.mark.parametrize(
    ("family", "option", "says"),
    [
        (socket.AF_UNIX, "--socket", "{}: the socket cannot be made"),
        (socket.AF_INET, "--port", "port {} cannot be used: Address already in use"),
    ],
)
def test_serve_command_refuses_a_socket_or_port_that_is_in_use(
    project: Path, fairway: RunFairway, family: int, option: str, says: str
) -> None:
    with socket.socket(family) as other:
        other.bind(("127.0.0.1", 0) if option == "--port" else str(project / "s"))
        other.listen(1)
        taken = str(other.getsockname()[1] if option == "--port" else other.getsockname())
        done = fairway(project, "serve", option, taken)
    ends(done, 2, says.format(taken), "choose another ", f"with {option}")


def test_serve_command_without_its_extra_hints_at_what_to_install(
    project: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway_cli.commands.serve.find_spec", lambda _: None)
    done = fairway(project, "serve")
    ends(done, 4, "`fairway serve` needs fastapi, starlette, uvicorn, jwt", "'pyjwt>=2.14,<3'")


def test_serve_command_opens_a_private_page_with_a_code_in_the_browser(
    project: Path, fairway: RunFairway, in_place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody can read the command line of a browser."""
    opened: queue.Queue[str] = queue.Queue()
    pages: list[tuple[int, str]] = []
    monkeypatch.setattr("webbrowser.open", opened.put)

    def look(_: TestClient) -> None:
        page = Path(opened.get().removeprefix("file://"))
        pages.append((stat.S_IMODE(page.stat().st_mode), page.read_text()))

    for name in serve_command._ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    in_place(look)
    code, printed, _ = fairway(project, "serve", "--open")
    assert code == 0
    address, _, token = printed.removeprefix("ready: open ").strip().partition("/login?token=")
    ((mode, text),) = pages
    assert mode == 0o600
    assert f"url={address}/login?code=" in text
    assert token not in text
    left = {each.name for each in (project / ".fairway").iterdir()}
    assert left == {".gitignore", "runs"}
    in_place(lambda _: None)
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")  # which opens no file of ours
    assert fairway(project, "serve", "--open")[0] == 0
    assert opened.empty()
    with closing(on_loopback(0).listener) as listener:
        address = Address(listener, "http://127.0.0.1:1", ByToken(set(), "fairway"))
        page = address.open_page(project / "none")
        assert refused(page.__enter__).id == "unwritable-folder"


def test_serve_restart_after_a_kill_loses_and_repeats_no_log_line(
    project: Path, make_run: MakeRun
) -> None:
    """The reader asks the next server from the offset where it stopped."""
    run = make_run("job-a", [{"log": "one\n", "state": "running"}], "running", engine="none-such")

    def add(text: str) -> None:
        with run.log(0).open("a") as log:
            log.write(text)

    with serve(project) as (first, _):
        url = json.loads((project / ".fairway" / "serve.json").read_text())["url"]
        words = ["--server", url, "logs", "job-a", "--follow"]
        reader = subprocess.Popen(
            [sys.executable, "-m", "fairway_cli.entry", *words],
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout.readline() == "one\n"
        add("two\nthr")
        assert reader.stdout.readline() == "two\n"
        first.kill()
        first.wait()
        assert any("does not answer" in line for line in reader.stderr)
    add("ee\nfour\n")
    with serve(project, "--port", url.rpartition(":")[2]):
        assert [reader.stdout.readline() for _ in range(2)] == ["three\n", "four\n"]
        add("five")
        (run.folder / "new").write_text(json.dumps({"state": "succeeded"}))
        (run.folder / "new").rename(run.folder / "state.json")
        assert reader.communicate() == ("five", "")
    assert reader.returncode == 0


@pytest.fixture
def login(entra: Entra, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The host of a sign-in, and the file of the authority that signed its certificate."""

    class Login(Handler):
        def do_GET(self) -> None:
            host = f"https://localhost:{self.server.server_address[1]}"
            answers = entra.documents(host)
            answers[f"/list/{TENANT}/v2.0/.well-known/openid-configuration"] = [1]
            if self.path.startswith("/moved"):
                self.answer(status=302, Location=self.path.removeprefix("/moved"))
                return
            self.answer_json(answers.get(self.path.partition("?")[0]))

    context, authorities = serve_as_localhost(tmp_path)
    with serving(Login, context) as url:
        entra.issuer = f"{url}/{TENANT}/v2.0"
        yield url.removeprefix("https://"), authorities


def test_serve_behind_proxy_verifies_tokens_with_the_keys_of_the_tenant(
    project: Path,
    make_run: MakeRun,
    fairway: RunFairway,
    in_place: Any,
    entra: Entra,
    login: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("job-a")
    section = {
        "url": "https://Runs.example.org:443/",
        "tenant": TENANT.upper(),
        "audience": "another",
    }
    (project / "fairway.yaml").write_text(json.dumps({"serve": section}))
    monkeypatch.setenv("ARM_METADATA_HOSTNAME", login[0])
    monkeypatch.setenv("SSL_CERT_FILE", str(login[1]))
    answers = []

    def look(client: TestClient) -> None:
        for words in ({}, {"key": "two", "kid": "one"}):
            bearer = f"Bearer {entra.token('Reader', **words)}"
            headers = {"Authorization": bearer, "Host": HOST}
            answers.append(client.get("/api/v1/runs", headers=headers))

    in_place(look)
    code, printed, _ = fairway(project, "serve", "--behind-proxy", "--audience", AUDIENCE)
    assert (code, [each.status_code for each in answers]) == (0, [200, 401])
    assert [run["run_id"] for run in answers[0].json()] == ["job-a"]
    assert printed.startswith("ready: listening on http://127.0.0.1:")
    assert printed.endswith(f" for the proxy of {URL}\n")
    assert not (project / ".fairway" / "serve.json").exists()


def test_signing_keys_are_read_by_trusted_https_without_redirects(login: tuple[str, Path]) -> None:
    host, authorities = login
    keys = SigningKeys(f"https://{host}", TENANT, str(authorities))
    assert keys.find("one") is not None
    for start, trusted, why in (
        (host, None, "certificate verify failed"),
        (f"{host}/moved", str(authorities), "Found"),
        (f"{host}/none", str(authorities), "Not Found"),
        (f"{host}/list", str(authorities), "did not return a JSON object"),
        ("localhost:1", str(authorities), "Connection refused"),
    ):
        with pytest.raises(RequestDenied, match=why):
            SigningKeys(f"https://{start}", TENANT, trusted).find("one")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *(
            (["--socket", "s", *option], "--socket cannot be combined with --port or --open")
            for option in (["--open"], ["--port", "8765"])
        ),
        (["--address", "0.0.0.0"], "--address, --public-url, --tenant and --audience are for"),
        (["--tenant", TENANT], "the server listens on loopback alone: add --behind-proxy"),
        (["--behind-proxy"], "--behind-proxy needs --public-url, --tenant, --audience"),
        (["--behind-proxy", *OPTIONS[:4]], "--behind-proxy needs --audience"),
        (["--behind-proxy", *OPTIONS, "--open"], "--behind-proxy cannot be combined with --open"),
        (["--behind-proxy", *OPTIONS, "--socket", "s", "--port", "1"], "nor --socket with --port"),
        (["--behind-proxy", *OPTIONS, "--address", "203.0.113.7"], "of 203.0.113.7 cannot be used"),
        (["--behind-proxy", *OPTIONS, "--address", "no-ip"], "of no-ip cannot be used"),
        *(
            (["--behind-proxy", *OPTIONS, "--public-url", url], "--public-url: write https:// and")
            for url in (
                *("http://runs.example.org", "runs.example.org", "https://", "https://a/b"),
                *("https://u:p@a", "https://a?b", "https://a#", "https://a:x", "https://["),
                "https://a b",
            )
        ),
        (["--behind-proxy", *OPTIONS, "--tenant", "contoso.com"], "--tenant: write the tenant's"),
        (["--behind-proxy", *OPTIONS, "--audience", "a b"], "--audience: write the application's"),
    ],
)
def test_serve_command_refuses_invalid_options(
    project: Path, fairway: RunFairway, options: list[str], said: str
) -> None:
    done = fairway(project, "serve", *options)
    ends(done, 2, said)
    assert "Traceback" not in done[2]
    assert [each.name for each in project.iterdir()] == ["fairway.yaml"]


def test_serve_command_reports_invalid_settings_of_the_project_file(
    project: Path, fairway: RunFairway
) -> None:
    (project / "fairway.yaml").write_text("serve:\n  url: http://runs\n  tenant: x\n  port: 1\n")
    ends(
        fairway(project, "serve", "--behind-proxy"),
        *(2, "write https:// and the name that people open, without a path", "fairway.yaml:2"),
        *("write the tenant's ID: az account show --query tenantId -o tsv", "port"),
    )


@pytest.mark.parametrize(("listed", "found"), [("local", "bad-value"), ("none", "unknown-target")])
def test_serve_command_refuses_a_target_that_submitters_cannot_use(
    project: Path, fairway: RunFairway, listed: str, found: str
) -> None:
    (project / "fairway.yaml").write_text(f"serve: {{targets: [{listed}]}}\n")
    ends(fairway(project, "serve", "--behind-proxy", *OPTIONS), 2, f"[{found}]", f"`{listed}`")

"""`fairway serve --behind-proxy` as a program, with a stand-in for the sign-in."""

from __future__ import annotations

import json
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from served import serving

from fairway_simulator.certificate import serve_as_localhost
from fairway_web.auth import Refused, SigningKeys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Entra, MakeRun, RunFairway

pytestmark = pytest.mark.integration

TENANT = "11111111-2222-3333-4444-555555555555"
AUDIENCE = "66666666-7777-8888-9999-000000000000"
URL = "https://runs.example.org"
OPTIONS = ("--public-url", URL, "--tenant", TENANT, "--audience", AUDIENCE)


@pytest.fixture
def login(entra: Entra, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The host of a sign-in, and the file of the authority that it is known by."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = f"https://localhost:{self.server.server_address[1]}"
            issuer = f"{host}/{TENANT}/v2.0"
            answers: dict[str, Any] = {
                "/metadata/endpoints?api-version=2022-09-01": {
                    "authentication": {"loginEndpoint": host},
                    "resourceManager": f"{host}/manager",
                },
                f"/{TENANT}/v2.0/.well-known/openid-configuration": {
                    "issuer": issuer,
                    "jwks_uri": f"{host}/{TENANT}/discovery/v2.0/keys",
                },
                f"/{TENANT}/discovery/v2.0/keys": {"keys": entra.jwks()},
                f"/list/{TENANT}/v2.0/.well-known/openid-configuration": [1],
            }
            found = answers.get(self.path)
            moved = self.path.startswith("/moved")
            self.send_response(302 if moved else 200 if found else 404)
            if moved:
                self.send_header("Location", self.path.removeprefix("/moved"))
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: object) -> None:
            pass

    context, authorities = serve_as_localhost(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"localhost:{server.server_address[1]}"
    entra.issuer = f"https://{host}/{TENANT}/v2.0"
    yield host, authorities
    server.shutdown()
    server.server_close()


def get(url: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}", "Host": URL.removeprefix("https://")}
    with urlopen(Request(url, headers=headers)) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.integration
def test_people_come_in_by_the_keys_of_their_tenant(
    tmp_path: Path, make_run: MakeRun, entra: Entra, login: tuple[str, Path]
) -> None:
    make_run("job-a")
    host, authorities = login
    serve = {
        "url": "https://Runs.example.org:443/",
        "tenant": TENANT.upper(),
        "audience": "another",
    }
    (tmp_path / "fairway.yaml").write_text(json.dumps({"serve": serve}))
    own = {"ARM_METADATA_HOSTNAME": host, "SSL_CERT_FILE": str(authorities)}
    words = ("--behind-proxy", "--audience", AUDIENCE)
    with serving(tmp_path, *words, env=own) as (process, said):
        address, _, end = said.removeprefix("ready: listening on ").partition(" ")
        assert address.startswith("http://127.0.0.1:"), said
        assert end == f"for the proxy of {URL}\n"
        runs = json.loads(get(f"{address}/api/v1/runs", entra.token("Reader")))
        assert [run["run_id"] for run in runs] == ["job-a"]
        with pytest.raises(HTTPError, match="401"):
            get(f"{address}/", entra.token("Reader", key="two", kid="one"))
        assert not (tmp_path / ".fairway" / "serve.json").exists()
        process.terminate()
        assert process.stdout.read() == ""
        assert process.wait() == 143


def test_keys_are_read_by_https_from_one_place(login: tuple[str, Path]) -> None:
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
        with pytest.raises(Refused, match=why):
            SigningKeys(f"https://{start}", TENANT, trusted).find("one")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "fairway.yaml").write_text("{}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("options", "said"),
    [
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
    code, _, err = fairway(project, "serve", *options)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_the_file_of_the_project_is_checked(project: Path, fairway: RunFairway) -> None:
    (project / "fairway.yaml").write_text("serve:\n  url: http://runs\n  tenant: x\n  port: 1\n")
    code, _, err = fairway(project, "serve", "--behind-proxy")
    assert code == 2
    assert "write https:// and the name that people open, without a path" in err
    assert "write the tenant's ID: az account show --query tenantId -o tsv" in err
    assert "fairway.yaml, line 2" in err or "fairway.yaml:2" in err
    assert "port" in err


@pytest.mark.parametrize(("listed", "found"), [("local", "bad-value"), ("none", "unknown-target")])
def test_server_with_target_that_submitters_cannot_have_does_not_start(
    project: Path, fairway: RunFairway, listed: str, found: str
) -> None:
    (project / "fairway.yaml").write_text(f"serve: {{targets: [{listed}]}}\n")
    code, _, err = fairway(project, "serve", "--behind-proxy", *OPTIONS)
    assert code == 2
    assert f"[{found}]" in err
    assert f"`{listed}`" in err


def test_a_proxy_of_the_same_group_uses_the_socket(
    project: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    path = project / "page.sock"
    monkeypatch.setattr(
        "uvicorn.Server.run", lambda *_, **__: modes.append(stat.S_IMODE(path.stat().st_mode))
    )
    monkeypatch.setattr("signal.signal", lambda *_: None)
    code, printed, _ = fairway(project, "serve", "--behind-proxy", *OPTIONS, "--socket", str(path))
    assert code == 0
    assert printed == f"ready: listening on {path} for the proxy of {URL}\n"
    assert modes == [0o660]

"""The proxy of an environment's page: real Apache with mod_auth_openidc, configured as on a login
node, between a stand-in for Entra ID and the real server."""

import base64
import hashlib
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPSHandler, OpenerDirector, Request, build_opener

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from entra import AUDIENCE, TENANT, Entra
from running import MakeRun
from served import serve
from serving import Handler, serving
from vaults import FakeVault

from fairway_agent.fanout.launchers import free_port
from fairway_agent.web_secrets import files_of
from fairway_constructs.cloud_init.web import CALLBACK, WebPage
from fairway_core.environment.filesystems.home_directories import HomeDirectories
from fairway_runner.runs.store import RunStore
from fairway_simulator.certificate import serve_as_localhost

pytestmark = pytest.mark.integration

SECRET = "the~secret.of_the-application"
_MODULE = Path("/usr/lib/apache2/modules/mod_auth_openidc.so")


@dataclass
class SignIn:
    """A stand-in for Entra ID: every user is Ann, who has a role."""

    entra: Entra
    authorities: Path
    host: str = ""
    url: str = ""
    lasts: int = 3600
    role: str = "Reader"
    is_gone: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    granted: list[str] = field(default_factory=list)

    def token_for(self, form: dict[str, str], client: str) -> dict[str, Any]:
        """Answers like Entra ID. Raises KeyError or AssertionError if Entra ID would refuse."""
        assert client == f"{AUDIENCE}:{SECRET}"
        asked = self.asked[-1]
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            given = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert (form["code"], given) == ("a-code", asked["code_challenge"])
            assert form["redirect_uri"] == f"{self.url}{CALLBACK}"
        else:
            assert form["refresh_token"] == "to-refresh"
            assert not self.is_gone
        self.granted.append(form["grant_type"])
        now = int(time.time())
        token = self.entra.token(self.role, nonce=asked["nonce"], exp=now + self.lasts)
        return {
            "token_type": "Bearer",
            "access_token": f"opaque-{len(self.granted)}",
            "expires_in": self.lasts,
            "refresh_token": "to-refresh",
            "id_token": token,
        }


def _handler(sign_in: SignIn) -> type[Handler]:
    class Answers(Handler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == f"/{TENANT}/oauth2/v2.0/authorize":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                sign_in.asked.append(asked)
                back = urlencode({"code": "a-code", "state": asked["state"]})
                self.answer(status=302, Location=f"{asked['redirect_uri']}?{back}")
                return
            self.answer_json(sign_in.entra.documents(f"https://{sign_in.host}").get(parts.path))

        def do_POST(self) -> None:
            form = {name: values[0] for name, values in parse_qs(self.body().decode()).items()}
            client = f"{form.get('client_id')}:{form.get('client_secret')}"
            kind, _, basic = self.headers.get("Authorization", "").partition(" ")
            if kind == "Basic":
                client = base64.b64decode(basic).decode()
            try:
                self.answer_json(sign_in.token_for(form, client))
            except (AssertionError, KeyError) as error:
                why = {"error": "invalid_grant", "error_description": repr(error)}
                self.answer_json(why, 400)

    return Answers


@dataclass
class Page:
    """The page behind the proxy."""

    url: str
    context: ssl.SSLContext
    sign_in: SignIn

    def browser(self) -> OpenerDirector:
        """Returns a browser with its own cookies, which follows redirects."""
        opener = build_opener(HTTPSHandler(context=self.context), HTTPCookieProcessor(CookieJar()))
        opener.addheaders = [("Accept", "text/html,*/*;q=0.8"), ("Sec-Fetch-Mode", "navigate")]
        return opener


@pytest.fixture(scope="module")
def sign_in(
    real_keys: dict[str, rsa.RSAPrivateKey], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SignIn]:
    context, authorities = serve_as_localhost(tmp_path_factory.mktemp("entra"))
    found = SignIn(Entra(real_keys), authorities)
    with serving(_handler(found), context) as url:
        found.host = url.removeprefix("https://")
        found.entra.issuer = f"{url}/{TENANT}/v2.0"
        yield found


@pytest.fixture(scope="module")
def reached(
    tmp_path_factory: pytest.TempPathFactory, make_run_in: MakeRun, sign_in: SignIn
) -> Iterator[Page]:
    """The page of a project with one run."""
    apache = shutil.which("apache2", path=f"{os.environ['PATH']}:/usr/sbin")
    if apache is None or not _MODULE.exists():
        pytest.skip("apt-get install -y apache2-bin libapache2-mod-auth-openidc")
    folder = tmp_path_factory.mktemp("project")
    make_run_in(RunStore(folder / ".fairway"), "job-a")
    authority = trustme.CA()
    sign_in.url = f"https://localhost:{free_port()}"
    listening = folder / "page.sock"
    words = ["--public-url", sign_in.url, "--tenant", TENANT, "--audience", AUDIENCE]
    words += ["--behind-proxy", "--socket", str(listening)]
    known = {"ARM_METADATA_HOSTNAME": sign_in.host, "SSL_CERT_FILE": str(sign_in.authorities)}
    places = _credentials(folder, authority)
    proxy = [apache, "-D", "FOREGROUND", "-f", str(_configuration(folder, sign_in, listening))]
    with serve(folder, *words, env=known) as (_, said), _running(proxy, places):
        assert said.startswith("ready:")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        context.load_verify_locations(sign_in.authorities)
        yield Page(sign_in.url, context, sign_in)


@pytest.fixture
def page(reached: Page) -> Page:
    """The page, with the sign-in reset."""
    sign_in = reached.sign_in
    sign_in.lasts, sign_in.role, sign_in.is_gone = 3600, "Reader", False
    sign_in.asked, sign_in.granted = [], []
    return reached


def _credentials(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Returns the folders that systemd gives the proxy, with its certificate and secret."""
    credentials, run = folder / "credentials", folder / "run"
    for each in (credentials, run):
        each.mkdir()
    certificate = authority.issue_cert("localhost")
    chain = "".join(each.bytes().decode() for each in certificate.cert_chain_pems)
    held = {"page": certificate.private_key_pem.bytes().decode() + chain, "application": SECRET}
    for name, text in files_of(FakeVault(held), "page", "application", credentials).items():
        (credentials / name).write_text(text)
    return {"CREDENTIALS_DIRECTORY": str(credentials), "RUNTIME_DIRECTORY": str(run)}


def _configuration(folder: Path, sign_in: SignIn, listening: Path) -> Path:
    """Writes the proxy's configuration, with a port for the test and trust in the stand-in."""
    page = WebPage(
        url=sign_in.url,
        tenant=TENANT,
        client_id=AUDIENCE,
        vault_url="https://lab.vault.azure.net",
        certificate="page",
        secret="application",
        identity="id",
        account="ann",
        homes=HomeDirectories(),
        package="",
    )
    text = page.proxy_configuration(authority=f"https://{sign_in.host}", socket=str(listening))
    port = urlsplit(sign_in.url).port
    text = text.replace(f"Listen {port}", f"Listen 127.0.0.1:{port}")
    (file := folder / "proxy.conf").write_text(f"{text}OIDCCABundlePath {sign_in.authorities}\n")
    return file


@contextmanager
def _running(proxy: list[str], own: dict[str, str]) -> Iterator[None]:
    """Runs the proxy, and yields when it is ready."""
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(proxy, env={**os.environ, **own}, text=True, **output) as process:
        try:
            said = ""
            while "resuming normal operations" not in said:
                said = process.stdout.readline()
                assert said, process.wait()
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield
        finally:
            process.terminate()


def test_apache_proxy_accepts_bearer_tokens_signs_users_in_and_refuses_others(page: Page) -> None:
    token = page.sign_in.entra.token("Reader")
    asked = Request(f"{page.url}/api/v1/runs", headers={"Authorization": f"Bearer {token}"})
    with page.browser().open(asked) as answer:
        assert [run["run_id"] for run in json.load(answer)] == ["job-a"]
    assert page.sign_in.asked == []
    browser = page.browser()
    with browser.open(f"{page.url}/") as answer:
        assert answer.url == f"{page.url}/"
        assert "job-a" in answer.read().decode()
    with browser.open(f"{page.url}/api/v1/runs") as answer:
        assert [run["run_id"] for run in json.load(answer)] == ["job-a"]
    assert page.sign_in.granted == ["authorization_code"], "signed in once"
    assert page.sign_in.asked[0]["code_challenge_method"] == "S256"

    def refused(path: str, **headers: str) -> int:
        with pytest.raises(HTTPError) as error:
            page.browser().open(Request(f"{page.url}{path}", headers=headers))
        error.value.close()
        return error.value.code

    assert refused("/api/v1/runs") == 401, "and is not led to a sign-in"
    assert refused("/metrics") == 401
    assert refused("/api/v1/runs", Authorization="Bearer made-up") == 401
    forged = page.sign_in.entra.token("Operator", key="two", kid="one")
    for header in ("X-MS-TOKEN-AAD-ID-TOKEN", "X-Forwarded-Access-Token", "OIDC_id_token"):
        assert refused("/api/v1/runs", **{header: forged}) == 401
    page.sign_in.role = "Nobody"
    assert refused("/") == 403
    assert len(page.sign_in.asked) == 2
    with page.browser().open(f"{page.url}/healthz") as answer:
        assert answer.status == 200


def test_apache_proxy_refreshes_a_token_that_expires_soon_until_it_is_revoked(page: Page) -> None:
    page.sign_in.lasts = 1700
    browser = page.browser()
    with browser.open(f"{page.url}/") as answer:
        assert answer.status == 200
    role, page.sign_in.role = page.sign_in.role, "Nobody"
    with pytest.raises(HTTPError, match="403"):
        browser.open(f"{page.url}/api/v1/runs")
    assert page.sign_in.granted[0] == "authorization_code"
    assert set(page.sign_in.granted[1:]) == {"refresh_token"}
    page.sign_in.role, page.sign_in.is_gone = role, True
    with browser.open(f"{page.url}/") as answer:
        assert "Logged Out" in answer.read().decode()
    with browser.open(f"{page.url}/") as answer:
        assert answer.status == 200
    assert len(page.sign_in.asked) == 2

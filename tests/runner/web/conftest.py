"""The web server over a store that a test fills, without a socket."""

import threading
import warnings
from typing import Any

import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from entra import AUDIENCE, Entra, EntraKeys, new_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette recommends another client
    from starlette.testclient import TestClient

from collections.abc import Callable, Iterator
from pathlib import Path

from running import RunFairway

from fairway_runner.runs.store import RunStore
from fairway_web.app import application
from fairway_web.auth import BehindProxy, ByToken, Verifier
from fairway_web.server import config_of, on_loopback
from fairway_web.threads import Follower

Ask = Callable[..., tuple[int, str, str]]

TOKEN = "t" * 43
CODE = "k" * 43
HOST = "127.0.0.1:8765"


@pytest.fixture
def follower(store: RunStore) -> Follower:
    """The follower of unattended runs, which refreshes them when a test asks for it."""
    return Follower(store)


@pytest.fixture
def anyone(store: RunStore, follower: Follower) -> Iterator[TestClient]:
    """A client without the token."""
    (store.base / "runs").mkdir(parents=True, exist_ok=True)
    sign_in = ByToken({HOST, "forwarded:*"}, "fairway-8765", TOKEN, CODE)
    app = application(store, sign_in, follower)
    with TestClient(app, f"http://{HOST}", follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(anyone: TestClient) -> TestClient:
    """A client with the token, like a program."""
    anyone.headers["Authorization"] = f"Bearer {TOKEN}"
    return anyone


@pytest.fixture
def browser(anyone: TestClient) -> TestClient:
    """A client with the cookie, like a browser after the login, whose own pages ask."""
    assert anyone.get(f"/login?token={TOKEN}").status_code == 303
    anyone.headers["Origin"] = f"http://{HOST}"
    return anyone


@pytest.fixture
def project(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The server's project; its runs are waited for afterwards."""
    folder = store.base.parent
    (folder / "fairway.yaml").write_text("{}\n")
    monkeypatch.chdir(folder)
    yield folder
    for run in store.unsorted():
        if (run.folder / "plan.json").exists():
            run.wait()


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks jobs in this process, so that a test can patch what they call."""
    monkeypatch.setattr("fairway_web.submissions.look_at_job", lambda do, *given: do(*given))


@pytest.fixture
def url(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A running server of the project, with its token in the environment."""
    (store.base / "runs").mkdir(parents=True, exist_ok=True)
    (store.base.parent / "fairway.yaml").write_text("{}\n")
    address = on_loopback(0)
    server = uvicorn.Server(config_of(application(store, address.sign_in)))
    address.listener.listen(16)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address.listener]})
    thread.start()
    monkeypatch.setenv("FAIRWAY_SERVER_TOKEN", address.sign_in.token)
    yield address.url
    server.should_exit = True
    thread.join()
    address.listener.close()


@pytest.fixture
def ask(url: str, fairway: RunFairway, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Runs `fairway --server` like on a laptop: in a folder without a project."""
    folder = tmp_path_factory.mktemp("laptop")
    return lambda *words: fairway(folder, "--server", url, *words)


SHARED = "https://runs.example.org"


@pytest.fixture(scope="session")
def real_keys() -> dict[str, rsa.RSAPrivateKey]:
    return {"one": new_key(), "two": new_key()}


@pytest.fixture
def entra(real_keys: dict[str, rsa.RSAPrivateKey]) -> Entra:
    return Entra(real_keys)


@pytest.fixture
def keys(entra: Entra) -> EntraKeys:
    return EntraKeys(entra.document)


@pytest.fixture
def audit(store: RunStore) -> Path:
    return store.base / "audit.jsonl"


@pytest.fixture
def shared(store: RunStore, keys: EntraKeys, audit: Path) -> Iterator[TestClient]:
    """A client of the server behind a proxy that has not signed in."""
    (store.base / "runs").mkdir(parents=True, exist_ok=True)
    app = application(store, BehindProxy(SHARED, Verifier(keys, AUDIENCE), audit))
    with TestClient(app, SHARED, follow_redirects=False) as client:
        yield client


@pytest.fixture
def sign_in(shared: TestClient, entra: Entra) -> Callable[..., TestClient]:
    """Signs in with a role: `sign_in("Reader")`."""

    def signed_in(*roles: str, **claims: Any) -> TestClient:
        shared.headers["Authorization"] = f"Bearer {entra.token(*roles, **claims)}"
        return shared

    return signed_in

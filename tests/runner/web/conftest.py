"""The server over a store that a test fills, without a socket."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette's wish for another client
    from starlette.testclient import TestClient

from fairway_web.app import application

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_runner.runs.store import RunStore

TOKEN = "t" * 43
CODE = "c" * 43
HOST = "127.0.0.1:8765"


@pytest.fixture
def anyone(store: RunStore) -> Iterator[TestClient]:
    """A client without the token."""
    (store.base / "runs").mkdir(parents=True, exist_ok=True)
    program = [sys.executable, "-P", "-m", "fairway_cli.entry"]
    app = application(store, TOKEN, {HOST, "forwarded:*"}, "fairway-8765", CODE, program)
    with TestClient(app, f"http://{HOST}", follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(anyone: TestClient) -> TestClient:
    """A client with the token, as a program has it."""
    anyone.headers["Authorization"] = f"Bearer {TOKEN}"
    return anyone


@pytest.fixture
def browser(anyone: TestClient) -> TestClient:
    """A client with the cookie, as a browser has it after the login."""
    assert anyone.get(f"/login?token={TOKEN}").status_code == 303
    return anyone

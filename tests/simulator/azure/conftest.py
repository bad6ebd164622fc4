"""A control plane for each test, and a signed-in client that trusts it."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairway_simulator.azure import ControlPlane

NOBODY = "00000000-0000-0000-0000-000000000000"


@dataclass
class Client:
    """A client that sends requests like the azurerm provider."""

    plane: ControlPlane
    token: str = "token"

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Returns the status and the JSON of the answer, {} for an empty answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        request = urllib.request.Request(
            f"https://{self.plane.host}{path}", method=method, data=data
        )
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        context = ssl.create_default_context(cafile=str(self.plane.authority))
        try:
            with urllib.request.urlopen(request, context=context, timeout=300) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """The stand-in."""
    with ControlPlane(tmp_path) as plane:
        yield plane


@pytest.fixture
def azure(plane: ControlPlane) -> Client:
    """A signed-in client."""
    return Client(plane)

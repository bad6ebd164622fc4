"""A registry's own token for that of a node's identity, over loopback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
from serving import Handler, serving

from fairway_agent.azure.access import exchanged
from fairway_boot.http import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "lab.azurecr.io"


class Registry:
    """Gives each answer once: a status, and JSON."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""


@pytest.fixture
def registry() -> Iterator[Registry]:
    known = Registry()

    class Answers(Handler):
        def do_POST(self) -> None:
            known.asked.append((self.path, parse_qs(self.body().decode())))
            status, body = known.answers.pop(0)
            self.answer(json.dumps(body).encode(), status, Retry_After=0)

    with serving(Answers) as known.url:
        yield known


def test_azure_registry_exchange_is_retried_on_429_and_503(registry: Registry) -> None:
    registry.answers = [(503, {}), (429, {}), (200, {"refresh_token": "own"})]
    assert exchanged(registry.url, SERVER, "identity's") == "own"
    form = {"grant_type": ["access_token"], "service": [SERVER], "access_token": ["identity's"]}
    assert registry.asked == [("/oauth2/exchange", form)] * 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, {"error": {"code": "UNAUTHORIZED", "message": "no AcrPull"}}), "no AcrPull"),
        ((200, {"refresh_token": 1}), "the answer holds no token"),
        ((200, []), "the answer holds no token"),
    ],
)
def test_azure_registry_exchange_without_a_token_is_not_retried(
    registry: Registry, answer: tuple[int, object], why: str
) -> None:
    registry.answers = [answer]
    with pytest.raises(Failure, match=why):
        exchanged(registry.url, SERVER, "identity's")
    assert len(registry.asked) == 1

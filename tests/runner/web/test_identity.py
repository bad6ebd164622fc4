"""Tokens of Entra ID: which are valid, and how often their keys are fetched."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt
import pytest
from entra import AUDIENCE, TENANT, Entra, EntraKeys

from fairway_web.auth import RequestDenied, Verifier
from fairway_web.roles import Role

LOGIN = "https://login.microsoftonline.com"


@pytest.fixture
def verifier(keys: EntraKeys) -> Verifier:
    return Verifier(keys, AUDIENCE)


def refusal(verifier: Verifier, token: str) -> tuple[int, str]:
    with pytest.raises(RequestDenied) as caught:
        verifier.person(token)
    assert token[:40] not in caught.value.message or not token
    return caught.value.status, caught.value.message


@pytest.mark.parametrize("role", list(Role))
def test_identity_of_a_valid_token_has_id_name_role_and_expiry(
    verifier: Verifier, entra: Entra, role: Role
) -> None:
    expires = int(time.time()) + 600
    person = verifier.person(entra.token("Reader", role.title, "Other", exp=expires))
    assert (person.id, person.name, person.role) == ("id-ann", "ann@example.org", role)
    assert person.ends == expires + 60, "the clocks of two machines may differ by a minute"
    of_a_service = {"preferred_username": None, "oid": None, "sub": "sp", "azp": "the-app"}
    person = verifier.person(entra.token(role.title, **of_a_service))
    assert (person.id, person.name) == ("sp", "the-app")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"iss": f"{LOGIN}/{AUDIENCE}/v2.0"}, "another tenant has issued it"),
        ({"iss": f"https://sts.windows.net/{TENANT}/"}, "another tenant has issued it"),
        ({"iss": None}, "it lacks a required claim"),
        ({"aud": "another"}, "it is for another application"),
        ({"aud": [AUDIENCE, "another"]}, "it is for another application"),
        ({"aud": None}, "it lacks a required claim"),
        ({"exp": 1}, "it has expired"),
        # All workers must use the same test IDs.
        pytest.param({"exp": int(time.time()) - 120}, "it has expired", id="two-minutes-ago"),
        ({"exp": None}, "it lacks a required claim"),
        ({"exp": "soon"}, "it is damaged"),
        ({"nbf": 1 << 40}, "it is not valid yet"),
        ({"alg": "none"}, "it is not signed with RS256"),
        ({"alg": "HS256"}, "it is not signed with RS256"),
        ({"alg": "RS512"}, "it is not signed with RS256"),
        ({"alg": "PS256"}, "it is not signed with RS256"),
        ({"key": "two"}, "its key is not one of the tenant's"),
        ({"key": "two", "kid": "one"}, "its signature is wrong"),
        ({"oid": ["x"]}, "it does not name its owner"),
        ({"oid": "a\x1b[2J"}, "it does not name its owner"),
        ({"oid": "x" * 201}, "it does not name its owner"),
        ({"more": "x" * 20_000}, "it is too long"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_identity_refuses_a_token_with_wrong_claims_or_signature(
    verifier: Verifier, entra: Entra, facts: dict[str, Any], why: str
) -> None:
    status, message = refusal(verifier, entra.token("Operator", **facts))
    assert status == 401
    assert message == f"the token of the sign-in is not accepted: {why}"


@pytest.mark.parametrize("changed", ["crit", "jwk", "jku"])
def test_identity_refuses_a_key_that_the_token_itself_names(
    verifier: Verifier, entra: Entra, changed: str
) -> None:
    own = entra.jwks()[0] if changed == "jwk" else "https://evil.example/keys"
    value = ["exp"] if changed == "crit" else own
    claims = jwt.decode(entra.token("Operator"), options={"verify_signature": False})
    token = jwt.encode(
        claims, entra.keys["two"], algorithm="RS256", headers={"kid": "one", changed: value}
    )
    assert refusal(verifier, token)[0] == 401


@pytest.mark.parametrize("token", ["", "..", "a.b.c", "é", "[" * 9000])
def test_identity_refuses_a_malformed_token(verifier: Verifier, token: str) -> None:
    assert refusal(verifier, token)[0] == 401


@pytest.mark.parametrize("roles", [None, [], ["reader", "Admin"], "Operator", {"Operator": 1}, [1]])
def test_identity_without_known_role_gets_403(verifier: Verifier, entra: Entra, roles: Any) -> None:
    status, message = refusal(verifier, entra.token(roles=roles))
    assert status == 403
    assert "you have signed in, but have no role here" in message
    assert "Reader, Submitter, Operator" in message


class Clock:
    """A replacement for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in ("fairway_web.auth", "jwt.jwks_client", "jwt.jwk_set_cache", "jwt.api_jwk"):
        monkeypatch.setattr(f"{module}.time", found)
    return found


def test_identity_keys_are_fetched_rarely_for_tokens_with_unknown_keys_and_may_be_rotated(
    verifier: Verifier, entra: Entra, clock: Clock
) -> None:
    verifier.person(entra.token("Reader"))
    before = entra.fetches
    for number in range(50):
        refusal(verifier, entra.token("Reader", kid=f"unknown-{number}"))
    assert entra.fetches <= before + 1
    clock.now += 121
    before = entra.fetches
    for number in range(50):
        refusal(verifier, entra.token("Reader", kid=f"unknown-{number}"))
    assert entra.fetches == before + 1
    entra.published = ("two",)
    clock.now += 61
    assert verifier.person(entra.token("Reader", key="two")).id == "id-ann"
    assert "not one of the tenant's" in refusal(verifier, entra.token("Reader"))[1]


def test_identity_keys_are_cached_for_an_hour_and_then_answer_503(
    verifier: Verifier, entra: Entra, clock: Clock
) -> None:
    for _ in range(3):
        verifier.person(entra.token("Reader"))
    assert entra.fetches == 1
    entra.is_away = True
    clock.now += 3500
    verifier.person(entra.token("Reader"))
    clock.now += 200
    status, message = refusal(verifier, entra.token("Reader"))
    assert status == 503
    assert message == "the keys of the sign-in cannot be fetched: login.example: it is away"
    before = entra.fetches
    refusal(verifier, entra.token("Reader"))
    assert entra.fetches == before
    entra.is_away = False
    clock.now += 61
    verifier.person(entra.token("Reader"))


def test_identity_keys_that_are_known_do_not_wait_for_a_fetch(
    verifier: Verifier, keys: EntraKeys, entra: Entra, clock: Clock
) -> None:
    """Otherwise invented key IDs would block all users while the sign-in does not answer."""
    looks, ends = threading.Event(), threading.Event()

    def document(url: str) -> dict[str, Any]:
        if entra.fetches:
            looks.set()
            ends.wait()
        return entra.document(url)

    verifier.person(entra.token("Reader"))
    keys.read = document
    with ThreadPoolExecutor(2) as pool:
        unknown = pool.submit(refusal, verifier, entra.token("Reader", kid="made-up"))
        looks.wait()
        known = pool.submit(verifier.person, entra.token("Reader"))
        try:
            assert known.result(60).id == "id-ann"
            assert refusal(verifier, entra.token("Reader", kid="another"))[0] == 401
        finally:
            ends.set()
    assert unknown.result()[0] == 401


@pytest.fixture
def answers(keys: EntraKeys, entra: Entra) -> dict[str, Any]:
    """Answers of the sign-in, by the last part of the URL."""
    known: dict[str, Any] = {
        "openid-configuration": {"issuer": entra.issuer, "jwks_uri": "https://keys.example/keys"},
        "keys": {"keys": entra.jwks()},
    }
    keys.read = lambda url: known[url.rpartition("/")[2]]
    return known


def test_identity_keys_of_the_tenant_are_accepted(
    verifier: Verifier, answers: dict[str, Any], entra: Entra
) -> None:
    entra.published = ("one", "two")
    answers["keys"]["keys"] = entra.jwks(issuer=f"{LOGIN}/{{tenantid}}/v2.0")
    for key in entra.published:
        assert verifier.person(entra.token("Reader", key=key)).id == "id-ann"


_AWAY, _NONE = (503, "cannot be fetched"), (401, "its key is not one of the tenant's")


@pytest.mark.parametrize(
    ("spoil", "refused"),
    [
        (lambda known: known["openid-configuration"].pop("issuer"), _AWAY),
        (lambda known: known["openid-configuration"].update(issuer=f"{LOGIN}/o/v2.0"), _AWAY),
        (
            lambda known: known["openid-configuration"].update(issuer=f"http://x/{TENANT}/v2.0"),
            _AWAY,
        ),
        (lambda known: known["openid-configuration"].update(jwks_uri="http://x/keys"), _AWAY),
        (lambda known: known["openid-configuration"].update(jwks_uri=7), _AWAY),
        (lambda known: known["keys"].update(keys=[]), _AWAY),
        (lambda known: known["keys"].update(keys={"a": 1}), _AWAY),
        (lambda known: known["keys"].update(keys=["x", {}, {"kty": "RSA", "kid": "a"}]), _AWAY),
        (lambda known: known["keys"]["keys"][0].update(use="enc"), _AWAY),
        (lambda known: known["keys"]["keys"][0].update(kty="EC"), _AWAY),
        (lambda known: known["keys"]["keys"][0].update(kid=1), _NONE),
        (lambda known: known["keys"]["keys"][0].update(n="AQAB"), _AWAY),
        (lambda known: known["keys"]["keys"][0].update(issuer=f"{LOGIN}/other/v2.0"), _AWAY),
    ],
)
def test_identity_keys_that_are_invalid_or_of_others_are_refused(
    verifier: Verifier,
    answers: dict[str, Any],
    entra: Entra,
    spoil: Callable[[dict[str, Any]], object],
    refused: tuple[int, str],
) -> None:
    token = entra.token("Operator")
    spoil(answers)
    status, message = refusal(verifier, token)
    assert status == refused[0]
    assert refused[1] in message

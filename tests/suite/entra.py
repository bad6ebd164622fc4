"""An Entra ID tenant that signs tokens with its own keys."""

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from fairway_web.auth import SigningKeys

TENANT = "11111111-2222-3333-4444-555555555555"
AUDIENCE = "66666666-7777-8888-9999-000000000000"
ISSUER = f"https://login.microsoftonline.com/{TENANT}/v2.0"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Entra:
    """A tenant that signs tokens with real keys, of which `one` is published."""

    keys: dict[str, rsa.RSAPrivateKey] = field(
        default_factory=lambda: {"one": new_key(), "two": new_key()}
    )
    published: tuple[str, ...] = ("one",)
    issuer: str = ISSUER
    is_away: bool = False
    fetches: int = 0

    def document(self, url: str) -> dict[str, Any]:
        """Returns the document published at an address."""
        if url.endswith("/keys"):
            return {"keys": self.jwks()}
        self.fetches += 1
        if self.is_away:
            raise OSError("login.example: it is away")
        return {"issuer": self.issuer, "jwks_uri": "https://keys.example/keys"}

    def documents(self, host: str) -> dict[str, Any]:
        """Returns, by path, the documents that tell programs where and with which keys users sign
        in at a host."""
        base = f"{host}/{TENANT}"
        return {
            "/metadata/endpoints": {
                "authentication": {"loginEndpoint": host},
                "resourceManager": f"{host}/manager",
            },
            f"/{TENANT}/v2.0/.well-known/openid-configuration": {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "token_endpoint_auth_methods_supported": [
                    *("client_secret_post", "client_secret_basic")
                ],
                "jwks_uri": f"{base}/discovery/v2.0/keys",
                "response_types_supported": ["code", "id_token"],
                "subject_types_supported": ["pairwise"],
                "id_token_signing_alg_values_supported": ["RS256"],
            },
            f"/{TENANT}/discovery/v2.0/keys": {"keys": self.jwks()},
        }

    def jwks(self, **facts: Any) -> list[dict[str, Any]]:
        made = jwt.algorithms.RSAAlgorithm.to_jwk
        keys = [(n, json.loads(made(self.keys[n].public_key()))) for n in self.published]
        return [{**key, "kid": name, "use": "sig", **facts} for name, key in keys]

    def token(
        self, *roles: str, key: str = "one", kid: str | None = None, alg: str = "RS256", **more: Any
    ) -> str:
        """Returns a valid token, except for the given arguments; a claim of None is left out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "s",
            "oid": "id-ann",
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "preferred_username": "ann@example.org",
            "roles": list(roles),
            **more,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": kid or key}
        secret: Any = self.keys[key]
        if alg == "none":
            secret = None
        elif alg.startswith("HS"):
            secret = "s" * 64
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jwt.encode(claims, secret, algorithm=alg, headers=headers)


class EntraKeys(SigningKeys):
    """The keys of a tenant whose documents come from a function."""

    def __init__(self, read: Callable[[str], dict[str, Any]]) -> None:
        super().__init__("https://login.microsoftonline.com", TENANT)
        self.read = read

    def document(self, url: str) -> dict[str, Any]:
        return self.read(url)

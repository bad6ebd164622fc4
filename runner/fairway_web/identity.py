"""Who a token of Entra ID says that somebody is, after its signature was checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt

from fairway_web.door import Refused
from fairway_web.roles import Person, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_web.signing_keys import SigningKeys

_ALGORITHM = "RS256"  # what Entra ID signs with; a token cannot choose another
_LEEWAY = 60  # seconds by which clocks differ
_LONGEST = 1 << 14  # bytes of a token
_NEEDED = ("exp", "iat", "iss", "aud", "sub")
_ROLES = {role.word: role for role in Role}
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Verifier:
    """Checks tokens that are for `audience`, the application under which people sign in."""

    keys: SigningKeys
    audience: str

    def person(self, token: str) -> Person:
        """Who has it, with the highest of the roles; Refused for a token that is not good here."""
        claims = self._claims(token)
        role, known = _role(claims), _id(claims)
        if not known:
            raise _not_good("it does not name its owner")
        if role is None:
            message = "you have signed in, but have no role here"
            hint = f"ask for one of the app roles {', '.join(_ROLES)} in Entra ID"
            raise Refused(403, "no-role", f"{message}: {hint}")
        return Person(known, _name(claims), role, float(claims["exp"]) + _LEEWAY)

    def _claims(self, token: str) -> Mapping[str, Any]:
        if len(token) > _LONGEST:
            raise _not_good("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != _ALGORITHM or "crit" in header:
                raise _not_good(f"it is not signed with {_ALGORITHM}")
            issuer, key = self.keys.find(str(header.get("kid")))
            if key is None:
                raise _not_good("its key is not one of the tenant's")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[_ALGORITHM],
                audience=self.audience,
                issuer=issuer,
                leeway=_LEEWAY,
                options={"require": list(_NEEDED), "strict_aud": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, OverflowError) as error:
            raise _not_good(_why(error)) from None
        return claims


_WHYS: Mapping[type[Exception], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is for another application",
    jwt.InvalidIssuerError: "another tenant has issued it",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.MissingRequiredClaimError: "it lacks a required claim",
}


def _why(error: Exception) -> str:
    return next((why for kind, why in _WHYS.items() if isinstance(error, kind)), "it is damaged")


def _not_good(why: str) -> Refused:
    return Refused(401, "bad-token", f"the token of the sign-in is not accepted: {why}")


def _role(claims: Mapping[str, Any]) -> Role | None:
    given = claims.get("roles")
    if not isinstance(given, list):
        return None
    return max((_ROLES[each] for each in map(str, given) if each in _ROLES), default=None)


def _id(claims: Mapping[str, Any]) -> str:
    """What stays the same of a person, whatever they are called: that of the directory, or that of
    this application; "" where there is none to tell them by."""
    found = claims.get("oid", claims["sub"])
    is_right = isinstance(found, str) and found.isprintable() and len(found) <= _LONGEST_NAME
    return found if is_right else ""


def _name(claims: Mapping[str, Any]) -> str:
    """What people know them by: a name to read, and no key to anything."""
    for each in ("preferred_username", "upn", "name", "azp", "appid"):
        value = claims.get(each)
        if isinstance(value, str) and value and value.isprintable():
            return value[:_LONGEST_NAME]
    return _id(claims)

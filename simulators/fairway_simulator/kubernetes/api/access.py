"""Authentication by tokens, and authorization by roles and their bindings."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_simulator.http import Answer
from fairway_simulator.kubernetes.api.requests import ApiError, Identity
from fairway_simulator.kubernetes.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    REVIEWS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from fairway_simulator.kubernetes.events import now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fairway_simulator.http import Request
    from fairway_simulator.kubernetes.api.store import Object, Store

_MASTERS = "system:masters"
_TOKEN_SECONDS = 3607  # default lifetime of a pod's token


@dataclass(frozen=True)
class Action:
    verb: str
    resource: str = ""
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """A path outside all resources."""


@dataclass(frozen=True)
class _Token:
    identity: Identity
    until: float


class Access:
    """The known tokens, and the roles in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tokens: dict[str, _Token] = {}
        self._lock = threading.Lock()

    def issue(
        self, user: str, groups: Sequence[str], seconds: float = 10**9, node: str = ""
    ) -> str:
        """Issues a token for a user, or for a pod of the user's on that `node`."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            known = (*groups, "system:authenticated")
            self._tokens[token] = _Token(Identity(user, known, node), time.time() + seconds)
        return token

    def issue_for(
        self, account: Object, seconds: int | None = None, node: str = ""
    ) -> tuple[str, str]:
        """Issues a service account's token. Returns token and expiry; `node` is as in `issue`."""
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        wanted = seconds or _TOKEN_SECONDS
        user = f"system:serviceaccount:{namespace}:{name}"
        return self.issue(user, groups, wanted, node), now(wanted)

    def identify(self, request: Request) -> Identity:
        """Returns the request's identity. Raises ApiError (401) for an unknown or expired token."""
        if not request.token:
            return Identity("system:anonymous", ("system:unauthenticated",))
        with self._lock:
            found = self._tokens.get(request.token)
        if found is None or found.until < time.time() or not self._exists(found.identity.user):
            raise ApiError(401, "Unauthorized")
        return found.identity

    def require(self, identity: Identity, action: Action) -> None:
        """Raises ApiError (403) if the action is not allowed."""
        if not self.allows(identity, action):
            details = {"name": action.name, "group": action.group, "kind": action.resource}
            raise ApiError(403, _refusal(identity, action), details=details)

    def allows(self, identity: Identity, action: Action) -> bool:
        if _MASTERS in identity.groups:
            return True
        if action.path:
            return "system:authenticated" in identity.groups
        if action.resource.startswith("selfsubject"):
            return "system:authenticated" in identity.groups
        return any(_permits(rule, action) for rule in self._rules(identity, action.namespace))

    def review(self, identity: Identity, sent: Object) -> Answer:
        """Answers a SelfSubjectAccessReview, which asks if an action is allowed."""
        asked = (sent.get("spec") or {}).get("resourceAttributes") or {}
        fields = ("verb", "resource", "group", "subresource", "namespace", "name")
        allowed = self.allows(identity, Action(**{name: asked.get(name, "") for name in fields}))
        return Answer(REVIEWS[0].to_wire({**sent, "status": {"allowed": allowed}}), 201)

    def _exists(self, user: str) -> bool:
        kind, _, rest = user.partition("system:serviceaccount:")
        if kind or not rest:
            return True
        namespace, _, name = rest.partition(":")
        return self._store.find(SERVICE_ACCOUNTS, namespace, name) is not None

    def _rules(self, identity: Identity, namespace: str) -> Iterator[dict[str, Any]]:
        bindings = [*self._store.items(CLUSTER_ROLE_BINDINGS)]
        if namespace:
            bindings += self._store.items(ROLE_BINDINGS, namespace)
        for binding in bindings:
            if any(_is_meant(subject, identity) for subject in binding.get("subjects") or ()):
                role = binding["roleRef"]
                where = ROLES if role["kind"] == "Role" else CLUSTER_ROLES
                own = binding["metadata"].get("namespace", "") if where is ROLES else ""
                found = self._store.find(where, own, role["name"]) or {}
                yield from found.get("rules") or ()


def _is_meant(subject: Object, identity: Identity) -> bool:
    match subject["kind"]:
        case "ServiceAccount":
            user = f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}"
            return identity.user == user
        case "User":
            return bool(identity.user == subject["name"])
        case _:
            return subject["name"] in identity.groups


def _permits(rule: dict[str, Any], action: Action) -> bool:
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    wanted = {"*", resource}
    if action.subresource:
        wanted.add(f"*/{action.subresource}")
    names = rule.get("resourceNames") or ()
    return (
        bool({"*", action.verb} & set(rule.get("verbs") or ()))
        and bool({"*", action.group} & set(rule.get("apiGroups") or ()))
        and bool(wanted & set(rule.get("resources") or ()))
        and (not names or action.name in names)
    )


def _refusal(identity: Identity, action: Action) -> str:
    if action.path:
        return f'forbidden: User "{identity.user}" cannot {action.verb} path "{action.path}"'
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    qualified = f"{action.resource}.{action.group}" if action.group else action.resource
    subject = f'{qualified} "{action.name}"' if action.name else qualified
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    return (
        f'{subject} is forbidden: User "{identity.user}" cannot {action.verb} resource '
        f'"{resource}" in API group "{action.group}" {where}'
    )

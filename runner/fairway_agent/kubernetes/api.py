"""Client of the cluster's API server for pods, and the names and labels of objects there."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import ssl
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fairway_boot.files import NO_ANSWER, AgentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TIMEOUT = 30.0  # seconds for one answer
_PATIENCE = 60.0  # seconds to retry an unavailable server
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_PAGE = 500  # objects per answer
_LISTS = 5  # lists that may expire before they are completely read
UNKNOWN, FORBIDDEN, NOT_FOUND, TAKEN, EXPIRED = 401, 403, 404, 409, 410

RIGHTS = (
    "does the head pod's account have its rights? fairway targets prepare TARGET --apply, "
    "by someone who may create roles"
)
"""Hint for a request that the account may not make."""

DOWN = "is the cluster's control plane up? kubectl get --raw /readyz\npods that run go on meanwhile"
_KUEUE = "/apis/kueue.x-k8s.io"
# Kinds of Kueue's own, and of objects that belong to no namespace.
_OF_KUEUE = ("workloads", "localqueues", "clusterqueues", "workloadpriorityclasses")
_OF_CLUSTER = ("nodes", "clusterqueues", "workloadpriorityclasses")


class RequestRefused(AgentError):
    """Error for a request that the API server refuses: `status` is HTTP's, the text the server's
    own. A caller whose request may be refused adds what it asked for."""

    def __init__(self, status: int, message: str) -> None:
        text = f"the API server of Kubernetes refuses: {message}"
        hint, exit_code = (RIGHTS, 4) if status in (UNKNOWN, FORBIDDEN) else ("", 2)
        super().__init__("refused-request", text, hint, exit_code)
        self.args = (message,)
        self.status = status


@contextmanager
def suppressed(*statuses: int) -> Iterator[None]:
    """Ends the block without an error if the API server refuses a request in it with such a
    status."""
    try:
        yield
    except RequestRefused as refused:
        if refused.status not in statuses:
            raise


@dataclass
class Api:
    """The server and this pod's account, whose namespace holds everything of a target."""

    # The folder of the pod's credentials; the variable is for tests.
    account: Path = field(
        default_factory=lambda: Path(os.environ.get("FAIRWAY_SERVICE_ACCOUNT") or _ACCOUNT)
    )
    _connection: http.client.HTTPSConnection | None = field(default=None, repr=False)

    @property
    def namespace(self) -> str:
        """This pod's namespace."""
        return self._read("namespace")

    @cached_property
    def kueue(self) -> str:
        """Path of Kueue's API, in the version that Kueue prefers; "" without Kueue."""
        with suppressed(NOT_FOUND):
            return f"/apis/{self.call('GET', _KUEUE)['preferredVersion']['groupVersion']}"
        return ""

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns one object; None if it does not exist."""
        with suppressed(NOT_FOUND):
            return dict(self.call("GET", self._path(kind, name)))
        return None

    def list(self, kind: str, query: Mapping[str, str]) -> Sequence[dict[str, Any]]:
        """Returns the objects that the query selects."""
        path = self._path(kind)
        for _ in range(_LISTS):
            listed: list[dict[str, Any]] = []
            page = {**query, "limit": str(_PAGE)}
            with suppressed(EXPIRED):
                while True:
                    found = self.call("GET", f"{path}?{urlencode(page)}")
                    listed += found.get("items") or ()
                    page["continue"] = (found.get("metadata") or {}).get("continue") or ""
                    if not page["continue"]:
                        return listed
        text = "the API server of Kubernetes drops its lists before they are read to the end"
        raise AgentError(NO_ANSWER, text, DOWN)

    def create(self, kind: str, manifest: Mapping[str, Any]) -> bool:
        """Creates an object; returns False if one of that name exists, perhaps from an interrupted
        request."""
        with suppressed(TAKEN):
            self.call("POST", self._path(kind), manifest)
            return True
        return False

    def delete(self, kind: str, name: str, *, at_once: bool = False) -> None:
        """Deletes an object after all that it owns, or `at_once`: with 1 second of grace. Does
        nothing if it is gone."""
        options = {"gracePeriodSeconds": 1} if at_once else {"propagationPolicy": "Foreground"}
        with suppressed(NOT_FOUND):
            self.call("DELETE", self._path(kind, name), options)

    def patch(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """Changes fields of an object; does nothing if it is gone."""
        with suppressed(NOT_FOUND):
            self.call("PATCH", self._path(kind, name), change)

    def close(self) -> None:
        """Closes the connection; later requests open another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Returns the API server's answer. Raises RequestRefused if it refuses, AgentError if it is
        down."""
        end, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
        kind = "strategic-merge-patch+json" if method == "PATCH" else "json"
        headers = {"Accept": "application/json", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        while True:
            headers["Authorization"] = f"Bearer {self._read('token')}"  # the file is rotated
            after = ""
            try:
                connection = self._connect()
                connection.request(method, path, data, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status not in _TRANSIENT:
                    break
                why, after = f"HTTP {answer.status}", answer.headers.get("Retry-After", "")
            except (OSError, http.client.HTTPException) as error:
                self.close()
                why = str(error) or type(error).__name__
            wait = max(float(after) if after.isdecimal() else 0.0, pause)
            if time.monotonic() + wait > end:
                why = f"the API server of Kubernetes does not answer: {why}"
                raise AgentError(NO_ANSWER, why, DOWN)
            time.sleep(wait)
            pause = min(_LONGEST_PAUSE, 2 * pause)
        try:
            found = json.loads(text)
        except ValueError:
            found = {"message": text.decode(errors="replace").strip()[:200]}
        if answer.status >= http.client.BAD_REQUEST:
            message = found.get("message") if isinstance(found, dict) else ""
            raise RequestRefused(answer.status, str(message or f"HTTP {answer.status}"))
        return found

    def _connect(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            try:
                host = os.environ["KUBERNETES_SERVICE_HOST"]
                port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
            except KeyError:
                hint = "create it with: fairway targets prepare TARGET --apply"
                raise AgentError("no-head", "this is not the head pod of a target", hint) from None
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=_TIMEOUT, context=context
            )
        return self._connection

    def _path(self, kind: str, name: str = "") -> str:
        base = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        base = self.kueue if kind in _OF_KUEUE else base
        place = "" if kind in _OF_CLUSTER else f"/namespaces/{self.namespace}"
        return f"{base}{place}/{kind}{f'/{quote(name)}' if name else ''}"

    def _read(self, name: str) -> str:
        try:
            return (self.account / name).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            hint = "its pod has no service account: fairway targets prepare TARGET --print"
            raise AgentError("no-head", f"{self.account / name} is missing", hint) from None


# The controller appends the highest index to a Job's pods' names, which are host names.
_NAME_LENGTH = 52
_LABEL_LENGTH = 63
_DIGEST = 8

RUN, SUBMISSION, PART = "fairway.dev/run", "fairway.dev/submission", "fairway.dev/part"
"""Labels of everything that belongs to a run."""
CONTROLLER = "controller"
"""Part of a run that starts the others, and ends blocked ones."""
CONDITION = "HardwareFault"
"""Condition of a node that its health check writes: True if it has a fault."""
CORDONED = "fairway.dev/cordoned"
"""Annotation of a node that its health check has cordoned: the reason. It uncordons no others."""
BOOT = "fairway.dev/cordoned-boot"
"""Annotation: the boot of the node during which the health check cordoned it."""
HELD = "fairway.dev/held-for-drivers"
"""Annotation of a new node whose deletion its health check prevents with KEPT."""
KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""Annotation that keeps the autoscaler from deleting an unused node."""
MACHINE = "fairway.dev/machine"
"""Annotation with a node's VM and host, in the form that `fairway_core.machine` reads; `nodes`
trusts it only if its VM is the node's."""


def job_name(run: str, submission: int, part: int | str) -> str:
    """Returns the name of a part's Job: a function of the arguments, so that no part can exist
    twice.

    >>> job_name("digits-7k2m9p", 0, 1), len(job_name("a" * 63, 12, 345))
    ('digits-7k2m9p-0-1', 52)
    """
    end = f"-{submission}-{part}"
    return f"{_cut(run, _NAME_LENGTH - len(end))}{end}"


def run_label(run: str) -> str:
    """Returns the run's id as the value of a label, which must end with a letter or a digit."""
    return run if run[-1].isalnum() else _cut(run, _LABEL_LENGTH - 1 - _DIGEST, always=True)


def _cut(run: str, room: int, *, always: bool = False) -> str:
    if len(run) <= room and not always:
        return run
    digest = hashlib.sha256(run.encode()).hexdigest()[:_DIGEST]
    return f"{run[: room - _DIGEST - 1].rstrip('-')}-{digest}"

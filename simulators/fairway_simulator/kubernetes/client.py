"""A plain client of any API server."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE = 60.0  # seconds for an answer
_QUIET = 90.0  # seconds without a line after which a watch starts again


class ErrorResponse(Exception):
    """Error response to a request; `code` is 0 if there was no response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    def __init__(self, url: str, tls: ssl.SSLContext, token: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 443
        self._tls = tls
        self._token = token

    @classmethod
    def of_kubeconfig(cls, file: Path) -> Client:
        """Returns a client for a kubeconfig that a stand-in has written."""
        config = json.loads(file.read_text("utf-8"))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        return cls(cluster["server"], tls, user["token"])

    def get(self, path: str) -> dict[str, Any]:
        return self.send("GET", path)

    def send(
        self, method: str, path: str, body: Any = None, form: str = "application/json"
    ) -> dict[str, Any]:
        connection = self._connection(_PATIENCE)
        try:
            text = None if body is None else json.dumps(body).encode()
            connection.request(method, path, text, {**self._headers(), "Content-Type": form})
            response = connection.getresponse()
            found = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ErrorResponse(0, str(error)) from None
        finally:
            connection.close()
        if response.status >= 300:
            raise ErrorResponse(response.status, str(found.get("message", "")))
        answer: dict[str, Any] = found
        return answer

    def watch(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields changes below a path, as (kind, object), until the server ends the watch."""
        connection = self._connection(_QUIET)
        try:
            connection.request("GET", path, headers=self._headers())
            response = connection.getresponse()
            if response.status != 200:
                raise ErrorResponse(response.status, response.read().decode(errors="replace"))
            while line := response.readline():
                found = json.loads(line)
                yield found["type"], found["object"]
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ErrorResponse(0, str(error)) from None
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self._tls)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

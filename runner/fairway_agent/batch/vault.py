"""The job's secrets, read from the environment's vault by the node's own identity."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from fairway_agent.batch import metadata

if TYPE_CHECKING:
    from fairway_agent.batch.places import Places

_TRIES = 5
_TIMEOUT = 30.0


def secret_values(places: Places) -> dict[str, str]:
    """The value of each secret by its variable; OSError, without any value, where one cannot
    be read."""
    if not places.secrets:
        return {}
    identity = str(places.target["batch"].get("identity", ""))
    token = metadata.token("https://vault.azure.net", identity)
    address = str(places.target["vault_url"]).rstrip("/")
    return {
        variable: _read(f"{address}/secrets/{source.removeprefix('keyvault:')}", token)
        for variable, source in places.secrets.items()
    }


def _read(url: str, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}?api-version=7.4", None, headers)  # noqa: S310
    for wait in range(_TRIES):
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                return str(json.loads(answer.read())["value"])
        except urllib.error.HTTPError as error:
            error.close()
            last: OSError = error
            if error.code != 429 and error.code < 500:
                break
        except OSError as error:
            last = error
        time.sleep(2**wait)
    raise OSError(f"the secret {url} cannot be read: {last}")

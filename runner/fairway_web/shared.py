"""Starts the server that several people use, behind a proxy that signs them in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairway_core.documents import Document
from fairway_core.findings import UserError
from fairway_core.project import Serve
from fairway_core.yaml_text import parse_yaml
from fairway_runner.live.cloud import chosen_cloud
from fairway_runner.targets.lookup import find_target, server_settings
from fairway_web.behind_proxy import BehindProxy
from fairway_web.identity import Verifier
from fairway_web.signing_keys import SigningKeys, fetched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairway_runner.runs.store import RunStore

AUDIT = "audit.jsonl"
_OPTIONS = {"url": "--public-url", "tenant": "--tenant", "audience": "--audience"}


def door_of(store: RunStore, given: Mapping[str, str | None]) -> BehindProxy:
    """The way in by what is `given`, and by `serve:` of fairway.yaml for the rest; UserError where
    something is missing or wrong."""
    own = {name: value for name, value in given.items() if value is not None}
    try:
        said = Document(parse_yaml("{}", "options"), own).validate(Serve)
    except UserError as error:
        first = error.findings[0]
        option = _OPTIONS.get(first.path, first.path)
        why = first.message.removeprefix(f"`{first.path}`: ")
        raise UserError.of("bad-value", f"{option}: {why}", first.hint) from None
    known = server_settings().model_copy(update=said.model_dump(exclude_unset=True))
    missing = [option for name, option in _OPTIONS.items() if getattr(known, name) is None]
    if missing:
        message = f"--behind-proxy needs {', '.join(missing)}"
        hint = "give them, or write url, tenant and audience below `serve:` in fairway.yaml"
        raise UserError.of("bad-value", message, hint)
    for name in known.targets:
        find_target(name)
    cloud = chosen_cloud()
    fetch = partial(fetched, cloud.login, str(known.tenant), cloud.authorities)
    verifier = Verifier(SigningKeys(fetch), str(known.audience))
    return BehindProxy(str(known.url), verifier, store.base / AUDIT)

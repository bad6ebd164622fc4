"""Conditional requests: If-Match and its kin against an entity's ETag."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from fairway_simulator.batch.clock import parse_time
from fairway_simulator.batch.wire.errors import ServiceError

if TYPE_CHECKING:
    from fairway_simulator.batch.model.entity import Entity
    from fairway_simulator.batch.wire.http import Request


def check(request: Request, entity: Entity) -> None:
    """412 where a condition of the request does not hold, 304 for an entity known already."""
    headers = request.headers
    wanted = headers.get("if-match")
    if wanted and not _matches(wanted, entity.etag):
        raise ServiceError(412, "ConditionNotMet")
    unwanted = headers.get("if-none-match")
    if unwanted and _matches(unwanted, entity.etag):
        raise ServiceError(304 if request.method in {"GET", "HEAD"} else 412, "ConditionNotMet")
    _check_times(request, entity.last_modified)


def _check_times(request: Request, last_modified: str) -> None:
    modified = parse_time(last_modified).replace(microsecond=0)
    since = request.headers.get("if-modified-since")
    if since and modified <= parsedate_to_datetime(since):
        raise ServiceError(304 if request.method in {"GET", "HEAD"} else 412, "ConditionNotMet")
    until = request.headers.get("if-unmodified-since")
    if until and modified > parsedate_to_datetime(until):
        raise ServiceError(412, "ConditionNotMet")


def _matches(header: str, etag: str) -> bool:
    tags = [tag.strip().strip('"') for tag in header.split(",")]
    return "*" in tags or etag in tags

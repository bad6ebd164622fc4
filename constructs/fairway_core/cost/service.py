"""Client of Azure's public retail-price service, with paging and retries, without credentials.

A meter has a dozen rows, most of them for Windows, for reservations or for discontinued products.
The remaining rows must agree on one price; otherwise it is unknown. Source: Azure Retail Prices
documentation.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from fairway_core.cost.meters import GLOBAL, HOURS_A_MONTH, Meter, service_url
from fairway_core.findings import UserError
from fairway_core.light_fields import DEAREST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_VERSION = "2023-01-01-preview"
_TRIES = 6
# For missing or incomplete responses: a machine without a network must not wait long.
_TRIES_TO_REACH = 3
_LONGEST_WAIT = 30.0
_TIMEOUT, _SHORTEST_TIMEOUT = 30.0, 0.1
DEADLINE = 120.0
"""Seconds for which a request is retried by default."""
_MOST_PAGES = 50
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_MARKS_OF_OTHERS = (" Win", "Cloud Services", "CloudServices", "Dedicated")
_HOURS = {"hour": 1.0, "day": 24.0, "month": float(HOURS_A_MONTH)}


@dataclass
class PriceService:
    """A client of the service that retries each request for up to `deadline` seconds; `wait` sleeps
    between retries. `watch` is a context manager around each request: if it yields an object, that
    object's method `failed` is called with each failure."""

    url: str = field(default_factory=service_url)
    wait: Callable[[float], None] = time.sleep
    deadline: float = DEADLINE
    watch: Callable[[], AbstractContextManager[Any]] = nullcontext
    clock: Callable[[], float] = time.monotonic

    def hourly(self, meter: Meter, region: str) -> float | None:
        """Returns US dollars per hour for one unit of the meter, or None if there is not one price.
        Raises UserError, exit code 5, if the service cannot be reached or keeps failing."""
        rows = self._rows(_filter(meter, "Global" if meter.is_global else region))
        prices = {price for row in rows if (price := hourly_price(row, meter)) is not None}
        return prices.pop() if len(prices) == 1 else None

    def everywhere(self, meters: Sequence[Meter]) -> dict[tuple[str, str], float]:
        """Returns the US dollars per hour for one unit of each meter, which have the same fields,
        by region and meter name, where there is one price. Raises UserError, exit code 5, if the
        service cannot be reached or keeps failing."""
        found: dict[tuple[str, str], set[float]] = {}
        for row in self._rows(_filter(meters[0], None)):
            region = str(row.get("armRegionName")).lower()
            for meter in meters:
                price = hourly_price(row, meter)
                if price is not None and meter.is_global is (region == GLOBAL):
                    found.setdefault((region, meter.name), set()).add(price)
        return {key: prices.pop() for key, prices in found.items() if len(prices) == 1}

    def _rows(self, filter_: str) -> Iterator[dict[str, Any]]:
        query = {"api-version": _VERSION, "currencyCode": "'USD'", "$filter": filter_}
        encoded = urllib.parse.urlencode(query, safe="$", quote_via=urllib.parse.quote)
        page: str | None = f"{self.url}?{encoded}"
        for _ in range(_MOST_PAGES):
            if page is None:
                return
            with self.watch() as watched:
                answer = self._tried(page, watched)
            items = answer.get("Items")
            if not isinstance(items, list):
                raise _failed("its answer has no `Items`")
            yield from (item for item in items if isinstance(item, dict))
            page = answer.get("NextPageLink") or None
            if page is not None and _origin(page) != _origin(self.url):
                raise _failed(f"its next page is elsewhere: {_origin(page)[1]}")
        raise _failed(f"more than {_MOST_PAGES} pages for one price")

    def _tried(self, url: str, watched: Any) -> dict[str, Any]:
        reason, end, unreached = "", self.clock() + self.deadline, 0
        for attempt in range(_TRIES):
            timeout = max(_SHORTEST_TIMEOUT, min(_TIMEOUT, end - self.clock()))
            try:
                # `service_url` and `_rows` allow only https and this machine.
                with urllib.request.urlopen(url, timeout=timeout) as response:  # noqa: S310
                    answer = json.load(response)
                if not isinstance(answer, dict):
                    raise _failed("its answer is not an object")
                return answer
            except urllib.error.HTTPError as error:
                with error:
                    reason = f"HTTP {error.code}"
                    if error.code not in _RETRIED:
                        raise _failed(reason) from None
                    wanted = error.headers.get("Retry-After")
            except (OSError, HTTPException, ValueError) as error:
                reason, wanted = str(getattr(error, "reason", error)) or type(error).__name__, None
                unreached += 1
                if unreached >= _TRIES_TO_REACH:
                    break
            if watched is not None:
                watched.failed(reason)
            pause = _pause(attempt, wanted)
            if attempt + 1 == _TRIES or self.clock() + pause >= end:
                break
            self.wait(pause)
        raise _failed(f"{reason}, {f'{attempt + 1} times' if attempt else 'once'}")


def hourly_price(row: dict[str, Any], meter: Meter) -> float | None:
    """Returns the hourly price of one unit from a row of the service, or None for other rows."""
    price, name = row.get("retailPrice"), str(row.get("skuName"))
    if not isinstance(price, int | float) or isinstance(price, bool):
        return None
    if row.get("type") != "Consumption" or not 0 < price <= DEAREST:
        return None
    # Fields are compared here too: the service has been seen to return other rows as well.
    if any(row.get(field_) != value for field_, value in meter.fields):
        return None
    if dict(meter.fields).get("serviceName") == "Virtual Machines":
        if any(mark in str(row.get("productName")) for mark in _MARKS_OF_OTHERS):
            return None
        if name.endswith(" Low Priority") or name.endswith(" Spot") is not meter.spot:
            return None
    count, hours = _unit(str(row.get("unitOfMeasure")))
    return None if hours is None else float(price) / count / hours


def _unit(text: str) -> tuple[float, float | None]:
    """Returns units and hours of a price, from text like `1 GiB/Month`, `1 Hour` or `1/Day`."""
    number, _, _ = text.partition(" ")
    number = number.partition("/")[0].replace(",", "")
    hours = _HOURS.get(text.replace("/", " ").rpartition(" ")[2].lower())
    return (float(number), hours) if number.isdecimal() and float(number) > 0 else (1.0, None)


def _filter(meter: Meter, region: str | None) -> str:
    """Returns the query's filter for a meter; a `region` of None means all regions."""
    of_region = () if region is None else (("armRegionName", region),)
    fields = (*of_region, ("priceType", "Consumption"), *meter.fields)
    return " and ".join(name + " eq '" + value.replace("'", "''") + "'" for name, value in fields)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Returns scheme, host and port; the service's links include the default port of https."""
    parts = urllib.parse.urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _pause(attempt: int, wanted: str | None) -> float:
    """Returns the seconds to wait: those that the service requests, or an exponential backoff."""
    asked = float(wanted) if wanted and wanted.isdecimal() else 2.0**attempt
    return min(asked, _LONGEST_WAIT)


def _failed(reason: str) -> UserError:
    return UserError.of(
        "prices-unreachable",
        f"Azure's price service: {reason}",
        "using only stored prices, as with --offline: earlier answers and a dated snapshot",
        exit_code=5,
    )

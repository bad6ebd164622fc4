"""Cached prices in the user's cache directory, each with its date."""

from __future__ import annotations

import datetime
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_core.cost.meters import meter, service_url
from fairway_core.cost.prices import Price, read_prices, snapshot
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairway_core.cost.prices import Prices
    from fairway_core.cost.service import PriceService

DAYS = 7
"""Days for which a price is cached."""

_SOURCE = "Azure's price service"
_VERSION = 1


def cache_folder() -> Path:
    """Returns the folder of cached prices: below XDG_CACHE_HOME, `~/.cache` by default."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    # By the XDG Base Directory Specification a relative path is ignored.
    if Path(named).is_absolute():
        return Path(named) / "fairway" / "prices"
    try:
        return Path.home() / ".cache" / "fairway" / "prices"
    except RuntimeError:
        return Path(os.devnull) / "prices"  # without a home nothing is cached


@dataclass
class CachedPrices:
    """Prices of the service, cached for seven days; without a `service` cached ones of any age, and
    those of the snapshot.

    A price that the service does not know is cached as unknown. Prices from another service address
    are ignored. Failing to write a file is no error. With `warn` neither is a failure of the
    service: it is called with the error, and the service not again.
    """

    service: PriceService | None = None
    folder: Path = field(default_factory=cache_folder)
    today: Callable[[], datetime.date] = lambda: datetime.datetime.now(datetime.UTC).date()
    warn: Callable[[UserError], None] | None = None
    currency: str = "USD"  # only prices in that currency are what Azure bills by
    _regions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def price(self, meter_name: str, region: str) -> Price | None:
        """Returns the cached price or, if it is too old, the service's; None if it is unknown.
        Raises UserError if the service fails and there is no `warn`."""
        if region not in self._regions:
            self._regions[region] = _read(self._file(region))
        kept = self._regions[region]
        entry = kept.get(meter_name)
        if self.service is not None and (entry is None or self._is_old(entry)):
            try:
                amount = self.service.hourly(meter(meter_name), region)
            except UserError as error:
                if self.warn is None:
                    raise
                self.service = None
                self.warn(error)
            else:
                entry = kept[meter_name] = {"hourly": amount, "date": self.today().isoformat()}
                self._write(region)
        if entry is None or entry["hourly"] is None:
            return snapshot().price(meter_name, region) if self.service is None else None
        return Price(entry["hourly"], _SOURCE, datetime.date.fromisoformat(entry["date"]))

    def _is_old(self, entry: dict[str, Any]) -> bool:
        age = self.today() - datetime.date.fromisoformat(entry["date"])
        return not datetime.timedelta() <= age < datetime.timedelta(days=DAYS)

    def _file(self, region: str) -> Path:
        return self.folder / f"{region}.json"

    def _write(self, region: str) -> None:
        """Writes the file atomically, merged with what other processes have written meanwhile."""
        import tempfile  # a review reads prices, and must start quickly

        entries = {**_read(self._file(region)), **self._regions[region]}
        facts = {"version": _VERSION, "url": service_url(), "prices": entries}
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{region}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as draft:
                    json.dump(facts, draft, indent=1, sort_keys=True)
                Path(name).replace(self._file(region))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise


def cached_prices(file: Path | None = None) -> Prices:
    """Returns prices without network access: of `file`, or the cached ones and the snapshot."""
    if file is not None:
        return read_prices(file)
    return CachedPrices()


def _read(file: Path) -> dict[str, Any]:
    """Returns the entries of a file, or none if it is missing, broken, or from another service."""
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        if facts["version"] != _VERSION or facts["url"] != service_url():
            return {}
        return {name: entry for name, entry in facts["prices"].items() if _is_sound(entry)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_sound(entry: Any) -> bool:
    datetime.date.fromisoformat(entry["date"])
    amount = entry["hourly"]
    return amount is None or (isinstance(amount, float) and amount > 0)

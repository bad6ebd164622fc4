"""Prices by meter and region, and the two kinds of files that they may come from.

A price file is TOML, like those of the catalogue below `prices/`, one per region:

    [[prices]]
    region = "westeurope"      # as Azure spells it; "global" for what costs the same everywhere
    currency = "USD"
    source = "our agreement"
    date = 2026-11-21
    [prices.hourly]            # an hour, for one unit of a meter of meters.toml
    "vm/Standard_ND96isr_H100_v5" = 90.0
"""

from __future__ import annotations

import datetime
import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fairway_core import catalog
from fairway_core.cost.meters import GLOBAL, meter
from fairway_core.findings import UserError
from fairway_core.light_fields import DEAREST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fairway_core.target import Target

FOLDER = Path(catalog.__file__).parent / "prices"
"""The folder of the snapshot."""

_REGION = re.compile(r"[a-z0-9]+")
_FORM = "name a TOML file; docs/cost.md shows the format"
_CURRENCY = re.compile(r"[A-Z]{3}")
_KEYS = {"region", "currency", "source", "date", "hourly"}


@dataclass(frozen=True)
class Price:
    """The hourly price of one unit of a meter, its source, and its date."""

    hourly: float
    source: str
    date: datetime.date


class Prices(Protocol):
    """A source of prices."""

    @property
    def currency(self) -> str:
        """The currency of all prices, by ISO code."""

    def price(self, meter: str, region: str) -> Price | None:
        """Returns the price of a meter in a region, or None if it is unknown."""


@dataclass(frozen=True)
class PriceTable:
    """Prices in memory, by region and meter."""

    currency: str = "USD"
    rows: Mapping[tuple[str, str], Price] = field(default_factory=dict)

    def price(self, meter: str, region: str) -> Price | None:
        """Returns the price in the region, or the global one."""
        return self.rows.get((region, meter)) or self.rows.get((GLOBAL, meter))


@dataclass(frozen=True)
class Snapshot:
    """Prices in a folder, which reads only the files of requested regions."""

    folder: Path
    currency: str = "USD"

    def price(self, meter: str, region: str) -> Price | None:
        """Returns the price in the region, or the global one."""
        rows = _of_region(self.folder, region), _of_region(self.folder, GLOBAL)
        return rows[0].get((region, meter)) or rows[1].get((GLOBAL, meter))

    @property
    def regions(self) -> list[str]:
        """Regions for which the snapshot has prices, without global ones."""
        return sorted({file.stem for file in self.folder.glob("*.toml")} - {GLOBAL})

    @property
    def rows(self) -> Mapping[tuple[str, str], Price]:
        """All prices by region and meter."""
        found = (_of_region(self.folder, region) for region in (*self.regions, GLOBAL))
        return {key: price for rows in found for key, price in rows.items()}


def snapshot() -> Snapshot:
    """Returns the prices that come with Fairway, in US dollars."""
    return Snapshot(FOLDER)


@cache
def _of_region(folder: Path, region: str) -> Mapping[tuple[str, str], Price]:
    file = folder / f"{region}.toml"
    if not _REGION.fullmatch(region) or not file.is_file():
        return {}
    return {
        key: replace(price, source=f"Fairway's own snapshot: {price.source}")
        for key, price in read_prices(file).rows.items()
    }


def read_prices(file: Path) -> PriceTable:
    """Reads the prices in a file. Raises UserError if it is missing or not a price file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError.of("no-such-file", f"{file}: no such file", _FORM) from None
    except UnicodeDecodeError:
        raise UserError.of("unreadable-prices", f"{file}: it is not UTF-8 text", _FORM) from None
    except OSError as error:
        raise UserError.of("unreadable-prices", f"{file}: {error.strerror}", _FORM) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError.of("not-toml", f"{file}: {error}", "docs/cost.md shows one") from None
    except RecursionError:
        raise UserError.of("not-toml", f"{file}: nested too deeply", _FORM) from None
    return _price_table(data, str(file))


def _price_table(data: Mapping[str, Any], file: str) -> PriceTable:
    tables = data.get("prices")
    if not isinstance(tables, list) or not tables:
        raise _wrong(file, "holds no `[[prices]]`")
    rows: dict[tuple[str, str], Price] = {}
    currencies = set()
    for one in tables:
        rows.update(_rows(one, file))
        currencies.add(one["currency"])
    if len(currencies) > 1:
        raise _wrong(file, f"prices in {' and '.join(sorted(currencies))} cannot be added up")
    return PriceTable(currencies.pop(), rows)


def _rows(one: Any, file: str) -> Iterable[tuple[tuple[str, str], Price]]:
    if not isinstance(one, dict) or set(one) != _KEYS:
        odd = ", ".join(sorted(_KEYS.symmetric_difference(one if isinstance(one, dict) else ())))
        raise _wrong(file, f"each `[[prices]]` has {', '.join(sorted(_KEYS))}; look at {odd}")
    date = one["date"]
    if not isinstance(date, datetime.date) or isinstance(date, datetime.datetime):
        raise _wrong(file, f"`date = {date!r}` is not a day such as 2026-11-21")
    if not isinstance(one["currency"], str) or not _CURRENCY.fullmatch(one["currency"]):
        raise _wrong(file, f"`{one['currency']}` is not a currency's ISO code such as USD")
    if not isinstance(one["region"], str) or not isinstance(one["source"], str):
        raise _wrong(file, "`region` and `source` are text")
    if not isinstance(one["hourly"], dict):
        raise _wrong(file, "`hourly` holds a price for each meter")
    for name, amount in one["hourly"].items():
        _check_price(name, amount, file)
        yield (one["region"].lower(), name), Price(float(amount), one["source"], date)


def _check_price(name: str, amount: object, file: str) -> None:
    try:
        meter(name)
    except KeyError:
        raise _wrong(file, f"there is no meter `{name}`") from None
    number = isinstance(amount, int | float) and not isinstance(amount, bool)
    # `inf` and `nan` are numbers in TOML.
    if not number or not 0 < float(str(amount)) <= DEAREST:
        hint = f"write one up to {DEAREST}, or leave it out if it is not known"
        raise _wrong(file, f"`{name} = {amount}` is not an hourly price", hint)


def _wrong(file: str, message: str, hint: str = "docs/cost.md shows the format") -> UserError:
    return UserError.of("wrong-prices", f"{file}: {message}", hint)


def node_price(prices: Prices, *, size: str, region: str, spot: bool = False) -> float | None:
    """Returns the hourly list price of a size in the region, or None if it is unknown."""
    if not size or not region:
        return None
    from fairway_core.catalog.sizes import plain_name

    price = prices.price(f"{'spot' if spot else 'vm'}/{plain_name(size)}", region)
    return None if price is None else price.hourly


def price_of(target: Target, prices: Prices) -> float | None:
    """Returns the target's own price of a node and hour, or the list price; None if unknown."""
    if target.price is not None:
        return target.price
    return node_price(prices, size=target.vm_size, region=target.region, spot=target.spot)

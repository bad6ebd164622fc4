"""Updates the snapshot of Azure's list prices: every meter of the catalogue, in every region.

    python -m fairway_core.cost.refresh [FOLDER]

Each meter is requested once, for all regions. A meter for which the request fails keeps its known
prices, with their date; if all requests fail, nothing is written.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fairway_core.catalog import vm_sizes
from fairway_core.catalog.limits import regions
from fairway_core.cost.meters import GLOBAL, all_meters
from fairway_core.cost.prices import FOLDER, Price, read_prices
from fairway_core.cost.service import PriceService
from fairway_core.findings import UserError, format_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from fairway_core.cost.meters import Meter

_SOURCE = "Azure's retail price service, Linux"
_MOST_SILENT = 3  # consecutive failed requests, after which the service counts as down
_HEAD = """\
# A snapshot of Azure's list prices in one region, for where its price service cannot be reached:
# in US dollars, without discounts and taxes. `bin/prices` writes it anew from the service.
#
# `hourly` holds a price an hour for one unit of each meter of meters.toml. A meter that is
# not here has no known price; a price is never taken from another region.
"""


@dataclass
class Refreshed:
    """Results of the requests: prices by region and meter, meters without a response, and regions
    that the catalogue does not have."""

    prices: dict[tuple[str, str], Price] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)
    unknown_regions: set[str] = field(default_factory=set)

    @property
    def unpriced(self) -> list[str]:
        """The sizes without a known price in any region."""
        priced = {name for _, name in self.prices}
        return [size for size in _sizes() if f"vm/{size}" not in priced]


def refresh(
    service: PriceService,
    known: Mapping[tuple[str, str], Price],
    today: datetime.date,
    tell: Callable[[str], None] = lambda _: None,
) -> Refreshed:
    """Requests all prices; meters without a response keep those of `known`. Raises UserError if the
    service does not respond at all."""
    found, misses = Refreshed(), 0
    groups = list(_groups(known))
    for number, meters in enumerate(groups, start=1):
        tell(f"{number} of {len(groups)}: {meters[0].name}")
        try:
            answers = service.everywhere(meters)
        except UserError as error:
            misses += 1
            if misses >= _MOST_SILENT or len(groups) == misses:
                raise
            names = {meter.name for meter in meters}
            found.silent += sorted(names)
            found.prices |= {key: price for key, price in known.items() if key[1] in names}
            tell(format_finding(error.findings[0]))
            continue
        misses = 0
        for (region, name), hourly in answers.items():
            if region == GLOBAL or region in regions():
                found.prices[region, name] = Price(hourly, _SOURCE, today)
            else:
                found.unknown_regions.add(region)
    return found


def write(folder: Path, prices: Mapping[tuple[str, str], Price]) -> None:
    """Writes a file for each region atomically, and removes the files of regions without prices."""
    by_region: dict[str, dict[str, Price]] = defaultdict(dict)
    for (region, name), price in prices.items():
        by_region[region][name] = price
    folder.mkdir(parents=True, exist_ok=True)
    for region, rows in by_region.items():
        draft = folder / f".{region}.{os.getpid()}"
        draft.write_text("\n".join([_HEAD, *_tables(region, rows)]), encoding="utf-8")
        draft.replace(folder / f"{region}.toml")
    for file in folder.glob("*.toml"):
        if file.stem not in by_region:
            file.unlink()


def _tables(region: str, rows: Mapping[str, Price]) -> Iterator[str]:
    """Yields a table for each source and date."""
    tables: dict[tuple[str, datetime.date], dict[str, float]] = defaultdict(dict)
    for name, price in rows.items():
        tables[price.source, price.date][name] = price.hourly
    for (source, date), hourly in sorted(tables.items()):
        lines = [f'"{name}" = {_number(amount)}' for name, amount in sorted(hourly.items())]
        said = json.dumps(source, ensure_ascii=False)  # TOML strings have the same syntax
        head = f'region = "{region}"\ncurrency = "USD"\nsource = {said}\ndate = {date}\n'
        yield f"[[prices]]\n{head}\n[prices.hourly]\n" + "\n".join(lines) + "\n"


def _number(amount: float) -> str:
    """Formats an amount with ten decimals: an hourly share of a monthly price may have no end."""
    text = f"{amount:.10f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _groups(known: Iterable[tuple[str, str]] = ()) -> Iterator[Sequence[Meter]]:
    """Yields the meters of one request: those of a VM and of its Spot price have the same rows.
    Sizes with a known price are included even if the catalogue lacks them."""
    more = {name.removeprefix("vm/") for _, name in known if name.startswith("vm/")}
    groups: dict[tuple[tuple[str, str], ...], list[Meter]] = defaultdict(list)
    for meter in all_meters(dict.fromkeys([*_sizes(), *sorted(more)])):
        groups[meter.fields].append(meter)
    yield from groups.values()


def _sizes() -> list[str]:
    return [size.name for size in vm_sizes().values() if not size.is_retired()]


def main(arguments: Sequence[str], service: PriceService | None = None) -> int:
    """Runs the program and returns its exit code: 5 if nothing was written. A few meters without a
    response are reported but are no failure, so that the weekly run still proposes the rest."""
    folder = Path(arguments[0]) if arguments else FOLDER
    known = {
        key: price
        for file in folder.glob("*.toml")
        for key, price in read_prices(file).rows.items()
    }
    try:
        today = datetime.datetime.now(datetime.UTC).date()
        found = refresh(service or PriceService(), known, today, _tell)
    except UserError as error:
        _tell(format_finding(error.findings[0]))
        _tell("nothing was written")
        return 5
    write(folder, found.prices)
    region_names = {region for region, _ in found.prices}
    said = [f"{len(found.prices):,} prices of {len(region_names)} regions are in {folder}"]
    said += [f"no price in any region: {size}" for size in found.unpriced]
    said += [f"not in regions.toml: {region}" for region in sorted(found.unknown_regions)]
    said += [f"no answer, so kept as it was: {name}" for name in found.silent]
    sys.stdout.writelines(f"{line}\n" for line in said)
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

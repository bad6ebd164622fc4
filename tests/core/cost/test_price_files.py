"""Price files: their valid content, what is refused, and refreshing those of the snapshot from the
service."""

import datetime
from pathlib import Path
from typing import Any

import pytest
from endings import refused

from fairway_core.cost import refresh
from fairway_core.cost.cache import cached_prices
from fairway_core.cost.prices import Price, Snapshot, read_prices, snapshot
from fairway_core.cost.service import PriceService
from fairway_core.findings import UserError

SIZE, OTHER = "Standard_ND96isr_H100_v5", "Standard_HB176rs_v4"
DAY = datetime.date(2026, 9, 1)


@pytest.fixture
def service(price_server: Any, monkeypatch: pytest.MonkeyPatch) -> PriceService:
    """Returns a service that knows two sizes, a disk and a gateway and is asked for no others."""
    meters = {f"vm/{SIZE}", f"spot/{SIZE}", f"vm/{OTHER}", f"spot/{OTHER}"}
    meters |= {"premium/P10", "nat_gateway"}
    every = refresh.all_meters
    monkeypatch.setattr(
        refresh, "all_meters", lambda sizes: [one for one in every(sizes) if one.name in meters]
    )
    for region, hourly in (("eastus", 98.32), ("westeurope", 127.0), ("marscentral", 999.0)):
        price_server.add(armRegionName=region, retailPrice=hourly)
        price_server.add(armRegionName=region, retailPrice=hourly / 4, skuName="ND96isr Spot")
        price_server.add(armRegionName=region, productName="NDsr Series Windows", retailPrice=150)
    disk = {"serviceName": "Storage", "productName": "Premium SSD Managed Disks"}
    disk |= {"meterName": "P10 LRS Disk", "unitOfMeasure": "1/Month", "retailPrice": 19.71}
    price_server.add(**disk)
    gateway = {"serviceName": "NAT Gateway", "meterName": "Standard Gateway"}
    price_server.add(**gateway, armRegionName="Global", retailPrice=0.045)
    return PriceService(wait=lambda _: None)


def _hourly(folder: Path) -> dict[tuple[str, str], float]:
    return {key: price.hourly for key, price in Snapshot(folder).rows.items()}


ALL = {
    ("eastus", f"vm/{SIZE}"): 98.32,
    ("eastus", f"spot/{SIZE}"): 24.58,
    ("eastus", "premium/P10"): 0.027,
    ("westeurope", f"vm/{SIZE}"): 127.0,
    ("westeurope", f"spot/{SIZE}"): 31.75,
    ("global", "nat_gateway"): 0.045,
}


def test_price_refresh_fills_all_regions_with_one_query_per_size(
    price_server: Any, service: PriceService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All pages are read, despite refusals and a truncated answer."""
    price_server.refusals += [429, 503, 0, 429]
    assert refresh.main([str(tmp_path)], service) == 0
    assert _hourly(tmp_path) == ALL
    first = [query for query in price_server.queries if "skip=" not in query]
    assert len(first) == 4 + 4, "two sizes, a disk and a gateway; four were asked again"
    said = capsys.readouterr().out
    assert "6 prices of 3 regions" in said
    assert f"no price in any region: {OTHER}\n" in said
    assert f"no price in any region: {SIZE}\n" not in said
    assert "not in regions.toml: marscentral" in said
    (price,) = {price.date for price in Snapshot(tmp_path).rows.values()}
    assert price == datetime.datetime.now(datetime.UTC).date()


def test_price_refresh_removes_prices_no_longer_sold_or_ambiguous(
    price_server: Any, service: PriceService, tmp_path: Path
) -> None:
    old = {("eastus", f"vm/{OTHER}"): Price(7.2, 'said "so"', DAY)}
    refresh.write(tmp_path, {**old, ("ukwest", f"vm/{OTHER}"): Price(8.0, "old", DAY)})
    assert read_prices(tmp_path / "eastus.toml").rows == old
    price_server.add(armRegionName="westeurope", retailPrice=128.0)
    assert refresh.main([str(tmp_path)], service) == 0
    assert _hourly(tmp_path) == {
        key: hourly for key, hourly in ALL.items() if key != ("westeurope", f"vm/{SIZE}")
    }
    assert not (tmp_path / "ukwest.toml").exists()


def test_price_refresh_keeps_prices_whose_query_failed(
    price_server: Any, service: PriceService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest is written: otherwise one failure would leave the weekly run without a change."""
    known = {("eastus", f"vm/{SIZE}"): Price(90.0, "before", DAY)}
    refresh.write(tmp_path, known)
    price_server.refusals += [400]  # the first question is about that size
    assert refresh.main([str(tmp_path)], service) == 0
    found = Snapshot(tmp_path).rows
    assert (found["eastus", f"vm/{SIZE}"].hourly, found["eastus", f"vm/{SIZE}"].date) == (90.0, DAY)
    assert found["eastus", "premium/P10"].hourly == 0.027
    captured = capsys.readouterr()
    assert f"no answer, so kept as it was: vm/{SIZE}" in captured.out
    assert "HTTP 400" in captured.err


def test_price_refresh_writes_nothing_if_every_query_fails(
    price_server: Any, service: PriceService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refresh.write(tmp_path, {("eastus", f"vm/{SIZE}"): Price(90.0, "before", DAY)})
    before = (tmp_path / "eastus.toml").read_bytes()
    price_server.refusals += [400] * 99
    assert refresh.main([str(tmp_path)], service) == 5
    assert "nothing was written" in capsys.readouterr().err
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]


@pytest.mark.parametrize("price", [float("nan"), float("inf"), 1e308, -1.0, True, "9", None])
def test_price_refresh_ignores_invalid_prices(
    price_server: Any, service: PriceService, tmp_path: Path, price: Any
) -> None:
    price_server.add(armRegionName="northeurope", retailPrice=price)
    assert refresh.main([str(tmp_path)], service) == 0
    assert _hourly(tmp_path) == ALL


def test_price_refresh_reproduces_the_committed_snapshot(tmp_path: Path) -> None:
    here = {
        key: price
        for file in snapshot().folder.iterdir()
        for key, price in read_prices(file).rows.items()
    }
    refresh.write(tmp_path, here)
    assert _hourly(tmp_path) == {key: price.hourly for key, price in here.items()}
    assert "../evil" not in Snapshot(tmp_path).regions
    assert snapshot().price("vm/x", "../prices/eastus") is None


def test_price_refresh_queries_every_size_and_meter_of_the_catalog() -> None:
    names = {meter.name for group in refresh._groups(snapshot().rows) for meter in group}
    assert {f"vm/{SIZE}", f"spot/{OTHER}", "premium/P80", "standard_hdd/S4"} <= names
    assert {"files/ZRS", "registry/Premium", "bastion/Basic", "public_ip"} <= names
    assert "vm/Standard_NC6" not in names, "it is retired"
    assert {name for _, name in snapshot().rows} <= names


GOOD = """
[[prices]]
region = "WestEurope"
currency = "EUR"
source = "our agreement"
date = 2026-11-21
[prices.hourly]
"vm/Standard_ND96isr_H100_v5" = 90
"""


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    return file


def test_price_file_is_read_with_currency_region_and_source_and_not_mixed_with_the_snapshot(
    tmp_path: Path,
) -> None:
    prices = cached_prices(_file(tmp_path, GOOD))
    assert prices.currency == "EUR"
    price = prices.price("vm/Standard_ND96isr_H100_v5", "westeurope")
    assert price is not None
    assert (price.hourly, price.source) == (90.0, "our agreement")
    assert prices.price("vm/Standard_ND96isr_H100_v5", "eastus") is None
    assert prices.price("nat_gateway", "westeurope") is None


def test_prices_without_file_come_from_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    price = cached_prices().price("nat_gateway", "westeurope")
    assert price is not None
    assert "snapshot" in price.source


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("= 90", "= 0", "not an hourly price"),
        ("= 90", "= -1", "not an hourly price"),
        ("= 90", "= nan", "not an hourly price"),
        ("= 90", "= inf", "not an hourly price"),
        ("= 90", "= 1e308", "not an hourly price"),
        ("= 90", "= true", "not an hourly price"),
        ("= 90", '= "90"', "not an hourly price"),
        ("vm/", "wm/", "there is no meter `wm/Standard_ND96isr_H100_v5`"),
        ("EUR", "euro", "not a currency"),
        ("2026-11-21", '"today"', "not a day"),
        ("2026-11-21", "2026-11-21T10:00:00", "not a day"),
        ('source = "our agreement"\n', "", "look at source"),
        ('source = "our agreement"', "source = 1", "are text"),
        ("currency", "curency", "look at"),
        ("[[prices]]", "[[price]]", "no `[[prices]]`"),
        ("[prices.hourly]", "[prices.hourly", "prices.toml: "),
        ("= 90\n", f"= 90\n{GOOD.replace('EUR', 'USD')}", "EUR and USD cannot be added"),
    ],
)
def test_price_file_with_invalid_content_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        read_prices(_file(tmp_path, GOOD.replace(old, new)))
    assert said in caught.value.findings[0].message
    assert str(tmp_path) in caught.value.findings[0].message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "Is a directory"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"a = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
    ],
)
def test_price_file_that_is_not_readable_toml_is_refused_with_a_hint(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path if content is None else tmp_path / "b"
    if content is not None:
        file.write_bytes(content)
    finding = refused(lambda: read_prices(file))
    assert finding.message == f"{file}: {said}"
    assert finding.hint == "name a TOML file; docs/cost.md shows the format"
    with pytest.raises(UserError, match="no such file"):
        read_prices(tmp_path / "none.toml")

"""The retail-price service: choosing the right row, retries, and the cache."""

import datetime
import json
import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairway_core.cost.cache import DAYS, CachedPrices, cache_folder
from fairway_core.cost.meters import meter, service_url
from fairway_core.cost.prices import snapshot
from fairway_core.cost.service import PriceService
from fairway_core.findings import UserError

pytestmark = pytest.mark.integration

SIZE = "Standard_ND96isr_H100_v5"
VM, SPOT = meter(f"vm/{SIZE}"), meter(f"spot/{SIZE}")
DAY = datetime.date(2026, 11, 21)


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def service(price_server: Any, waits: list[float]) -> PriceService:
    return PriceService(wait=waits.append)


def _a_dozen_rows(server: Any) -> None:
    server.add()
    server.add(skuName="ND96isr H100 v5 Spot", retailPrice=21.0)
    server.add(skuName="ND96isr H100 v5 Low Priority", retailPrice=22.0)
    server.add(productName="Virtual Machines NDsr H100 v5 Series Windows", retailPrice=102.7)
    server.add(productName="NDsr H100 v5 Series Cloud Services", retailPrice=98.4)
    server.add(productName="NDsr H100 v5 Series Dedicated Host", retailPrice=98.5)
    server.add(type="DevTestConsumption", retailPrice=50.0)
    server.add(type="Reservation", retailPrice=430_000.0)
    server.add(retailPrice=0.0)
    server.add(armRegionName="westeurope", retailPrice=127.0)
    server.add(armSkuName="Standard_ND96isr_H200_v5", retailPrice=84.8)


def test_price_service_finds_the_price_among_similar_rows(
    price_server: Any, service: PriceService
) -> None:
    _a_dozen_rows(price_server)
    assert service.hourly(VM, "eastus") == 98.32
    assert service.hourly(SPOT, "eastus") == 21.0
    assert service.hourly(VM, "westeurope") == 127.0
    assert len(price_server.queries) > 3, "the rows of the first region fill several pages"


def test_price_service_returns_unknown_for_no_row_two_prices_or_zero(
    price_server: Any, service: PriceService
) -> None:
    assert service.hourly(VM, "eastus") is None
    price_server.add()
    price_server.add()
    assert service.hourly(VM, "eastus") == 98.32, "the same price twice is one"
    price_server.add(retailPrice=99.0)
    assert service.hourly(VM, "eastus") is None
    price_server.add(skuName="ND96isr H100 v5 Spot", retailPrice=0.0)
    assert service.hourly(SPOT, "eastus") is None


@pytest.mark.parametrize(
    ("unit", "hourly"),
    [
        ("1 Hour", 73.0),
        ("1/Hour", 73.0),
        ("1 GiB/Hour", 73.0),
        ("1/Month", 0.1),
        ("1 GiB/Month", 0.1),
        ("100 GiB/Month", 0.001),
        ("1/Day", 73.0 / 24),
        ("1 GB", None),
        ("10K", None),
        ("", None),
    ],
)
def test_price_service_converts_units_to_hourly_prices(
    price_server: Any, service: PriceService, unit: str, hourly: float | None
) -> None:
    fields = {"productName": "Azure Premium SSD v2", "serviceName": "Storage", "armSkuName": ""}
    name = "Premium LRS Provisioned Capacity"
    price_server.add(meterName=name, unitOfMeasure=unit, retailPrice=73.0, **fields)
    found = service.hourly(meter("premium_v2/gib"), "eastus")
    assert found == (None if hourly is None else pytest.approx(hourly))


def test_price_service_asks_the_global_region_for_global_prices(
    price_server: Any, service: PriceService
) -> None:
    fields = {"serviceName": "NAT Gateway", "meterName": "Standard Gateway", "retailPrice": 0.045}
    price_server.add(armRegionName="Global", **fields)
    assert service.hourly(meter("nat_gateway"), "westeurope") == 0.045


def test_price_service_retries_refusals_with_growing_waits(
    price_server: Any, service: PriceService, waits: list[float]
) -> None:
    price_server.add()
    price_server.refusals = [429, 503, 500]
    assert service.hourly(VM, "eastus") == 98.32
    assert waits == [7.0, 2.0, 4.0], "first as long as it says, then twice as long each time"


@pytest.mark.parametrize(("code", "times", "said"), [(429, 6, "429, 6 times"), (400, 1, "400")])
def test_price_service_gives_up_after_six_refusals_or_one_bad_request(
    price_server: Any, service: PriceService, waits: list[float], code: int, times: int, said: str
) -> None:
    price_server.refusals = [code] * 100
    with pytest.raises(UserError, match=f"Azure's price service: HTTP {said}") as caught:
        service.hourly(VM, "eastus")
    assert caught.value.exit_code == 5
    assert len(price_server.queries) == times
    assert len(waits) == times - 1


def test_price_service_gives_up_before_its_deadline(price_server: Any, waits: list[float]) -> None:
    failures: list[str] = []
    watched = SimpleNamespace(failed=failures.append)
    service = PriceService(
        wait=waits.append, deadline=10, watch=lambda: nullcontext(watched), clock=lambda: sum(waits)
    )
    price_server.refusals = [500] * 100
    with pytest.raises(UserError, match="HTTP 500, 4 times"):
        service.hourly(VM, "eastus")
    assert waits == [1.0, 2.0, 4.0], "8 more seconds would be too late"
    assert failures == ["HTTP 500"] * 4


def test_price_service_refuses_next_page_on_another_host(
    price_server: Any, service: PriceService
) -> None:
    for _ in range(3):
        price_server.add()
    price_server.elsewhere = "http://127.0.0.2:1/prices"
    with pytest.raises(UserError, match=r"elsewhere: 127\.0\.0\.2"):
        service.hourly(VM, "eastus")


def test_price_service_that_refuses_connections_suggests_offline(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    with socket.socket() as silent:  # bound to the port without listening
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(UserError, match="refused") as caught:
            PriceService(url, waits.append).hourly(VM, "eastus")
    assert caught.value.exit_code == 5
    assert "--offline" in caught.value.findings[0].hint
    assert len(waits) == 2


@pytest.mark.parametrize("url", ["http://prices.example.com", "file:///etc/passwd", "x"])
def test_price_service_url_must_be_https_or_loopback(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWAY_PRICES_URL", url)
    with pytest.raises(UserError, match="is not an https address"):
        service_url()


class TestCache:
    def _cached(self, service: PriceService | None, folder: Path, day: int = 0) -> CachedPrices:
        today = DAY + datetime.timedelta(days=day)
        return CachedPrices(service, folder, lambda: today)

    def test_price_cache_queries_a_price_once_a_week(
        self, price_server: Any, service: PriceService, tmp_path: Path
    ) -> None:
        price_server.add()
        first = self._cached(service, tmp_path).price(VM.name, "eastus")
        assert first is not None
        assert (first.hourly, first.date) == (98.32, DAY)
        price_server.rows[0]["retailPrice"] = 90.0
        again = self._cached(service, tmp_path, DAYS - 1).price(VM.name, "eastus")
        assert again == first
        assert len(price_server.queries) == 1
        later = self._cached(service, tmp_path, DAYS).price(VM.name, "eastus")
        assert later is not None
        assert (later.hourly, later.date) == (90.0, DAY + datetime.timedelta(days=DAYS))

    def test_price_cache_keeps_unknown_prices(
        self, price_server: Any, service: PriceService, tmp_path: Path
    ) -> None:
        for _ in range(2):
            assert self._cached(service, tmp_path).price(VM.name, "eastus") is None
        assert len(price_server.queries) == 1
        known = self._cached(None, tmp_path).price(VM.name, "eastus")
        assert known is not None
        assert known == snapshot().price(VM.name, "eastus")

    def test_price_cache_offline_returns_old_prices_with_their_date(
        self, price_server: Any, service: PriceService, tmp_path: Path
    ) -> None:
        price_server.add()
        self._cached(service, tmp_path).price(VM.name, "eastus")
        kept = self._cached(None, tmp_path, 400).price(VM.name, "eastus")
        assert kept is not None
        assert kept.date == DAY
        other = self._cached(None, tmp_path).price("nat_gateway", "eastus")
        assert other == snapshot().price("nat_gateway", "eastus")

    def test_price_cache_shared_by_two_processes_loses_no_price(
        self, price_server: Any, service: PriceService, tmp_path: Path
    ) -> None:
        price_server.add()
        one, other = (self._cached(service, tmp_path) for _ in range(2))
        one.price("nat_gateway", "eastus")
        other.price(VM.name, "eastus")
        one.price("public_ip", "eastus")
        (file,) = tmp_path.iterdir()
        assert set(json.loads(file.read_text())["prices"]) >= {"public_ip", "nat_gateway", VM.name}

    @pytest.mark.parametrize(
        "content",
        ["", "[]", "{", '{"version": 9}', '{"version": 1, "url": "URL", "prices": {"a": 1}}'],
    )
    def test_price_cache_replaces_a_broken_file(
        self, price_server: Any, service: PriceService, tmp_path: Path, content: str
    ) -> None:
        price_server.add()
        (tmp_path / "eastus.json").write_text(content.replace("URL", price_server.url))
        assert self._cached(service, tmp_path).price(VM.name, "eastus") is not None
        assert json.loads((tmp_path / "eastus.json").read_text())["url"] == price_server.url

    def test_price_cache_ignores_prices_of_another_service(
        self,
        price_server: Any,
        service: PriceService,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        price_server.add()
        self._cached(service, tmp_path).price(VM.name, "eastus")
        monkeypatch.delenv("FAIRWAY_PRICES_URL")
        found = self._cached(None, tmp_path).price(VM.name, "eastus")
        assert found == snapshot().price(VM.name, "eastus")

    def test_price_cache_in_an_unwritable_folder_still_answers(
        self, price_server: Any, service: PriceService, tmp_path: Path
    ) -> None:
        price_server.add()
        (tmp_path / "file").write_text("")
        found = self._cached(service, tmp_path / "file" / "below").price(VM.name, "eastus")
        assert found is not None

    def test_price_cache_folder_follows_xdg_cache_home(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "fairway/prices"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache_folder() == tmp_path / "home/.cache/fairway/prices"

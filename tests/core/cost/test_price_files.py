"""Price files: their valid content, and what is refused."""

from pathlib import Path

import pytest
from endings import refused

from fairway_core.cost.cache import prices_at_hand
from fairway_core.cost.prices import FirstOf, PriceTable, read_prices, snapshot
from fairway_core.findings import UserError

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
    prices = prices_at_hand(_file(tmp_path, GOOD))
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
    price = prices_at_hand().price("nat_gateway", "westeurope")
    assert price is not None
    assert "snapshot" in price.source


def test_prices_come_from_the_first_source_that_knows_them() -> None:
    known = snapshot().rows["global", "nat_gateway"]
    mine = PriceTable("USD", {("eastus", "public_ip"): known})
    both = FirstOf((mine, snapshot()))
    assert both.price("public_ip", "eastus") == known
    assert both.price("public_ip", "eastus") != snapshot().price("public_ip", "eastus")
    assert both.price("nat_gateway", "eastus") == known


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("= 90", "= 0", "not an hourly price"),
        ("= 90", "= -1", "not an hourly price"),
        ("= 90", "= nan", "not an hourly price"),
        ("= 90", "= inf", "not an hourly price"),
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

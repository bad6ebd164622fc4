"""`fairway cost`: prices of the service, of a file, and of the snapshot."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from endings import ends
from environment_files import KEY
from serving import Handler, serving

from fairway_runner.engines.outage import SlowCallNotice

VM = "vm/Standard_ND96isr_H100_v5"


pytestmark = pytest.mark.usefixtures("no_kept_prices")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Filters that a price service on this machine received; its prices are all 10."""
    filters: list[str] = []

    class Prices(Handler):
        def do_GET(self) -> None:
            (filter_,) = parse_qs(urlsplit(self.path).query)["$filter"]
            filters.append(filter_)
            fields = dict(term.split(" eq ") for term in filter_.split(" and "))
            row = {name: value.strip("'") for name, value in fields.items()}
            row |= {"type": "Consumption", "unitOfMeasure": "1 Hour", "skuName": "x"}
            item = {**row, "retailPrice": 10.0, "productName": row.get("productName", "")}
            items = [item, {**item, "skuName": "x Spot"}]
            body = json.dumps({"Items": items, "NextPageLink": None}).encode()
            self.answer(body)

    with serving(Prices) as url:
        monkeypatch.setenv("FAIRWAY_PRICES_URL", f"{url}/")
        yield filters


def _facts(fairway: Any, folder: Path, *arguments: str) -> dict[str, Any]:
    code, out, errors = fairway(folder, "cost", *arguments, "--json")
    assert (code, errors) == (0, "")
    facts: dict[str, Any] = json.loads(out)
    return facts


def test_cost_command_fetches_prices_once(fairway: Any, tmp_path: Path, asked: list[str]) -> None:
    first = _facts(fairway, tmp_path, "demo")
    assert asked
    assert any("armSkuName eq 'Standard_ND96isr_H100_v5'" in each for each in asked)
    assert all("southcentralus" in each or "Global" in each for each in asked)
    assert first["complete"] is True
    assert "what is unknown" not in fairway(tmp_path, "cost", "demo")[1]
    assert first["known"]["share"] == 1.0
    assert first["hourly"]["maximum"] - first["hourly"]["idle"] == pytest.approx(20.0)
    assert first["monthly"]["maximum"] == pytest.approx(730 * first["hourly"]["maximum"])
    count = len(asked)
    assert _facts(fairway, tmp_path, "demo") == first
    assert _facts(fairway, tmp_path, "demo", "--offline")["hourly"] == first["hourly"]
    assert len(asked) == count


def test_cost_command_reports_snapshot_and_unknown_prices(fairway: Any, tmp_path: Path) -> None:
    facts = _facts(fairway, tmp_path, "demo", "--offline", "--region", "eastus")
    assert facts["hourly"]["maximum"] > 2 * 98.32
    assert facts["complete"] is False
    assert 0 < facts["known"]["share"] < 1
    assert all("snapshot" in each["source"] for each in facts["prices"])
    assert all(each["newest"] > "2026" for each in facts["prices"])
    facts = _facts(fairway, tmp_path, "demo", "--offline")  # its region is not in the snapshot
    nodes = facts["resources"][0]
    assert nodes["unit_price"] is None
    assert nodes["hourly"] == {"minimum": None, "maximum": None, "idle": 0.0}
    assert "southcentralus" in nodes["reason"]
    # A sum of the other parts would be a hundredth of what the GPUs cost.
    assert (facts["hourly"]["minimum"], facts["monthly"]["maximum"]) == (None, None)
    assert facts["hourly"]["idle"] > 0
    _, out, _ = fairway(tmp_path, "cost", "demo", "--offline")
    assert "unknown" in out
    hour = next(line for line in out.splitlines() if line.startswith("an hour"))
    assert "at least" in hour
    named = "without cluster pair, file system data, NAT gateway (public address)"
    assert hour.endswith(named), "beside the sum: what is not in it"
    assert facts["missing"]["NAT gateway"] == ["public address"]
    assert "parts have known prices" in out
    assert "no price in southcentralus: vm/Standard_ND96isr_H100_v5, " in out
    assert "without --offline" in out
    best = _facts(fairway, tmp_path, "demo", "--offline", "--region", "eastus")["known"]
    assert f"with --region eastus, {best['parts']} of {best['of']} parts have known prices" in out
    _, out, _ = fairway(tmp_path, "cost", "demo", "--offline", "--region", "eastus")
    assert "with --region" not in out
    assert "no price in eastus: vm/Standard_D32s_v6, premium/P6\n" in out


def test_cost_command_uses_stored_prices_if_the_service_does_not_answer(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        monkeypatch.setenv("FAIRWAY_PRICES_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}/")
        monkeypatch.setattr("fairway_core.cost.service._pause", lambda *_: 0.0)
        code, out, errors = here("cost", "demo", "--region", "eastus", "--json")
    assert code == 0
    assert errors.count("prices-unreachable") == 1
    assert "using only stored prices" in errors
    assert json.loads(out)["hourly"]["maximum"] > 2 * 98.32
    watched: list[tuple[str, float]] = []
    watch = SlowCallNotice.watch

    def noted(notice: SlowCallNotice, service: str, seconds: float) -> Any:
        watched.append((service, seconds))
        return watch(notice, service, seconds)

    monkeypatch.setattr(SlowCallNotice, "watch", noted)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        monkeypatch.setenv("FAIRWAY_PRICES_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        words = ("cost", "demo", "--region", "eastus", "--deadline", "1s")
        code, _, errors = here(*words)
    assert code == 0
    assert watched == [("Azure's price service", 1.0)]
    assert "Azure's price service: timed out, once" in errors


def test_cost_command_uses_a_prices_file_and_hours_per_day(fairway: Any, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        '[[prices]]\nregion = "southcentralus"\ncurrency = "EUR"\nsource = "ours"\n'
        f'date = 2026-11-21\n[prices.hourly]\n"{VM}" = 50.0\n'
        '"spot/Standard_ND96isr_H100_v5" = 20.0\n"premium_v2/gib" = 0.001\n'
    )
    facts = _facts(fairway, tmp_path, "demo", "--prices", str(file), "--hours-per-day", "6")
    disks = 4 * 1024 * 0.001
    assert facts["currency"] == "EUR"
    assert facts["hourly"]["maximum"] == pytest.approx(100 + disks)
    assert facts["hourly"]["idle"] == pytest.approx(disks)
    assert facts["monthly_at_hours_per_day"] == pytest.approx(730 * (25 + disks))
    (offer,) = facts["dedicated_against_spot"]
    assert (offer["dedicated_hourly"], offer["spot_hourly"]) == (100.0, 40.0)
    _, out, _ = fairway(tmp_path, "cost", "demo", "--prices", str(file), "--hours-per-day", "6")
    assert "a month of 6 hours a day at maximum: at least 21,240.08 EUR, without file system" in out
    assert "Spot 40.00, 60% less" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("demo", "--prices", "none.toml"), "no such file"),
        (("dmo",), "did you mean `demo`"),
        (("demo", "--region", "../x"), "no region"),
        (("demo", "--hours-per-day", "nan", "--offline"), "nan"),
    ],
)
def test_cost_command_refuses_wrong_arguments(
    here: Any, arguments: tuple[str, ...], said: str
) -> None:
    ends(here("cost", *arguments), 2, said, printed="")


def test_cost_command_prices_every_bundled_environment(
    fairway: Any, tmp_path: Path, repository: Path, asked: list[str]
) -> None:
    for file in sorted((repository / "stacks/environments").glob("*.yaml")):
        facts = _facts(fairway, tmp_path, str(file))
        assert facts["hourly"]["maximum"] > 0, file.name
        assert all(line["reason"] for line in facts["resources"] if line["unit_price"] is None)


def test_cost_command_shows_savings_of_a_schedule_and_of_an_idle_hour(
    fairway: Any, tmp_path: Path, asked: list[str]
) -> None:
    (tmp_path / "lab.yaml").write_text(
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: ['{KEY}']}}\nclusters:\n"
        "  box: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1,\n"
        "    schedule: {stop: '20:00', start: '08:00'}}\n"
        "  hand: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1,\n"
        "    schedule: {stop: '20:00'}}\n"
        "  idle: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1, idle: 2h}\n"
    )
    facts = _facts(fairway, tmp_path, "lab.yaml")
    box, hand = facts["schedules"]
    assert box["saved_monthly"] == pytest.approx(730 * 10 * 108 / 168, rel=1e-6)
    assert (hand["hours_a_week"], hand["saved_monthly"]) == (None, None)
    out = fairway(tmp_path, "cost", "lab.yaml")[1]
    saved = "cluster box runs 60 of 168 hours a week by its schedule, which saves 4,692.86 USD"
    assert saved in out
    assert "cluster hand is stopped by its schedule, and started by hand" in out
    (idle,) = facts["idle"]
    assert idle == {"resource": "cluster idle", "after_seconds": 7200.0, "saved_hourly": 10.0}
    said = "cluster idle stops itself after 2h00m without use; each hour that it is stopped saves "
    assert f"{said}10.00 USD" in out

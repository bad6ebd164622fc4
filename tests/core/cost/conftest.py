"""A local price service with the filters, pages and refusals of the real one."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from serving import Handler, serving

_PAGE = 2
_TERM = re.compile(r"(\w+) eq '((?:[^']|'')*)'")


@dataclass
class PriceServer:
    """A price service that holds `rows` and answers with the codes in `refusals` first; code 0 is a
    truncated answer."""

    url: str = ""
    rows: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[int] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    elsewhere: str = ""

    def add(self, **fields: Any) -> None:
        """Adds a row in the service's format, of one Linux size unless `fields` say otherwise."""
        row = {
            "currencyCode": "USD",
            "retailPrice": 98.32,
            "armRegionName": "eastus",
            "meterName": "ND96isr H100 v5",
            "productName": "Virtual Machines NDsr H100 v5 Series",
            "skuName": "ND96isr H100 v5",
            "serviceName": "Virtual Machines",
            "unitOfMeasure": "1 Hour",
            "type": "Consumption",
            "armSkuName": "Standard_ND96isr_H100_v5",
        }
        self.rows.append({**row, **fields})

    def answer(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Returns one page of the rows that match the filter, starting at `$skip`."""
        terms = _TERM.findall(query["$filter"][0])
        fields = [(("type" if name == "priceType" else name), value) for name, value in terms]
        left = [
            row
            for row in self.rows
            if all(row.get(name) == value.replace("''", "'") for name, value in fields)
        ]
        skip = int(query.get("$skip", ["0"])[0])
        link = None
        if skip + _PAGE < len(left):
            filter_ = quote(query["$filter"][0])
            link = f"{self.elsewhere or self.url}?$filter={filter_}&$skip={skip + _PAGE}"
        items = left[skip : skip + _PAGE]
        return {"BillingCurrency": "USD", "Items": items, "NextPageLink": link, "Count": len(items)}


@pytest.fixture
def price_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PriceServer]:
    """Yields the server, whose address is in FAIRWAY_PRICES_URL."""
    state = PriceServer()

    class Prices(Handler):
        def do_GET(self) -> None:
            state.queries.append(self.path)
            code = state.refusals.pop(0) if state.refusals else 200
            body = json.dumps(state.answer(parse_qs(urlsplit(self.path).query))).encode()
            cut = code == 0  # the connection ends in the middle of an answer
            self.send_response(code or 200)
            if code == 429:
                self.send_header("Retry-After", "7")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if cut else body)

    with serving(Prices) as url:
        state.url = f"{url}/api/retail/prices"
        monkeypatch.setenv("FAIRWAY_PRICES_URL", state.url)
        yield state

"""The OpenAPI document: it lists the existing calls, and their answers conform to it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from httpx import Response
from jsonschema import Draft202012Validator
from running import MakeRun
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from fairway_web.api import CALLS, document


def _routes(client: TestClient) -> Iterator[tuple[str, str]]:
    app: Any = client.app
    (api,) = (e for e in app._app.routes if isinstance(e, Mount) and e.path == "/api/v1")
    for route in api.routes:
        assert isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}:
            yield method.lower(), route.path.replace(":path}", "}")


def test_openapi_document_lists_exactly_the_routes(client: TestClient) -> None:
    answer = client.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    found = {(method, path) for path, item in answer.json()["paths"].items() for method in item}
    assert found == set(_routes(client))
    assert len(CALLS) == len(found)
    names = [each["operationId"] for each in operations().values()]
    assert len(set(names)) == len(CALLS)


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """Returns each call by its method and path."""
    items = document()["paths"].items()
    return {(method, path): call for path, item in items for method, call in item.items()}


def test_openapi_schemas_are_valid_and_all_referenced() -> None:
    schemas = document()["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document())))
    assert named == set(schemas)


def _holds(answer: Response, path: str, method: str = "get") -> None:
    """Fails if the document describes another answer."""
    said = document()["paths"][path][method]["responses"]
    assert str(answer.status_code) in said, f"{path}: {answer.status_code} {answer.text}"
    content = said[str(answer.status_code)]["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content, f"{path}: {kind}"
    if kind == "application/json":
        components = {"components": document()["components"]}
        Draft202012Validator({**content[kind]["schema"], **components}).validate(answer.json())


_GOOD = (
    ("/runs", "/runs"),
    ("/runs/{run}", "/runs/job-a"),
    ("/runs/{run}/state", "/runs/job-a/state"),
    ("/runs/{run}/records", "/runs/job-a/records"),
    ("/runs/{run}/log", "/runs/job-a/log"),
    ("/runs/{run}/script", "/runs/job-a/script"),
    ("/runs/{run}/outputs", "/runs/job-a/outputs"),
    ("/runs/{run}/outputs/{path}", "/runs/job-a/outputs/0/model.txt"),
    ("/compare", "/compare?run=job-a&run=job-b"),
    ("/targets", "/targets"),
    ("/targets/{target}/nodes", "/targets/local/nodes"),
    ("/environments", "/environments"),
    ("/cost", "/cost?by=name"),
    ("/openapi.json", "/openapi.json"),
)


def test_openapi_document_describes_the_successful_answers(
    client: TestClient, make_run: MakeRun
) -> None:
    kept = make_run("job-a", [{"log": "loss=1\n"}], metrics={"loss": "loss=(.*)"})
    (kept.task_folder(0) / "outputs").mkdir(parents=True)
    (kept.task_folder(0) / "outputs" / "model.txt").write_text("m")
    make_run("job-b", [{"state": "failed"}, {}], "failed")
    for path, address in _GOOD:
        answer = client.get(f"/api/v1{address}")
        assert answer.status_code == 200, answer.text
        _holds(answer, path)
        head = client.head(f"/api/v1{address}")
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == answer.headers["content-type"]
    events = {"Accept": "text/event-stream"}
    _holds(client.get("/api/v1/runs/job-a/log", headers=events), "/runs/{run}/log")
    job = {"job": "name: a\ncommand: 'true'\n", "target": ["local"]}
    for path in ("/check", "/render", "/runs"):
        answer = client.post(f"/api/v1{path}", json=job)
        assert answer.is_success, answer.text
        _holds(answer, path, "post")
    log = f"/api/v1/runs/{answer.json()['run_id']}/log"
    assert "event: end" in client.get(log, headers=events).text  # no run is left running


def test_openapi_document_describes_the_refusals(client: TestClient, make_run: MakeRun) -> None:
    make_run("job-a")
    for (method, path), call in operations().items():
        if "{" in path:
            answer = client.request(method, f"/api/v1{re.sub(r'{.*?}', 'a%00', path)}")
            assert answer.status_code == 404, answer.text
            _holds(answer, path, method)
        if "components/schemas/Job" in json.dumps(call.get("requestBody")):
            answer = client.post(f"/api/v1{path}", content='{"jobs": "a"}')
            assert answer.status_code == 422, answer.text
            _holds(answer, path, method)
        client.headers["Sec-Fetch-Site"] = "cross-site"
        _holds(client.request(method, f"/api/v1{path}"), path, method)
        del client.headers["Sec-Fetch-Site"]
    _holds(client.post("/api/v1/runs/job-a/retry"), "/runs/{run}/retry", "post")
    _holds(client.post("/api/v1/runs", content="x" * (1 << 21)), "/runs", "post")

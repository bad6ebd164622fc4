"""The OpenAPI document: it lists the existing calls, and their answers conform to it, also those
to requests generated from it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Response
from jsonschema import Draft202012Validator
from running import MakeRun
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from fairway_runner.runs.store import RunStore
from fairway_web.api import CALLS, document
from fairway_web.app import application
from fairway_web.auth import ByToken


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
    task = {"log": "loss=1\n", "kept": {"model.txt": "m"}}
    make_run("job-a", [task], metrics={"loss": "loss=(.*)"})
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


_TOKEN = "t" * 43
_CALLS = [(method, path) for path, item in document()["paths"].items() for method in item]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory, make_run_in: MakeRun) -> Any:
    """The document's schema over a project with a run, of which the calls know the name."""
    # Each worker collects all tests, but only one needs this import, which takes seconds.
    import schemathesis

    store = RunStore(tmp_path_factory.mktemp("project") / ".fairway")
    make_run_in(store, "job-a", [{"log": "one\ntwo\n"}, {}])
    facts: dict[str, Any] = {**document()}
    facts["paths"] = {f"/api/v1{path}": item for path, item in facts["paths"].items()}
    facts.pop("servers")
    schema = schemathesis.openapi.from_dict(facts)
    schema.app = application(store, ByToken({"testserver"}, "fairway", _TOKEN))
    return schema


@pytest.mark.integration
@pytest.mark.parametrize("examples", [3, pytest.param(50, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("call", _CALLS, ids=" ".join)
def test_api_calls_conform_to_the_openapi_document(
    described: Any, call: tuple[str, str], mode: str, examples: int
) -> None:
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    kinds = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    operation = described[f"/api/v1{call[1]}"][call[0].upper()]
    asked: list[str] = []

    @seed(18)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    def ask(case: Any) -> None:
        if "{run}" in call[1] and len(asked) % 2:
            case.path_parameters["run"] = "job-a"  # hardly ever generated
        answer = case.call(headers={"Authorization": f"Bearer {_TOKEN}"})
        case.validate_response(answer, checks=kinds)
        asked.append(case.path)

    try:
        ask()
    except Unsatisfiable:
        assert mode == "negative"  # the call has nothing that can be invalid
    else:
        assert asked

"""Requests generated from the OpenAPI document: each answer conforms to it."""

from typing import Any

import pytest
from running import MakeRun

from fairway_runner.runs.store import RunStore
from fairway_web.api import document
from fairway_web.app import application
from fairway_web.auth import ByToken

pytestmark = pytest.mark.integration

_TOKEN = "t" * 43
_HOST = "testserver"
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
    schema.app = application(store, ByToken({_HOST}, "fairway", _TOKEN))
    return schema


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

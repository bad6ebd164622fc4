"""Requests to an API server, retries while it is silent, and the names of its objects."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clocks import Clock

from fairway_agent.kubernetes import api
from fairway_agent.kubernetes.api import Api, RequestRefused, job_name, run_label
from fairway_boot.files import NO_ANSWER, AgentError


class Line:
    """A connection with prepared answers: each a status, headers and a body."""

    def __init__(self, answers: list[tuple[int, dict[str, str], Any] | OSError]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []

    def request(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> None:
        self.asked.append((method, path, data and json.loads(data), headers))

    def getresponse(self) -> Any:
        found = self.answers.pop(0)
        if isinstance(found, OSError):
            raise found
        status, headers, body = found
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        return SimpleNamespace(status=status, headers=headers, read=lambda: text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.of(monkeypatch, api, now=0.0)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    for name, text in (("token", "t-1\n"), ("namespace", "training"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    return tmp_path


def reach(account: Path, *answers: tuple[int, dict[str, str], Any] | OSError) -> tuple[Api, Line]:
    line, found = Line(list(answers)), Api(account)
    found._connect = lambda: line  # type: ignore[method-assign, assignment, return-value]
    return found, line


def ok(body: Any) -> tuple[int, dict[str, str], Any]:
    return 200, {}, body


def refused(status: int, message: str = "", **headers: str) -> tuple[int, dict[str, str], Any]:
    return status, headers, {"kind": "Status", "message": message}


def test_kubernetes_api_sends_the_current_token_of_the_service_account(account: Path) -> None:
    found, line = reach(account, ok({}), ok({}))
    found.get("jobs", "a-0-0")
    (account / "token").write_text("t-2")
    found.get("jobs", "a-0-0")
    assert [asked[3]["Authorization"] for asked in line.asked] == ["Bearer t-1", "Bearer t-2"]
    assert line.asked[0][:2] == ("GET", "/apis/batch/v1/namespaces/training/jobs/a-0-0")


EXPIRED = "The provided continue parameter is too old to display a consistent list result"


def test_kubernetes_api_list_reads_all_pages_and_restarts_if_it_expires(account: Path) -> None:
    first = ok({"items": [{"n": 1}], "metadata": {"continue": "next="}})
    last = ok({"items": [{"n": 2}], "metadata": {}})
    found, line = reach(account, first, refused(410, EXPIRED), first, last)
    query = {"labelSelector": "fairway.dev/run in (a,b)"}
    assert [each["n"] for each in found.list("pods", query)] == [1, 2]
    asked = [each[1] for each in line.asked]
    assert "labelSelector=fairway.dev%2Frun+in+%28a%2Cb%29" in asked[0]
    assert ["continue=next%3D" in each for each in asked] == [False, True, False, True]
    assert "continue" not in asked[0] + asked[2]


def test_kubernetes_api_list_that_always_expires_is_reported(account: Path) -> None:
    first = ok({"items": [{"n": 1}], "metadata": {"continue": "next"}})
    found, _ = reach(account, *[first, refused(410, EXPIRED)] * 100)
    with pytest.raises(AgentError, match="drops its lists before they are read") as raised:
        found.list("pods", {})
    assert raised.value.record["id"] == NO_ANSWER


@pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (400, 2)])
def test_kubernetes_api_refusal_is_reported_with_exit_code_and_hint(
    account: Path, status: int, code: int
) -> None:
    found, _ = reach(account, refused(status, 'pods is forbidden: User "x" cannot list'))
    with pytest.raises(AgentError) as raised:
        found.list("pods", {})
    told = raised.value.record
    assert told["message"] == (
        'the API server of Kubernetes refuses: pods is forbidden: User "x" cannot list'
    )
    assert told["exit_code"] == code
    assert ("fairway targets prepare" in str(told["hint"])) is (code == 4)


def test_kubernetes_api_create_of_existing_and_delete_of_missing_is_no_error(account: Path) -> None:
    there = refused(409, 'jobs.batch "a" already exists')
    found, line = reach(account, ok({}), there, refused(404, "not found"))
    assert found.create("jobs", {"metadata": {"name": "a"}})
    assert not found.create("jobs", {"metadata": {"name": "a"}})
    found.delete("jobs", "a")
    assert line.asked[2][2] == {"propagationPolicy": "Foreground"}


def test_kubernetes_api_refusal_includes_the_message_of_the_server(account: Path) -> None:
    found, _ = reach(account, refused(422, 'Job.batch "a" is invalid'), (403, {}, b"<html>"))
    with pytest.raises(RequestRefused, match=r'Job\.batch "a" is invalid') as raised:
        found.create("jobs", {})
    assert raised.value.status == 422
    with pytest.raises(RequestRefused, match="<html>"):
        found.create("jobs", {})


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_kubernetes_api_retries_transient_errors_after_retry_after(
    account: Path, clock: Clock, status: int
) -> None:
    headers = {"Retry-After": "7"}
    found, line = reach(account, (status, headers, {}), OSError("reset"), ok({"a": 1}))
    assert found.get("jobs", "a") == {"a": 1}
    assert len(line.asked) == 3
    assert clock.now >= 7


def test_kubernetes_api_reports_a_server_that_never_answers(account: Path, clock: Clock) -> None:
    found, _ = reach(account, *[refused(503)] * 1000)
    with pytest.raises(
        AgentError, match="the API server of Kubernetes does not answer: HTTP 503"
    ) as raised:
        found.get("jobs", "a")
    assert raised.value.record["id"] == NO_ANSWER
    assert "kubectl get --raw /readyz" in raised.value.record["hint"]
    assert clock.now <= 60


def test_kubernetes_api_uses_the_installed_version_of_kueue(account: Path) -> None:
    body = {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}
    assert reach(account, ok(body))[0].kueue == "/apis/kueue.x-k8s.io/v1beta2"
    assert reach(account, refused(404))[0].kueue == ""


def test_kubernetes_api_outside_of_a_pod_is_refused_with_a_hint(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(AgentError, match="this is not the head pod of a target") as raised:
        Api(account).get("jobs", "a")
    assert "fairway targets prepare" in raised.value.record["hint"]
    (account / "token").unlink()
    with pytest.raises(AgentError, match="token is missing") as raised:
        Api(account).get("jobs", "a")
    assert "no service account" in raised.value.record["hint"]


RUNS = ["a", "digits-7k2m9p", "a" * 63, f"{'a' * 62}-", f"{'a' * 30}{'-' * 33}", "a-"]


@pytest.mark.parametrize("run", RUNS)
def test_kubernetes_job_name_leaves_room_for_the_index_and_labels_are_valid(run: str) -> None:
    """The controller refuses a name without room for the pod's index within 63 characters."""
    for submission, part in ((0, 0), (12, 4999), (0, "controller")):
        name = job_name(run, submission, part)
        assert len(name) <= 52
        assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name)
        assert name.endswith(f"-{submission}-{part}")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{,61}[a-z0-9])?", run_label(run))


def test_kubernetes_job_names_and_labels_differ_for_each_run() -> None:
    runs = [*RUNS, f"{'a' * 61}b", "b" * 63]
    assert len({job_name(run, 0, 0) for run in runs}) == len(runs)
    assert len({run_label(run) for run in runs}) == len(runs)

"""Environments in the browser: checks, cost and a diagram, without any module of Terraform."""

import json
import sys
from pathlib import Path

import pytest
from endings import answers
from programs import executable, finished
from running import RunFairway
from starlette.testclient import TestClient

from fairway_runner.runs.store import RunStore

pytestmark = pytest.mark.integration

WRONG = "name: mine\nlocation: southcentralus\nclustrs: {}\n"


@pytest.fixture
def project(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = store.base.parent
    (folder / "environments").mkdir()
    (folder / "environments" / "mine.yaml").write_text(WRONG)
    (folder / "cdktf.json").write_text("{}\n")
    (folder / "fairway.yaml").write_text("{}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/usr/bin/dot")
    return folder


def test_environment_pages_list_files_and_report_mistakes_with_their_line(
    client: TestClient, project: Path
) -> None:
    page = client.get("/environments").text
    assert 'href="/environments/mine"' in page
    listed = client.get("/api/v1/environments").json()
    assert {"name": "mine", "file": str(project / "environments/mine.yaml")} in listed
    assert "demo" in [each["name"] for each in listed]
    page = client.get("/environments/mine")
    answers(page, 200, "did you mean `clusters`?", "    3 | clustrs: {}")
    assert "diagram" not in page.text  # an invalid file has no diagram
    found = client.get("/api/v1/environments/mine/check").json()
    assert 3 in [each["line"] for each in found]
    answer = client.get("/api/v1/environments/mine/cost")
    answers(answer, 422, "unknown key `clustrs`", "did you mean `clusters`?")
    assert client.get("/api/v1/environments/mine/diagram").status_code == 422


def test_environment_page_shows_cost_check_and_diagram(
    client: TestClient, project: Path, fairway: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, printed, _ = fairway(project, "cost", "demo", "--offline", "--json")
    assert code == 0
    assert client.get("/api/v1/environments/demo/cost").json() == json.loads(printed)
    code, printed, _ = fairway(project, "check", "demo", "--json")
    assert client.get("/api/v1/environments/demo/check").json() == json.loads(printed)
    said = ("cluster pair", "2 × Standard_ND96isr_H100_v5")
    diagram = 'src="/api/v1/environments/demo/diagram"'
    answers(client.get("/environments/demo"), 200, *said, diagram)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert "The diagram needs Graphviz" in client.get("/environments/demo").text


@pytest.mark.parametrize("name", ["none", "..%2fmine", "%2fetc%2fpasswd", "mine.yaml", "--help"])
def test_environment_answers_404_if_unknown(client: TestClient, project: Path, name: str) -> None:
    for path in (f"/environments/{name}", f"/api/v1/environments/{name}/check"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "no environment is called" in answer.text or "Not Found" in answer.text


def test_environment_diagram_is_drawn_once_until_its_file_changes(
    client: TestClient, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def draw(_: object, title: str) -> str:
        made.append(title)
        return ""

    monkeypatch.setattr("fairway_web.actions.load_environment", lambda file: file)
    monkeypatch.setattr("fairway_web.actions.draw", draw)
    monkeypatch.setattr("fairway_web.actions.svg", lambda _: "<svg/>")
    for _ in range(2):
        answer = client.get("/api/v1/environments/mine/diagram")
        assert (answer.content, answer.headers["content-type"]) == (b"<svg/>", "image/svg+xml")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert made == ["mine"]
    (project / "environments" / "mine.yaml").write_text(WRONG + "\n")
    client.get("/api/v1/environments/mine/diagram")
    assert made == ["mine"] * 2


def test_environment_diagram_answers_502_if_graphviz_hangs(
    client: TestClient, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(programs / "dot", "exec sleep 600")
    monkeypatch.setattr("fairway_runner.output_file._LONGEST", 0.1)
    answer = client.get("/api/v1/environments/demo/diagram")
    answers(answer, 502, "dot took longer than 0.1 s")


_SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from starlette.testclient import TestClient
from fairway_runner.runs.store import RunStore
from fairway_web.app import application
from fairway_web.auth import ByToken
app = application(RunStore(Path(".fairway")), ByToken({"localhost:80"}, "c", "t"))
with TestClient(app, "http://localhost", headers={"Authorization": "Bearer t"}) as client:
    for path in sys.argv[1:]:
        assert client.get(path).status_code == 200, path
loaded = {name.partition(".")[0] for name in sys.modules}
stacks = {"cdktf", "constructs", "jsii", "azure", "fairway_stacks", "fairway_constructs"}
print(sorted(loaded & stacks))
"""


def test_environment_pages_import_no_module_of_terraform_or_azure(project: Path) -> None:
    paths = ["/", "/submit", "/targets", "/targets/local", "/environments", "/environments/demo"]
    paths += ["/api/v1/environments/demo/diagram", "/cost", "/compare", "/metrics"]
    done = finished([sys.executable, "-c", _SCRIPT, *paths])
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr

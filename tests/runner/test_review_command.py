"""`fairway review` on plans of the real provider; golden comments are under golden/review/.

After an intended change, rewrite them:

    FAIRWAY_GOLDEN=write bin/test tests/runner/test_review_command.py
"""

import json
import os
import shlex
from pathlib import Path

import pytest
from endings import ends
from running import RunFairway

from fairway_cli.ui.reviews import environment_in

GOLDEN = Path(__file__).with_name("golden") / "review"
SAMPLES = Path(__file__).resolve().parents[1] / "core/review/plans"
DISKS = [f"azurerm_managed_disk.data[{index}]" for index in range(2)]


pytestmark = pytest.mark.usefixtures("no_kept_prices")


def _plan(name: str) -> str:
    return f"demo-compute={SAMPLES / name}.json"


@pytest.mark.parametrize(
    ("name", "code"), [("create", 0), ("grow", 0), ("drift", 0), ("move-disks", 3)]
)
def test_review_comment_matches_the_golden_copy(here: RunFairway, name: str, code: int) -> None:
    exit_code, comment, errors = here("review", _plan(name), "--markdown")
    golden = GOLDEN / f"{name}.md"
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(comment, encoding="utf-8")
    assert comment == golden.read_text(encoding="utf-8")
    assert (exit_code, errors) == (code, "")


def test_review_accepts_an_allowed_loss_and_compares_with_a_base(
    here: RunFairway, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = here("review", _plan("move-disks"), "--base", _plan("drift"))
    again = out.splitlines()[-1].strip()
    assert again.startswith("fairway review ")
    ends(here(*shlex.split(again)[1:]), 0)
    one = ("--allow", DISKS[0])
    assert here("review", _plan("move-disks"), *one)[0] == 3
    monkeypatch.setenv("FAIRWAY_ALLOW", f"azurerm_other.x {DISKS[1]}")
    code, out, _ = here("review", _plan("move-disks"), *one)
    assert code == 0
    assert f"allowed: `{DISKS[0]}` would be replaced, and with it what it holds" in out
    base = ("--base", _plan("drift"))
    code, out, _ = here("review", _plan("grow"), *base, "--json")
    (stack,) = json.loads(out)["stacks"]
    assert code == 0
    assert [each["action"] for each in stack["changes"]] == ["change", "create"]
    code, out, _ = here("review", _plan("drift"), *base, "--json")
    (stack,) = json.loads(out)["stacks"]
    assert stack["changes"] == []
    assert len(stack["in_base"]) == 1


def test_review_of_an_impossible_change_exits_with_2_and_escapes_names(
    here: RunFairway, tmp_path: Path
) -> None:
    plan = json.loads((SAMPLES / "grow.json").read_text())
    change = {"actions": ["update"], "before": {"disk_size_gb": 64}, "after": {"disk_size_gb": 32}}
    disk = {"address": "azurerm_managed_disk.d", "type": "azurerm_managed_disk", "change": change}
    (tmp_path / "x.json").write_text(json.dumps({**plan, "resource_changes": [disk]}))
    code, out, _ = here("review", "x.json")
    assert (code, "Azure shrinks no disk" in out) == (2, True)
    plan = json.loads((SAMPLES / "grow.json").read_text())
    for resource in plan["resource_changes"]:
        resource["address"] = f"{resource['address']}\x1b[2J\rsafe"
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    _, out, _ = here("review", "x=plan.json")
    assert "\x1b" not in out
    assert "\r" not in out


def test_review_json_lists_data_loss_totals_and_changes(here: RunFairway) -> None:
    code, out, _ = here("review", _plan("move-disks"), "--json")
    facts = json.loads(out)
    assert code == 3
    assert facts["version"] == 1
    assert facts["digest"].startswith("sha256:")
    lost = {"stack": "demo-compute", "action": "replace", "because": ["zone"], "allowed": False}
    how = "would be replaced, and with it what it holds: zone cannot be changed in place"
    wanted = [{**lost, "address": disk, "how": f"`{disk}` {how}"} for disk in DISKS]
    assert facts["data_loss"] == wanted
    assert facts["totals"]["replace"] == 2
    (stack,) = facts["stacks"]
    assert (stack["stack"], stack["state"]) == ("demo-compute", "planned")
    zone = stack["changes"][1]["attributes"][-1]
    assert zone == {"path": "zone", "old": "1", "new": "2", "forces_replacement": True}
    assert here("review", _plan("move-disks"), "--json")[1] == out


def test_review_shows_the_cost_of_the_change(here: RunFairway, tmp_path: Path) -> None:
    _, out, _ = here("review", _plan("grow"), "--json")
    cost = json.loads(out)["cost"]
    assert cost["hourly_difference"] == pytest.approx(2 * 98.32)
    assert "snapshot" in cost["prices"][0]["source"]
    (tmp_path / "prices.toml").write_text(
        '[[prices]]\nregion = "eastus"\ncurrency = "EUR"\nsource = "ours"\ndate = 2026-11-21\n'
        '[prices.hourly]\n"vm/Standard_ND96isr_H100_v5" = 50.0\n'
    )
    _, out, _ = here("review", _plan("grow"), "--prices", "prices.toml")
    assert "+100.00 EUR an hour" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([_plan("grow"), "bad.json"], "bad.json: this is JSON, but not a plan"),
        (["none.json"], "none.json: no such file [no-such-file]"),
        ([""], "an empty word names no plan"),
        (["a.json", "--base", ""], "an empty word names no plan"),
    ],
)
def test_review_refuses_what_is_no_plan(
    here: RunFairway, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "bad.json").write_text("[]")
    (tmp_path / "a.json").write_bytes((SAMPLES / "create.json").read_bytes())
    ends(here("review", *words), 2, said, printed="")


def test_comment_for_a_pull_request_joins_reviews_without_mentions(
    here: RunFairway, tmp_path: Path
) -> None:
    _, facts, _ = here("review", _plan("move-disks"), "--json")
    (tmp_path / "reviews/review-lab").mkdir(parents=True)
    (tmp_path / "reviews/review-lab/review.json").write_text(facts)
    (tmp_path / "reviews/review-bad").mkdir()
    (tmp_path / "reviews/review-bad/review.json").write_text("<!-- @all")
    origin = ["--run", "https://example.org/7", "--commit", "a" * 40, "--base", "lab/fairway"]
    code, out, _ = here("comment", "reviews", *origin, "--head", "me/fairway")
    assert code == 0
    assert out.startswith("<!-- fairway review -->\n[Plan](https://example.org/7)")
    assert "The code of a fork" in out
    assert "@all" not in out
    assert all(disk in out for disk in DISKS)
    (tmp_path / "none").mkdir()
    ends(here("comment", "none", *origin, "--head", "lab/fairway"), 2, "holds no review")


def test_review_of_a_folder_orders_plans_by_dependency(here: RunFairway, tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    plans.mkdir()
    ends(here("review", "plans"), 2, "error: plans: holds no *.json")
    for role in ("compute", "network", "data"):
        (plans / f"plan-lab-{role}.json").write_bytes((SAMPLES / "create.json").read_bytes())
    (plans / "lab-data.tfplan").write_bytes(b"PK")
    code, out, errors = here("review", "plans", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(out)
    stacks = [each["stack"] for each in found["stacks"]]
    assert stacks == ["plan-lab-network", "plan-lab-data", "plan-lab-compute"]
    _, out, _ = here("review", "plans", "--base", "plans", "--json")
    assert not any(each["changes"] for each in json.loads(out)["stacks"])
    (plans / "other.json").write_text("{}")
    ends(here("review", "plans"), 2, "other.json: this is JSON, but not a plan")


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ([], ""),
        (["demo"], "demo"),
        (["environments/lab.yaml"], "environments/lab.yaml"),
        (["plan.json"], None),
        (["lab=plan.json"], None),
        (["plans", "plan.json"], None),
        (["gone.json"], None),
        (["cpu-hpc"], None),  # a folder of plans named like an environment
    ],
)
def test_review_recognises_an_environment_in_place_of_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    for folder in ("plans", "cpu-hpc"):
        (tmp_path / folder).mkdir()
    assert environment_in(words) == environment

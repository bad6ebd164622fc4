"""The comment on a pull request, rendered from reviews that the request's own code produced."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairway_core.cost.cache import cached_prices
from fairway_core.findings import UserError
from fairway_core.review.markdown import LONGEST, MARK, Origin, comment, markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import Review, review
from fairway_core.review.serialization import read_review, review_from_json, review_to_json

ORIGIN = Origin("https://github.com/lab/fairway/actions/runs/7", "a" * 40, fork=True)
PLANS = Path(__file__).with_name("plans")


def _sample(name: str) -> Review:
    plan = read_plan(f"demo-compute={PLANS / f'{name}.json'}")
    base = [read_plan(f"demo-compute={PLANS / 'drift.json'}")]
    return review([plan], base=base, prices=cached_prices(), left=["old"])


def _read(folder: Path, facts: Any) -> Review:
    file = folder / "review.json"
    file.write_text(facts if isinstance(facts, str) else json.dumps(facts))
    return read_review(file)


@pytest.mark.parametrize("name", ["create", "grow", "drift", "move-disks"])
def test_review_read_from_json_renders_the_same_comment(name: str, tmp_path: Path) -> None:
    found = _sample(name)
    again = _read(tmp_path, review_to_json(found))
    assert markdown(again) == markdown(found)
    assert review_to_json(again) == review_to_json(found)


def test_review_from_older_code_without_new_keys_is_read(tmp_path: Path) -> None:
    """The base's code reads the output of the pull request's code, which may be older."""
    found = _sample("grow")
    facts = review_to_json(found)
    del facts["continues"]
    for stack in facts["stacks"]:
        del stack["promised"]
    assert markdown(_read(tmp_path, facts)) == markdown(found)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "` <!-- x"},
        {"version": 2},
        {"stacks": [1]},
        {"stacks": None},
        {"stacks": [{}]},
        {"cost": {"currency": "<b>"}},
        {"data_loss": [{"stack": "x"}]},
        {"findings": [{"id": "x"}]},
        {"findings": {}},
        *("", "[]", "{", "NaN", "[" * 500 + "]" * 500),
    ],
)
def test_review_with_malformed_content_is_refused(
    change: dict[str, Any] | str, tmp_path: Path
) -> None:
    facts = change if isinstance(change, str) else review_to_json(_sample("move-disks")) | change
    with pytest.raises(UserError, match="is not a review"):
        _read(tmp_path, facts)


def test_review_behind_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(review_to_json(_sample("grow"))))
    (tmp_path / "review.json").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="is not a review"):
        read_review(tmp_path / "review.json")


FORGED = (
    "✅ Approved by the platform team [Full plan](https://evil.example/phish) cc &#64;octocat "
    "&commat;org/team @all ![x](//e.vil) </code></details><!-- everything after this is hidden "
    "<img src=x onerror=alert(1)> #1 `x` **b** [a](http://e.vil) www.e.vil \u202ertl\nnew line\n"
    "# head | :tada: $x$ ~~s~~ \\ _i_"
)


def _forged(value: Any) -> Any:
    """Replaces every free text of a review."""
    fixed = ("digest", "state", "action", "severity", "version", "currency", "date")
    if isinstance(value, dict):
        return {
            key: item if key in fixed and isinstance(item, str) else _forged(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_forged(item) for item in value]
    return FORGED if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["create", "grow", "drift", "move-disks"])
def test_comment_escapes_all_text_of_a_forged_review(name: str) -> None:
    """A fork's changed workflow can upload an artifact, which github-actions[bot] then posts."""
    forged = review_from_json(_forged(review_to_json(_sample(name))))
    text = comment({FORGED: forged}, ORIGIN)
    inside = re.findall(r"<code>(.*?)</code>", text)
    assert len(inside) > 5
    for each in inside:
        assert not re.search(r"[<>`*@#~|\\$!^](?!\d+;)", each.replace("&#", "")), each
        assert "www." not in each
        assert "](" not in each
    outside = re.sub(r"<code>.*?</code>", "", text)
    for word in ("evil", "octocat", "Approved", "commat", "@", "e.vil", "alert", "head", "tada"):
        assert word not in outside
    assert not any(line.startswith(("new line", "# head")) for line in text.split("\n"))
    assert "\u202e" not in text
    assert "@all ![x](//e.vil)" in html.unescape(text), "and a reader sees all of it"
    tags = {MARK, "<details>", "<details open>", "</details>", "<summary>", "</summary>"}
    assert set(re.findall(r"<[^>]*>", outside)) <= tags
    assert outside.count("<details") == outside.count("</details>")
    assert text.startswith(f"{MARK}\n[Plan]({ORIGIN.run}) of aaaaaaaaaaaa\n")


def test_comment_states_whether_a_fork_produced_the_data() -> None:
    found = {"lab": _sample("grow")}
    assert "The code of a fork produced the data below" in comment(found, ORIGIN)
    own = comment(found, Origin(ORIGIN.run, ORIGIN.commit, fork=False))
    assert "The code of this pull request produced the data below" in own
    # A project's files that decide which code runs; it has no sources of Fairway.
    assert set(re.findall(r"`([\w./]+)`", own.split("\n\n")[1])) == {
        *("requirements.txt", "wheels/", "fairway.yaml", ".github/")
    }


def _long(make_plan: Any, name: str, count: int = 3000) -> Review:
    changes = [
        (f"azurerm_subnet.{name}{n}", "delete", {"name": "x" * 80}, None) for n in range(count)
    ]
    return review([read_plan(make_plan(name, *changes))])


@pytest.mark.parametrize("first", ["aaa", "zzz"])
def test_comment_shows_dangers_before_long_changes_of_other_environments(
    make_plan: Any, first: str
) -> None:
    text = comment({first: _long(make_plan, "long"), "lab": _sample("move-disks")}, ORIGIN)
    assert len(text) <= LONGEST
    danger = text.index("azurerm_managed_disk.data[0]")
    assert "⛔ Data would be lost" in text
    assert danger < text.index("<details"), "dangers of all come before what only changes"
    assert text.count("<details") == text.count("</details>")
    assert "… (cut" in text


def test_comment_with_endless_dangers_still_shows_other_environments(make_plan: Any) -> None:
    changes = [(f"azurerm_managed_disk.d{n}", "delete", {}, None) for n in range(3000)]
    many = review([read_plan(make_plan("many", *changes))])
    text = comment({"aaa": many, "lab": _sample("move-disks")}, ORIGIN)
    assert len(text) <= LONGEST
    assert "azurerm_managed_disk.data[0]" in text


def test_comment_shows_readable_environments_and_counts_omitted_ones() -> None:
    text = comment({"a" * 101: None, "b" * 101: _sample("move-disks")}, ORIGIN)
    titles = re.findall(r"^## <code>(\w+)</code>$", text, re.MULTILINE)
    assert titles == ["a" * 100, "b" * 100, "b" * 100]
    assert "Its output is not a review" in text
    assert "azurerm_managed_disk.data[0]" in text
    found: dict[str, Review | None] = {f"e{n:04}": None for n in range(1000)}
    text = comment(found, ORIGIN)
    assert len(text) <= LONGEST
    assert "960 more environments are not shown" in text

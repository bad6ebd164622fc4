"""A review as a comment on a pull request."""

import json
from typing import Any

import pytest

from fairway_core.review.lines import attribute_lines, change_line
from fairway_core.review.markdown import code, markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import Review, review

DISK = "azurerm_managed_disk.data"
GROUP = "azurerm_resource_group.rg"


def _review(*files: str, base: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Review:
    return review([read_plan(f) for f in files], base=[read_plan(f) for f in base], allow=allow)


class TestMarkdown:
    def test_review_markdown_opens_changes_and_folds_new_or_long_lists(
        self, make_plan: Any
    ) -> None:
        changed = [
            (f"azurerm_subnet.a{n}", "update", {"name": "a"}, {"name": "b"}) for n in range(50)
        ]
        few = markdown(_review(make_plan("a", (GROUP, "create", None, {}), changed[0])))
        assert "<details open>\n<summary>1 changed" in few
        assert "<details>\n<summary>1 created" in few
        assert "\n\n\n" not in few
        many = markdown(_review(make_plan("b", *changed)))
        assert "<details>\n<summary>50 changed" in many
        base = [read_plan(f"c={make_plan('c', changed[0])}")]
        already = markdown(review(base, base=base))
        assert "<details>\n<summary>1 what the base" in already
        given_up = markdown(review([read_plan(f"c={make_plan('d')}")], base=base))
        assert "<details>\n<summary>1 what only the base" in given_up

    @pytest.mark.parametrize(("count", "said"), [(1, "1 resource "), (2, "2 resources ")])
    def test_review_markdown_counts_drift_without_another_value(
        self, make_plan: Any, count: int, said: str
    ) -> None:
        change = {"actions": ["update"], "before": {"tags": None}, "after": {"tags": {}}}
        drift = [
            {"address": f"{GROUP}{n}", "type": "azurerm_resource_group", "change": change}
            for n in range(count)
        ]
        (line,) = [
            each
            for each in markdown(_review(make_plan("a", resource_drift=drift))).splitlines()
            if "(not drift)" in each
        ]
        assert line.startswith(said)

    def test_review_markdown_marks_allowed_losses(self, make_plan: Any) -> None:
        plan = read_plan(make_plan("a", (DISK, "delete", {"name": "a"})))
        comment = markdown(review([plan], allow=[DISK]))
        assert f"- ✔️ allowed: <code>{DISK} would be deleted, and with it what it" in comment
        assert "--allow" not in comment
        assert "⛔" not in comment
        assert f"--allow {DISK}" in markdown(review([plan]))

    def test_review_markdown_keeps_values_readable_and_truncates_long_ones(
        self, make_plan: Any
    ) -> None:
        for name in ("azurerm_managed_disk.data[0]", 'module.a["b c"].azurerm_subnet.c'):
            assert code(name) == f"<code>{name}</code>"
        # A blob has a size only if it is a page blob.
        blob = ("azurerm_storage_blob.a", "create", None, {"name": "x", "size": 0})
        (change,) = _review(make_plan("a", blob)).stacks[0].changes
        assert change.facts == [("name", "x")]
        before, after = "x" * 5_000 + "a" * 500, "x" * 5_000 + "b" * 500
        comment = markdown(_review(make_plan("b", (GROUP, "update", {"v": before}, {"v": after}))))
        assert len(comment) < 1_500
        assert "aaa" in comment
        assert "bbb" in comment
        before = {f"a{number:02}": "x" for number in range(43)}
        many = (GROUP, "update", before, dict.fromkeys(before, "y"))
        comment = markdown(_review(make_plan("c", many)))
        assert comment.count("</code> → <code>") == 40
        assert "and 3 more attributes" in comment

    def test_review_markdown_of_new_rule_omits_empty_fields(self, make_plan: Any) -> None:
        empty = {"description": "", "destination_address_prefix": "", "source_port_ranges": []}
        rule = {**empty, "access": "Allow", "destination_port_range": "443", "name": "https"}
        ranges = [f"203.0.{n}.0/24" for n in range(5)]
        rule |= {"direction": "Inbound", "source_address_prefixes": ranges}
        group = "azurerm_network_security_group.g"
        stack = _review(make_plan("a", (group, "update", {"r": []}, {"r": [rule]}))).stacks[0]
        ((path, _, _, _, said),) = [
            [str(getattr(piece, "text", piece)) for piece in line]
            for line in attribute_lines(stack.changes[0])
        ][:1]
        assert path == "r.https"
        shown = "direction access source_address_prefixes destination_port_range name"
        assert list(json.loads(said)) == shown.split()
        alone = ("azurerm_network_security_rule.https", "create", None, {**rule, "name": "h"})
        ((_, _, facts),) = [
            [str(getattr(piece, "text", piece)) for piece in change_line(change)]
            for change in _review(make_plan("b", alone)).stacks[0].changes
        ]
        assert "direction = " in facts
        assert "destination_port_range = " in facts
        assert "description" not in facts

    def test_review_markdown_lists_all_destroyed_and_limits_other_resources(
        self, make_plan: Any
    ) -> None:
        new = [(f"azurerm_subnet.new{n}", "create", None, {"name": "a"}) for n in range(300)]
        old = [(f"azurerm_subnet.old{n}", "delete", {"name": "a"}, None) for n in range(300)]
        comment = markdown(_review(make_plan("a", *new, *old)))
        assert comment.count("azurerm_subnet.old") == 300
        assert comment.count("azurerm_subnet.new") == 200
        assert "300 created" in comment
        assert "and 100 more" in comment
        mixed = [read_plan(f"c={make_plan('b', *new, *old)}")]
        both = markdown(review(mixed, base=mixed))
        assert both.count("azurerm_subnet.old") == 300
        assert both.count("azurerm_subnet.new") == 200

"""Lines of a review, the same for a terminal and for a pull request.

A line is a list of pieces: `str` for Fairway's own words, `Untrusted` for untrusted text from a
plan. Whatever prints a line decides how each is escaped.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairway_core.cost.meters import HOURS_A_MONTH
from fairway_core.findings import counted
from fairway_core.review.attributes import HIDDEN, UNKNOWN
from fairway_core.review.changes import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fairway_core.review.attributes import AttributeChange
    from fairway_core.review.changes import Change, OutputChange
    from fairway_core.review.costs import CostReview
    from fairway_core.review.review import Loss, Review, StackReview

# Longer values are cut around the first difference between old and new.
_LONGEST = 100
# An added or removed block, such as a rule, whose meaning depends on several values.
_LONGEST_BLOCK = 400
# Fields that decide what a rule admits, which are shown first.
_RULE = (
    "direction",
    "access",
    "protocol",
    "source_address_prefix",
    "source_address_prefixes",
    "destination_port_range",
    "destination_port_ranges",
)
_MOST_ATTRIBUTES = 40

DONE: Mapping[Action, str] = {
    Action.DESTROY: "destroyed",
    Action.REPLACE: "replaced",
    Action.CHANGE: "changed",
    Action.CREATE: "created",
    Action.FORGET: "removed from state but kept in Azure",
    Action.MOVE: "moved",
    Action.IMPORT: "imported",
}
"""Words for each action on resources, in the order in which a reader should see them."""


@dataclass(frozen=True)
class Untrusted:
    """Untrusted text from a plan."""

    text: str


Line = list[str | Untrusted]


def summary(review: Review) -> str:
    """Returns one sentence with the number of resources by action, in all stacks."""
    return _counted(review.totals())


def summary_of_stack(stack: StackReview) -> str:
    """Returns one sentence about a stack: the number of resources by action, or that it waits."""
    counted = _counted(stack.totals())
    if stack.state != "waiting":
        return counted
    if stack.promised:
        return f"waits for other stacks; then {counted}"
    known = f"; known so far: {counted}" if stack.planned else ""
    return f"waits for other stacks{known}"


def _counted(counts: Mapping[Action, int]) -> str:
    parts = [f"{count} {DONE[action]}" for action, count in counts.items() if count]
    return ", ".join(parts) if parts else "nothing would change"


def allow_options(losses: Iterable[Loss]) -> str:
    """Returns the options that allow these losses, quoted for a shell."""
    addresses = dict.fromkeys(loss.address for loss in losses)
    return " ".join(f"--allow {shlex.quote(address)}" for address in addresses)


def change_line(change: Change) -> Line:
    """Returns a line with the resource, and why it is replaced or what a new one has."""
    line: Line = [Untrusted(change.address)]
    if change.deposed:
        line += [" (deposed ", Untrusted(change.deposed), ")"]
    if change.moved_from:
        line += [", which was ", Untrusted(change.moved_from)]
    if change.import_id:
        line += [", which is ", Untrusted(change.import_id)]
    if "forget" in change.actions and change.action is Action.REPLACE:
        line += ["; the old one stays in Azure"]
    if change.because:
        line += [" because of ", Untrusted(", ".join(change.because))]
    elif change.action is Action.REPLACE and change.reason:
        line += [": ", Untrusted(change.reason.replace("_", " "))]
    facts = ", ".join(f"{name} = {format_value(value)}" for name, value in change.facts)
    if facts:
        line += [": ", Untrusted(facts)]
    return line


def attribute_lines(change: Change) -> Iterator[Line]:
    """Yields a line per attribute, old → new; values that Azure decides anew are only counted."""
    unknown = [each for each in change.attributes if _is_noise(change, each)]
    listed = [each for each in change.attributes if not _is_noise(change, each)]
    for each in listed[:_MOST_ATTRIBUTES]:
        yield attribute_line(each)
    if len(listed) > _MOST_ATTRIBUTES:
        more = counted(len(listed) - _MOST_ATTRIBUTES, "more attribute")
        yield [f"and {more}, see `--json`"]
    if unknown:
        yield [f"{counted(len(unknown), 'attribute')} known after apply"]


def attribute_line(attribute: AttributeChange) -> Line:
    """Returns a line with one attribute, old → new."""
    old, new = format_change(attribute.old, attribute.new)
    line: Line = [Untrusted(attribute.path), ": ", Untrusted(old), " → ", Untrusted(new)]
    return [*line, " forces replacement"] if attribute.forces else line


def output_line(output: OutputChange) -> Line:
    """Returns a line with one output, old → new."""
    old, new = format_change(output.old, output.new)
    return [Untrusted(output.name), ": ", Untrusted(old), " → ", Untrusted(new)]


def waiting_line(stack: StackReview) -> Line:
    """Returns a line with the stacks that this one waits for, and what follows from that."""
    if stack.promised:
        return [
            "waits for outputs of ",
            Untrusted(", ".join(stack.waits_for)),
            "; this is what it would do with them; what depends on their values is not known yet",
        ]
    known = "this is not all" if stack.planned else "not planned"
    return [
        f"{known} yet: it needs outputs of ",
        Untrusted(", ".join(stack.waits_for)),
        " that are not deployed yet, and is planned when they are",
    ]


def reread_line(stack: StackReview) -> Line:
    """Returns a line on drift that Terraform lists although no value differs."""
    differ = "differ" if stack.format_only > 1 else "differs"
    return [f"{counted(stack.format_only, 'resource')} {differ} only in formatting (not drift)"]


def cost_lines(cost: CostReview, *, most: int | None = None) -> Iterator[Line]:
    """Yields lines with the difference, that of `most` resources, and the sources of prices."""
    known, changes = cost.known
    if not changes:
        yield ["no change in hourly costs"]
        return
    high, low = (_hour_and_month(x, cost.currency) for x in (cost.hourly, cost.hourly_at_minimum))
    where = "" if high == low else f" at the maximum number of nodes, {low} at the minimum"
    some, named = f"{changes - known} of {changes} changes", _without_price(cost, most)
    if known == changes:
        yield [f"{high}{where}"]
    elif cost.hourly is None:
        yield [f"{high}; in {some} (", *named, ") parts have no known price"]
    else:  # the known part would look complete, and may not include the nodes
        whole = f"not known as a whole, as parts of {some} ("
        yield [whole, *named, f") have no known price; the rest: {high}{where}"]
    for each in cost.changes[:most]:
        sides = each.before, each.after
        before, after = map(_amount, sides)
        said = each.is_complete or None in sides
        line: Line = [Untrusted(each.address), f": {before} → {after} {cost.currency} an hour for "]
        rest = "" if said else ", of which parts have no known price"
        yield [*line, Untrusted(each.what), rest]
    if most is not None and changes > most:
        yield [f"and {changes - most:,} more, see `--json`"]
    for source, date in cost.prices:
        yield ["prices from ", Untrusted(source), f", of {date}"]


def format_value(value: Any) -> str:
    """Returns a value as JSON, or a marker as its text."""
    if value in (HIDDEN, UNKNOWN):
        return repr(value)
    return json.dumps(value, ensure_ascii=False, default=repr)


def format_change(old: Any, new: Any) -> tuple[str, str]:
    """Returns old and new as text; long texts are cut to a window around the first difference.

    >>> format_change("1", 2)
    ('"1"', '2')
    """
    longest = _LONGEST
    if (old is None and isinstance(new, dict)) or (new is None and isinstance(old, dict)):
        old, new, longest = _filled(old), _filled(new), _LONGEST_BLOCK
    texts = format_value(old), format_value(new)
    if max(map(len, texts)) <= longest:
        return texts
    pairs = zip(*texts, strict=False)
    first = next((index for index, (a, b) in enumerate(pairs) if a != b), 0)
    start = max(0, first - longest // 4)
    return _window(texts[0], start, longest), _window(texts[1], start, longest)


def _filled(value: Any) -> Any:
    """Returns the value without blocks' empty fields, with what a rule admits first."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: _RULE.index(key) if key in _RULE else len(_RULE))
        return {key: _filled(value[key]) for key in keys if value[key] not in (None, "", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def _window(text: str, start: int, longest: int) -> str:
    if len(text) <= longest and start == 0:
        return text
    end = start + longest
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"


def _is_noise(change: Change, attribute: AttributeChange) -> bool:
    return change.action is Action.REPLACE and attribute.new is UNKNOWN and not attribute.forces


def _amount(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return f"{amount:.2g}" if 0 < amount < 0.1 else f"{amount:,.2f}"


def _difference(amount: float | None, currency: str) -> str:
    if amount is None:
        return "an unknown amount more or less"
    return f"{'+' if amount >= 0 else '−'}{abs(amount):,.2f} {currency}"


def _without_price(cost: CostReview, most: int | None) -> Line:
    """Returns the addresses of resources with parts without a known price."""
    addresses = [each.address for each in cost.changes if not each.is_complete]
    said: Line = []
    for number, address in enumerate(addresses[:most]):
        said += [", " if number else "", Untrusted(address)]
    more = len(addresses) - len(addresses[:most])
    return [*said, f" and {more:,} more"] if more else said


def _hour_and_month(hourly: float | None, currency: str) -> str:
    said = f"{_difference(hourly, currency)} an hour"
    if hourly is None:
        return said
    return f"{said}, {_difference(hourly * HOURS_A_MONTH, currency)} a month of 730 hours"

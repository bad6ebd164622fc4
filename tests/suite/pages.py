"""Golden pages of messages: inputs, required facts of the output, and its exact text.

A page `golden/messages/AREA.txt` is a list of cases:

    > gpus: 0
    = 2 job.yaml:4:7 [bad-value]
    job.yaml:4:7: error: `gpus`: …

Lines with `>` are the input. A line with `=` must hold: the exit code, and the place and id of each
finding. The text below is compared too, and rewritten by

    FAIRWAY_GOLDEN=write bin/test -k messages

which adds a missing `=` line to a case, but changes no existing one. Lines with `|` at the
beginning of a page are put before the input of each case.
"""

import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path

PAGES = Path(__file__).resolve().parents[1] / "golden" / "messages"
_FINDING = re.compile(r"^(?:(\S+?:\d+:\d+): )?(?:error|warning): .*?(\[[a-z-]+\])$", re.M | re.S)


def facts_of(code: int, printed: str) -> str:
    """Returns the exit code, and the place and id of each finding."""
    found = _FINDING.findall(printed)
    return " ".join([str(code), *(f"{place} {name}".strip() for place, name in found)])


def hold(area: str, answer: Callable[[str], tuple[int, str]]) -> None:
    """Compares a page with the answer to each of its cases: an exit code, and the printed text."""
    page = PAGES / f"{area}.txt"
    written = page.read_text("utf-8")
    shown, wrong, head = [], [], ""
    for case in re.split(r"\n\n(?=> )", written.strip()):
        lines = case.splitlines()
        if case.startswith("|"):
            head = "".join(f"{line[2:]}\n" for line in lines)
            shown.append(case)
            continue
        given = [line[2:] for line in lines if line.startswith("> ")]
        known = [line[2:] for line in lines if line.startswith("= ")]
        code, printed = answer(head + "\n".join(given))
        facts = facts_of(code, printed)
        if known not in ([], [facts]):
            wrong.append((given, known, facts))
        body = re.sub(r"[ \t]+$", "", printed.strip("\n"), flags=re.M)
        shown.append("\n".join([*(f"> {line}" for line in given), f"= {facts}", body]))
    assert not wrong, wrong
    new = "\n\n".join(shown) + "\n"
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        assert os.environ.get("CI") != "true", "a page is read by a person before it is right"
        page.write_text(new, "utf-8")
        written = new
    changes = difflib.unified_diff(
        written.splitlines(), new.splitlines(), "page", "now", lineterm=""
    )
    assert not (difference := "\n".join(changes)), f"\n{difference}"

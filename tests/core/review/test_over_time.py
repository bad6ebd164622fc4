"""Changes of a deployed environment, planned by azurerm 5.2.0 and reviewed.

Each file in `over_time/` holds the plans of one edit of the same environment, reduced to the parts
that a review reads: `base` is the unchanged environment. The comments are stored beside them. After
an intended change, rewrite them:

    FAIRWAY_GOLDEN=write bin/test tests/core/review/test_over_time.py
"""

import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from fairway_core.review.markdown import markdown
from fairway_core.review.plan import Plan, read_plan
from fairway_core.review.review import Review, review

CHANGES = Path(__file__).with_name("over_time")
PAIR = "`azurerm_linux_virtual_machine_scale_set.cluster-pair`"
SERVER = "every node that mounts `data` hangs until the new one is up"
SCHEDULER = "`sbatch` and `squeue` wait until the new one is up"


def _plans(name: str, folder: Path) -> list[Plan]:
    found: dict[str, Any] = json.loads(lzma.decompress((CHANGES / f"{name}.json.xz").read_bytes()))
    plans = []
    for role in ("network", "data", "compute"):
        for stack, content in found.items():
            if stack.endswith(role):
                file = folder / f"{stack}.json"
                lines = content if isinstance(content, list) else [content]
                file.write_text("\n".join(map(json.dumps, lines)))
                plans.append(read_plan(str(file)))
    return plans


def _reviewed(name: str, folder: Path) -> Review:
    base = []
    if name == "rename":
        (folder / "base").mkdir()
        base = _plans("base", folder / "base")
    return review(_plans(name, folder), base=base)


# Findings that an engineer would expect for each change: ids and their count.
SAID: dict[str, dict[str, int]] = {
    "add-fs": {},
    "add-fs-mounted": {},
    "address": {"refused-by-azure": 4, "mixed-nodes": 3, "lost-nodes": 1, "replaced-server": 2},
    "base": {},
    "container-rename": {"data-loss": 1, "held-by-lock": 3},
    "disk-count-down": {"data-loss": 1, "replaced-server": 1},
    "disk-count-up": {"replaced-server": 1},
    "disk-shrink": {"refused-by-azure": 2},
    "grow": {},
    "image": {"mixed-nodes": 1},
    "one-node": {"lost-nodes": 1},
    "path": {"mixed-nodes": 3, "replaced-server": 1, "failed-plan": 1},
    "remove-fs": {"data-loss": 2, "replaced-server": 1},
    "remove-slurm": {"data-loss": 2, "held-by-lock": 3, "replaced-server": 1, "lost-nodes": 1},
    "rename": {},
    "spot-on": {"lost-nodes": 1},
    "ssh-key": {"mixed-nodes": 2, "lost-nodes": 1, "replaced-server": 2, "failed-plan": 1},
}


@pytest.mark.parametrize("name", sorted(SAID))
def test_review_of_each_change_over_time_matches_findings_and_golden_comment(
    name: str, tmp_path: Path
) -> None:
    found = _reviewed(name, tmp_path)
    ids = [finding.id for stack in found.stacks for finding in stack.findings]
    assert {id_: ids.count(id_) for id_ in ids} == SAID[name]
    comment, golden = markdown(found), CHANGES / f"{name}.md"
    if os.environ.get("FAIRWAY_GOLDEN") == "write":
        golden.write_text(comment, encoding="utf-8")
    assert comment == golden.read_text(encoding="utf-8")

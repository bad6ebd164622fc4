"""Inputs that nodes stage and secrets that they read by their identity, on any engine."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fairway_simulator.ssh.services import CONTAINER, Services


def services() -> Services:
    """Returns the storage account and the vault."""
    blobs = {"words/a": b"alpha", "words/sub/b": b"beta"}
    return Services(blobs=blobs, secrets={"hub": "hunter2-secret"})


def check_staging(
    fairway: Any, there: Services, target: dict[str, Any], nodes: Iterable[str], *seen: Path
) -> None:
    """Asserts that three nodes have a job's inputs, and no file below `seen` has its secret."""
    storage = {"account_url": there.url, "containers": [CONTAINER]}
    target = {**target, "storage": storage, "vault_url": there.url}
    (fairway.folder / "fairway.yaml").write_text(json.dumps({"targets": [target]}))
    job = fairway.job(
        'echo "on $(hostname) $(cat $FAIRWAY_INPUT_WORDS/sub/b) $(cat $FAIRWAY_INPUT_ALL/words/a)'
        ' $TOKEN $(printf %s "$TOKEN" | wc -c)"',
        template="every-node",
        nodes=3,
        inputs={
            "words": {"from": f"{CONTAINER}:words/"},
            "all": {"from": f"{CONTAINER}:", "stage": "shared"},
        },
        secrets={"TOKEN": "keyvault:hub"},
    )
    printed = fairway.watch(job, "-t", target["name"])
    lines = sorted(line for line in printed.splitlines() if line.startswith("on "))
    assert lines == [f"on {name} beta alpha *** 14" for name in nodes]
    copied = [path for path in there.requests if "/words/a" in path and "comp=" not in path]
    assert len(copied) == 4, "once a node, and once in the shared folder"
    for path in [each for folder in seen for each in folder.rglob("*") if each.is_file()]:
        assert b"hunter2-secret" not in path.read_bytes(), path

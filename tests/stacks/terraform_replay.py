"""A program in place of Terraform that plays recorded plans of one change, stack after stack.

TERRAFORM_REPLAY names a folder with `plans.json`: {STACK: {"errored": PLAN, "whole": PLAN}}, where
`errored` is what azurerm 5.2.0 made while an output of `needs` was missing. A stack that was
applied has no changes left. `applied.txt` gets the name of each stack as it is applied.
"""

import json
import os
import sys
from pathlib import Path

UNKNOWN = "${jsondecode(uuid())}"
HERE = Path(os.environ["TERRAFORM_REPLAY"])
folder = Path(next(a for a in sys.argv if a.startswith("-chdir=")).removeprefix("-chdir="))
stack = folder.name
command, *arguments = sys.argv[2:]
recorded = json.loads((HERE / "plans.json").read_text())[stack]
log = HERE / "applied.txt"
applied = log.read_text().split() if log.exists() else []
document = json.loads((folder / "cdk.tf.json").read_text())
states = document.get("data", {}).get("terraform_remote_state", {})


def missing():
    """The stack whose state lacks an output that this one reads."""
    needs = recorded.get("needs")
    reads = f"cross-stack-reference-input-{needs}" in states
    return needs if reads and needs not in applied else None


def later(plan):
    """The plan while values are only promised: what was read from there is unknown."""
    for each in plan["resource_changes"]:
        change = each["change"]
        for name in recorded.get("reads", ()):
            if isinstance(change.get("after"), dict) and name in change["after"]:
                del change["after"][name]
                change["after_unknown"] = {**change["after_unknown"], name: True}
    return plan


def done(plan):
    """The plan of a stack without changes."""
    for each in plan["resource_changes"]:
        change = each["change"]
        change.update(actions=["no-op"], before=change["after"], after_unknown={})
    for each in plan["output_changes"].values():
        value = each.get("after") or "made"
        each.update(actions=["no-op"], before=value, after=value, after_unknown=False)
    return plan


if command == "plan":
    out = Path(next(a for a in arguments if a.startswith("-out=")).removeprefix("-out="))
    unknown = UNKNOWN in json.dumps(document.get("locals", {}))
    state = "errored" if missing() else "later" if unknown else "whole"
    out.write_text("done" if stack in applied else state)
    if state == "errored":
        summary = "Unsupported attribute"
        detail = 'This object does not have an attribute named "cross-stack-output-new".'
        found = {"severity": "error", "summary": summary, "detail": detail}
        print(json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": found}))
        sys.exit(1)
elif command == "show":
    state = Path(arguments[-1]).read_text()
    plan = recorded["errored" if state == "errored" else "whole"]
    print(json.dumps({"later": later, "done": done}.get(state, dict)(plan)))
elif command == "apply":
    state = Path(arguments[-1]).read_text()
    assert state in ("whole", "done"), f"{stack}: {state} is applied"
    log.write_text("\n".join([*applied, stack]))
elif command == "validate":
    print(json.dumps({"valid": True, "diagnostics": []}))
elif command == "output":
    print(json.dumps({"targets": {"value": [stack], "sensitive": False}}))

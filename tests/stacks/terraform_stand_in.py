"""A program in place of Terraform, for the order in which it is called and what becomes of it.

It needs no provider. TERRAFORM_STAND_IN names a folder: `calls.jsonl` gets a line a call, and
`faults.json`, where it is there, says what goes wrong: {"STACK COMMAND": FAULT}. A stack with a
file `STACK.azure.json` has these resources, {ADDRESS: {"there": BOOL, "values": VALUES}}: what its
configuration does not name is destroyed, and below a lock Azure refuses that.
"""

import json
import os
import sys
from pathlib import Path

HERE = Path(os.environ["TERRAFORM_STAND_IN"])
folder = Path(next(a for a in sys.argv if a.startswith("-chdir=")).removeprefix("-chdir="))
stack = folder.name
command, *arguments = sys.argv[2:]
host = os.environ.get("ARM_METADATA_HOSTNAME", "")


def diagnose(summary, detail, **more):
    facts = {"severity": "error", "summary": summary, "detail": detail, **more}
    print(json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": facts}))


UNKNOWN = "${jsondecode(uuid())}"
document = json.loads((folder / "cdk.tf.json").read_text())
call = {
    "stack": stack,
    "command": command,
    "arguments": arguments,
    "host": host,
    "client": os.environ.get("ARM_CLIENT_ID", ""),
    "backend": document["terraform"]["backend"],
    "inputs": document.get("data", {}).get("terraform_remote_state", {}),
    "promised": document.get("locals", {}),
}
with (HERE / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(call) + "\n")

if host and command != "init":  # the stand-in for Azure is there, and is trusted
    import ssl
    import urllib.request

    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    with urllib.request.urlopen(f"https://{host}/metadata/endpoints", context=context) as found:
        assert json.load(found)["resourceManager"] == f"https://{host}/"

faults = json.loads((HERE / "faults.json").read_text()) if (HERE / "faults.json").exists() else {}
fault = faults.get(f"{stack} {command}", "")
if fault == "no-provider":
    diagnose("Failed to query available provider packages", "could not connect\nto it\n\nMore.")
    sys.exit(1)
if fault == "no-inputs" and call["inputs"]:
    source = "data.terraform_remote_state.cross-stack-reference-input-demo-network"
    what = "No stored state was found for the given workspace."
    diagnose("Unable to find remote state", what, address=source)
    sys.exit(1)
if fault == "refused" and command == "validate":
    facts = {"severity": "error", "summary": "Unsupported argument", "detail": "Not here."}
    print(json.dumps({"valid": False, "diagnostics": [facts]}))
    sys.exit(1)
if fault == "broken":
    diagnose("Service unavailable", "Azure is not there.")
    sys.exit(1)

if host and command == "apply":
    diagnose("Applied to the stand-in for Azure", "A plan from nothing applies nothing.")
    sys.exit(1)

# Terraform: "At least one object property is required, whose name represents the block's type."
for section in ("data", "locals", "resource", "output"):
    if command == "plan" and document.get(section) == {}:
        diagnose("Missing block label", section)
        sys.exit(1)

# "without NETWORK": until that stack was applied its state lacks an output that this one reads.
# Terraform writes a plan of what does not need it, and says that it is errored. Where the stack
# does not read that state it lacks nothing.
lacks = fault.removeprefix("without ") if fault.startswith("without ") else ""
reads = f"cross-stack-reference-input-{lacks}" in call["inputs"]
if lacks and (not reads or (HERE / f"{lacks}.applied").exists()):
    lacks = ""
if command == "apply":
    (HERE / f"{stack}.applied").touch()

azure_file = HERE / f"{stack}.azure.json"
azure = json.loads(azure_file.read_text()) if azure_file.exists() else {}


def changes_in_azure():
    """Changes of the resources of the file, locks last: they depend on what is below."""
    for address, each in sorted(azure.items(), key=lambda item: "lock" in item[0]):
        kind, _, name = address.partition(".")
        wanted = name in document["resource"].get(kind, {})
        actions = {(True, False): "delete", (False, True): "create"}.get((each["there"], wanted))
        yield {
            "address": address,
            "mode": "managed",
            "type": kind,
            "name": name,
            "provider_name": "hashicorp/azurerm",
            "change": {
                "actions": [actions or "no-op"],
                "before": each["values"] if each["there"] else None,
                "after": each["values"] if wanted else None,
            },
        }


def apply_to_azure(plan):
    """Terraform destroys in the opposite order of what depends on what, and makes then."""
    made = [each for each in plan if each["change"]["actions"] == ["create"]]
    gone = [each for each in plan if each["change"]["actions"] == ["delete"]]
    for each in [*reversed(gone), *made]:
        scopes = [
            other["values"]["scope"]
            for address, other in azure.items()
            if other["there"] and address.startswith("azurerm_management_lock.")
        ]
        below = str((each["change"]["before"] or {}).get("id")).startswith(tuple(scopes))
        if each in gone and below and "management_lock" not in each["address"]:
            what = 'unexpected status 409 (409 Conflict) with error: ScopeLocked: The scope "/s" '
            diagnose(what + "cannot perform delete operation", "", address=each["address"])
            sys.exit(1)
        azure[each["address"]]["there"] = each in made
        azure_file.write_text(json.dumps(azure))
        if fault == "killed":
            sys.exit(137)


if azure and command in ("plan", "show", "apply"):
    if command == "plan":
        out = next(a for a in arguments if a.startswith("-out=")).removeprefix("-out=")
        Path(out).write_text(json.dumps(list(changes_in_azure())))
    elif command == "apply":
        apply_to_azure(json.loads(Path(arguments[-1]).read_text()))
    else:
        changes = json.loads(Path(arguments[-1]).read_text())
        print(json.dumps({"format_version": "1.2", "resource_changes": changes}))
    sys.exit(0)

if command == "plan":
    out = next(a for a in arguments if a.startswith("-out=")).removeprefix("-out=")
    Path(out).write_text(f"-destroy {stack}" if "-destroy" in arguments else stack)
    if fault == "prevented":
        diagnose("Instance cannot be destroyed", "prevent_destroy is set.")
        sys.exit(1)
    if lacks:
        Path(out).write_text(f"{stack} {lacks}")
        name = 'This object does not have an attribute named "cross-stack-output-zone".'
        diagnose("Unsupported attribute", name)
        sys.exit(1)
elif command == "show":
    action = faults.get(f"{stack} action", "create")
    if Path(arguments[-1]).read_text().startswith("-destroy"):
        action = "delete"
    tags = {"owner": faults.get(f"{stack} owner", "me")}
    before, after = {
        "create": (None, tags),
        "delete": (tags, None),
        "shrink": ({"disk_size_gb": 64}, {"disk_size_gb": 32}),
    }[action]
    change = {
        "address": f"azurerm_managed_disk.{stack}",
        "mode": "managed",
        "type": "azurerm_managed_disk",
        "name": stack,
        "provider_name": "hashicorp/azurerm",
        "change": {
            "actions": ["update" if action == "shrink" else action],
            "before": before,
            "after": after,
            "after_unknown": {},
            "before_sensitive": {},
            "after_sensitive": {},
        },
    }
    plan = {"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": [change]}
    # What others read of the stack: its value is known when it was applied.
    zones = [each["cross-stack-output-zone"] for each in document.get("locals", {}).values()]
    if action == "create":
        zone = f"zone of {stack}"
        known = (HERE / f"{stack}.applied").exists()
        output = {"actions": ["no-op"], "before": zone, "after": zone, "after_unknown": False}
        if not known:
            output = {"actions": ["create"], "before": None, "after_unknown": True}
        plan["output_changes"] = {"cross-stack-output-zone": output}
        if UNKNOWN in zones:
            change["change"]["after_unknown"] = {"zones": True}
        elif zones or call["inputs"]:
            change["change"]["after"] = {**after, "zones": zones or ["read"]}
        if known:
            change["change"].update(actions=["no-op"], before=change["change"]["after"])
    if faults.get(f"{stack} plan") == "prevented":
        plan["errored"] = True
    lacks = Path(arguments[-1]).read_text().removeprefix("-destroy ").partition(" ")[2]
    if lacks:
        source = {"type": "terraform_remote_state", "name": f"cross-stack-reference-input-{lacks}"}
        found = {**source, "values": {"outputs": {}}}
        zone = f"${{data.terraform_remote_state.{source['name']}.outputs.cross-stack-output-zone}}"
        user = {"type": "azurerm_x", "name": "x", "expressions": {"a": {"constant_value": zone}}}
        plan["errored"] = True
        plan["prior_state"] = {"values": {"root_module": {"resources": [found]}}}
        plan["configuration"] = {"root_module": {"resources": [source, user]}}
    print(json.dumps(plan))
elif command == "validate":
    print(json.dumps({"valid": True, "diagnostics": []}))
elif command == "output":
    kept = {"value": [stack], "sensitive": False}
    print(json.dumps({"targets": kept, "secret": {"value": "x", "sensitive": True}}))

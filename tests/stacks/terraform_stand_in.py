"""A program in place of Terraform, for the order in which it is called and what becomes of it.

It needs no provider. TERRAFORM_STAND_IN names a folder: `calls.jsonl` gets a line a call, and
`faults.json`, where it is there, says what goes wrong: {"STACK COMMAND": FAULT}.
"""

import json
import os
import re
import sys
from pathlib import Path

HERE = Path(os.environ["TERRAFORM_STAND_IN"])
folder = Path(next(a for a in sys.argv if a.startswith("-chdir=")).removeprefix("-chdir="))
stack = folder.name
command, *arguments = sys.argv[2:]
host = os.environ.get("ARM_METADATA_HOSTNAME", "")


def diagnose(summary, detail):
    facts = {"severity": "error", "summary": summary, "detail": detail}
    print(json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": facts}))


document = json.loads((folder / "cdk.tf.json").read_text())
call = {
    "stack": stack,
    "command": command,
    "arguments": arguments,
    "host": host,
    "client": os.environ.get("ARM_CLIENT_ID", ""),
    "backend": document["terraform"]["backend"],
    "inputs": document.get("data", {}).get("terraform_remote_state", {}),
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
if fault == "no-inputs":
    diagnose("Unable to find remote state", "No stored state was found for the given workspace.")
    sys.exit(1)
if fault == "refused" and command == "validate":
    facts = {"severity": "error", "summary": "Unsupported argument", "detail": "Not here."}
    print(json.dumps({"valid": False, "diagnostics": [facts]}))
    sys.exit(1)
if fault == "broken":
    diagnose("Service unavailable", "Azure is not there.")
    sys.exit(1)

if host and command == "apply":
    # The provider refuses a key whose host is not NAME.vault.SOMETHING, and the vault's own
    # address is the stand-in's. Source: azurerm provider 5.2.0, at apply.
    for account in document.get("resource", {}).get("azurerm_storage_account", {}).values():
        key = account.get("customer_managed_key", {}).get("key_vault_key_id")
        url = re.sub(r"\$\{[^}]*\.vault_uri\}", f"https://{host}/", key or "https://a.vault.b/")
        if not re.match(r"https://[^/]+\.vault\.[^/]+/", url):
            diagnose("expanding customer_managed_key", f"expected NAME.vault.** but got {host}")
            sys.exit(1)

if command == "plan":
    out = next(a for a in arguments if a.startswith("-out=")).removeprefix("-out=")
    Path(out).write_text(stack)
    if fault == "prevented":
        diagnose("Instance cannot be destroyed", "prevent_destroy is set.")
        sys.exit(1)
elif command == "show":
    action = faults.get(f"{stack} action", "create")
    tags = {"owner": faults.get(f"{stack} owner", "me")}
    before, after = {"create": (None, tags), "delete": (tags, None)}[action]
    change = {
        "address": f"azurerm_managed_disk.{stack}",
        "mode": "managed",
        "type": "azurerm_managed_disk",
        "name": stack,
        "provider_name": "hashicorp/azurerm",
        "change": {
            "actions": [action],
            "before": before,
            "after": after,
            "after_unknown": {},
            "before_sensitive": {},
            "after_sensitive": {},
        },
    }
    plan = {"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": [change]}
    if faults.get(f"{stack} plan") == "prevented":
        plan["errored"] = True
    print(json.dumps(plan))
elif command == "validate":
    print(json.dumps({"valid": True, "diagnostics": []}))
elif command == "output":
    kept = {"value": [stack], "sensitive": False}
    print(json.dumps({"targets": kept, "secret": {"value": "x", "sensitive": True}}))

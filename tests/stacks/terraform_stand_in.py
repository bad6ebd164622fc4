"""A program in place of Terraform, to test the order of calls and the handling of their results.

It needs no provider. TERRAFORM_STAND_IN names a folder: each call appends a line to `calls.jsonl`,
and an optional `faults.json` sets faults: {"STACK COMMAND": FAULT}. A stack with a file
`STACK.azure.json` has these resources, {ADDRESS: {"there": BOOL, "values": VALUES}}: resources
missing in its configuration are destroyed, and Azure refuses to destroy any below a lock.

Tests of code that calls Terraform often run a `Call` in their own process.
"""

import json
import os
import sys
from pathlib import Path

UNKNOWN = "${jsondecode(uuid())}"


def _read(file, otherwise):
    return json.loads(file.read_text()) if file.exists() else otherwise


class Call:
    """One call with its arguments and environment variables; `say` receives each output line."""

    def __init__(self, words, variables, say):
        self.here = Path(variables["TERRAFORM_STAND_IN"])
        self.variables, self.say = variables, say
        self.folder = Path(words[0].removeprefix("-chdir="))
        self.stack = self.folder.name
        self.command, *self.arguments = words[1:]
        self.host = variables.get("ARM_METADATA_HOSTNAME", "")
        self.document = json.loads((self.folder / "cdk.tf.json").read_text())
        self.inputs = self.document.get("data", {}).get("terraform_remote_state", {})
        self.faults = _read(self.here / "faults.json", {})
        self.fault = self.faults.get(f"{self.stack} {self.command}", "")
        self.azure_file = self.here / f"{self.stack}.azure.json"
        self.azure = _read(self.azure_file, {})

    def run(self):
        """Performs the command. Raises SystemExit if it fails."""
        self.note()
        if self.host and self.command != "init":
            self.meet_azure()
        self.fail_as_told()
        if self.command == "plan":
            self.require_blocks()
        if self.command == "apply":
            (self.here / f"{self.stack}.applied").touch()
        known = {"plan": self.plan, "show": self.show, "apply": self.apply}
        known |= {"validate": self.validate, "output": self.output}
        if self.command in known:
            known[self.command]()

    def note(self):
        found = {
            "stack": self.stack,
            "command": self.command,
            "arguments": self.arguments,
            "host": self.host,
            "client": self.variables.get("ARM_CLIENT_ID", ""),
            "backend": self.document["terraform"]["backend"],
            "inputs": self.inputs,
            "promised": self.document.get("locals", {}),
        }
        with (self.here / "calls.jsonl").open("a") as calls:
            calls.write(json.dumps(found) + "\n")

    def meet_azure(self):
        """Asserts that the stand-in for Azure answers and is trusted."""
        import ssl
        import urllib.request

        context = ssl.create_default_context(cafile=self.variables["SSL_CERT_FILE"])
        address = f"https://{self.host}/metadata/endpoints"
        with urllib.request.urlopen(address, context=context) as found:
            assert json.load(found)["resourceManager"] == f"https://{self.host}/"
        if self.command == "apply":
            self.fail("Applied to the stand-in for Azure", "A plan from nothing applies nothing.")

    def diagnose(self, summary, detail, **more):
        facts = {"severity": "error", "summary": summary, "detail": detail, **more}
        self.say(json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": facts}))

    def fail(self, summary, detail, **more):
        self.diagnose(summary, detail, **more)
        raise SystemExit(1)

    def fail_as_told(self):
        if self.fault == "no-provider":
            what = "Failed to query available provider packages"
            self.fail(what, "could not connect\nto it\n\nMore.")
        if self.fault == "no-inputs" and self.inputs:
            source = "data.terraform_remote_state.cross-stack-reference-input-demo-network"
            what = "No stored state was found for the given workspace."
            self.fail("Unable to find remote state", what, address=source)
        if self.fault == "refused" and self.command == "validate":
            facts = {"severity": "error", "summary": "Unsupported argument", "detail": "Not here."}
            self.say(json.dumps({"valid": False, "diagnostics": [facts]}))
            raise SystemExit(1)
        if self.fault == "broken":
            self.fail("Service unavailable", "Azure is not there.")

    def require_blocks(self):
        """Fails for an empty block. Terraform reports: "At least one object property is required,
        whose name represents the block's type"."""
        for section in ("data", "locals", "resource", "output"):
            if self.document.get(section) == {}:
                self.fail("Missing block label", section)

    def lacks(self):
        """Returns the stack named in the fault "without NETWORK" if this stack lacks its outputs.

        Until that stack is applied, its state lacks an output that this one reads. Terraform then
        writes a plan of what does not need the output, and marks it as errored. A stack that does
        not read that state lacks nothing.
        """
        name = self.fault.removeprefix("without ") if self.fault.startswith("without ") else ""
        reads = f"cross-stack-reference-input-{name}" in self.inputs
        return name if reads and not (self.here / f"{name}.applied").exists() else ""

    def changes_in_azure(self):
        """Yields changes of the file's resources, locks last: they depend on what they protect."""
        for address, each in sorted(self.azure.items(), key=lambda item: "lock" in item[0]):
            kind, _, name = address.partition(".")
            wanted = name in self.document["resource"].get(kind, {})
            actions = {(True, False): "delete", (False, True): "create"}.get(
                (each["there"], wanted)
            )
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

    def apply(self):
        """Destroys in reverse order of dependencies, then creates, as Terraform does."""
        plan = json.loads(Path(self.arguments[-1]).read_text()) if self.azure else []
        made = [each for each in plan if each["change"]["actions"] == ["create"]]
        gone = [each for each in plan if each["change"]["actions"] == ["delete"]]
        for each in [*reversed(gone), *made]:
            if each in gone and "management_lock" not in each["address"]:
                self.require_no_lock(each)
            self.azure[each["address"]]["there"] = each in made
            self.azure_file.write_text(json.dumps(self.azure))
            if self.fault == "killed":
                raise SystemExit(137)

    def require_no_lock(self, each):
        scopes = [
            other["values"]["scope"]
            for address, other in self.azure.items()
            if other["there"] and address.startswith("azurerm_management_lock.")
        ]
        if str((each["change"]["before"] or {}).get("id")).startswith(tuple(scopes)):
            what = 'unexpected status 409 (409 Conflict) with error: ScopeLocked: The scope "/s" '
            self.fail(what + "cannot perform delete operation", "", address=each["address"])

    def plan(self):
        out = next(a for a in self.arguments if a.startswith("-out=")).removeprefix("-out=")
        if self.azure:
            Path(out).write_text(json.dumps(list(self.changes_in_azure())))
            return
        Path(out).write_text(
            f"-destroy {self.stack}" if "-destroy" in self.arguments else self.stack
        )
        if self.fault == "prevented":
            self.fail("Instance cannot be destroyed", "prevent_destroy is set.")
        if lacks := self.lacks():
            Path(out).write_text(f"{self.stack} {lacks}")
            name = 'This object does not have an attribute named "cross-stack-output-zone".'
            self.fail("Unsupported attribute", name)

    def show(self):
        text = Path(self.arguments[-1]).read_text()
        plan = {"format_version": "1.2", "terraform_version": "1.11.4"}
        if self.azure:
            plan["resource_changes"] = json.loads(text)
        else:
            action = self.faults.get(f"{self.stack} action", "create")
            action = "delete" if text.startswith("-destroy") else action
            change = self.change(action)
            plan["resource_changes"] = [change]
            if action == "create":
                self.create(plan, change["change"])
            if self.faults.get(f"{self.stack} plan") == "prevented":
                plan["errored"] = True
            if lacks := text.removeprefix("-destroy ").partition(" ")[2]:
                self.lack(plan, lacks)
        self.say(json.dumps(plan))

    def change(self, action):
        tags = {"owner": self.faults.get(f"{self.stack} owner", "me")}
        before, after = {
            "create": (None, tags),
            "delete": (tags, None),
            "shrink": ({"disk_size_gb": 64}, {"disk_size_gb": 32}),
        }[action]
        return {
            "address": f"azurerm_managed_disk.{self.stack}",
            "mode": "managed",
            "type": "azurerm_managed_disk",
            "name": self.stack,
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

    def create(self, plan, change):
        """Adds the output that other stacks read: its value is known once this stack is applied."""
        read = [
            each["cross-stack-output-zone"] for each in self.document.get("locals", {}).values()
        ]
        zone = f"zone of {self.stack}"
        known = (self.here / f"{self.stack}.applied").exists()
        output = {"actions": ["no-op"], "before": zone, "after": zone, "after_unknown": False}
        if not known:
            output = {"actions": ["create"], "before": None, "after_unknown": True}
        plan["output_changes"] = {"cross-stack-output-zone": output}
        if UNKNOWN in read:
            change["after_unknown"] = {"zones": True}
        elif read or self.inputs:
            change["after"] = {**change["after"], "zones": read or ["read"]}
        if known:
            change.update(actions=["no-op"], before=change["after"])

    def lack(self, plan, name):
        source = {"type": "terraform_remote_state", "name": f"cross-stack-reference-input-{name}"}
        found = {**source, "values": {"outputs": {}}}
        zone = f"${{data.terraform_remote_state.{source['name']}.outputs.cross-stack-output-zone}}"
        user = {"type": "azurerm_x", "name": "x", "expressions": {"a": {"constant_value": zone}}}
        plan["errored"] = True
        plan["prior_state"] = {"values": {"root_module": {"resources": [found]}}}
        plan["configuration"] = {"root_module": {"resources": [source, user]}}

    def validate(self):
        self.say(json.dumps({"valid": True, "diagnostics": []}))

    def output(self):
        kept = {"value": [self.stack], "sensitive": False}
        self.say(json.dumps({"targets": kept, "secret": {"value": "x", "sensitive": True}}))


if __name__ == "__main__":
    Call(sys.argv[1:], os.environ, print).run()

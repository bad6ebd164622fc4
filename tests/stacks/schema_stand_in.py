"""A stand-in for Terraform that prints the schema of a provider."""

import json
import os
import sys
from pathlib import Path

folder, command = Path(sys.argv[1].removeprefix("-chdir=")), sys.argv[2:]
needs = json.loads((folder / "cdk.tf.json").read_text())["terraform"]["required_providers"]
assert needs == {"azurerm": {"source": "hashicorp/azurerm", "version": "~> 5.2"}}
if command[0] == "init":
    (folder / ".terraform").mkdir()
elif (folder / ".terraform").is_dir() and command[:2] == ["providers", "schema"]:
    print(Path(os.environ["TERRAFORM_SCHEMA"]).read_text())
elif command == ["version", "-no-color", "-json"]:
    versions = {"registry.terraform.io/hashicorp/azurerm": "5.4.1"}
    print(json.dumps({"terraform_version": "1.11.4", "provider_selections": versions}))
else:
    sys.exit(f"no such command: {command}")

"""The Azure section of the tutorial, run as written against stand-ins, from init to fetch.

A fake program takes the place of Node and Terraform: `cdktf deploy` runs the project's own app and
fills in `targets` with the values of the stand-in's VM and Bastion. All else is real: Fairway, ssh,
and a host that only the Bastion reaches.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import executable

from fairway_simulator.ssh.bastion import Bastion
from fairway_simulator.ssh.cluster import SshCluster, missing

pytestmark = pytest.mark.nightly

ADDRESS = "10.231.78.4"
_PATIENCE = 600.0  # seconds; only a hang takes so long

# `npm` installs `cdktf`, which runs the app of cdktf.json and applies its stacks; `terraform` then
# prints the outputs in a stack's folder.
_PROGRAM = """#!{python} -I
import json, os, pathlib, re, subprocess, sys

name, words, here = pathlib.Path(sys.argv[0]).name, sys.argv[1:], pathlib.Path({folder!r})
facts = json.loads((here / "facts.json").read_text())

def app():
    command = json.loads(pathlib.Path("cdktf.json").read_text())["app"]
    subprocess.run(command, shell=True, check=True)
    return pathlib.Path("cdktf.out/stacks")

def apply(stack):
    output = json.loads((stack / "cdk.tf.json").read_text()).get("output", {{}})
    text = json.dumps(output.get("targets", {{}}).get("value", []))
    text = re.sub(r'"\\$\\{{[^"]*private_ip_address[^"]*\\}}"', json.dumps(facts["address"]), text)
    bastion = f'"bastion": {{json.dumps(facts["bastion"])}}'
    text = re.sub(r'"bastion": "\\$\\{{[^"]*\\}}"', bastion, text)
    # The host has no account but this machine's, and no disk but this machine's.
    text = text.replace('"azureuser"', '"root"')
    text = text.replace('"/home/azureuser/fairway"', json.dumps(facts["shared"]))
    text = re.sub(r'"\\$\\{{[^"]*\\}}"', '"known-after-apply"', text)
    (stack / "outputs.json").write_text(json.dumps({{"targets": {{"value": json.loads(text)}}}}))

if (name, words) == ("npm", ["install", "--global", "cdktf-cli@0.21"]):
    (here / "bin" / "cdktf").symlink_to(here / "program")
elif name == "cdktf" and words[0] == "diff":
    assert (app() / words[1] / "cdk.tf.json").exists()
elif (name, words) == ("cdktf", ["deploy", "*"]):
    for stack in sorted(app().iterdir()):
        apply(stack)
elif name == "terraform" and words[1:] == ["output", "-json", "-no-color"]:
    print((pathlib.Path(words[0].removeprefix("-chdir=")) / "outputs.json").read_text())
else:
    sys.exit(f"{{name}}: {{words}} is not what the tutorial types")
"""


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[tuple[Bastion, dict[str, str]]]:
    """The Bastion before the user has signed in, and the variables of the user's shell."""
    lacking = missing() or ("" if shutil.which("ip") else "no ip (Debian: iproute2)")
    if lacking:
        pytest.skip(lacking)
    with SshCluster(tmp_path / "cluster", ["n1"], name="gpu", private=ADDRESS) as cluster:
        bastion = Bastion(tmp_path / "bastion", extensions=(), signed_in=False)
        bastion.lets_in(cluster.hosts["n1"])
        tools = tmp_path / "tools"
        (tools / "bin").mkdir(parents=True)
        program = executable(
            tools / "program", _PROGRAM.format(python=sys.executable, folder=str(tools))
        )
        for name in ("npm", "terraform"):
            (tools / "bin" / name).symlink_to(program)
        facts = {"address": ADDRESS, "bastion": bastion.id, "shared": str(cluster.shared)}
        (tools / "facts.json").write_text(json.dumps(facts))
        own = Path(sys.executable).parent
        path = f"{bastion.programs}:{tools / 'bin'}:{own}:{os.environ['PATH']}"
        yield bastion, {**os.environ, **cluster.environment, "PATH": path}


def _typed(document: Path, heading: str) -> list[str]:
    """Returns the commands of the code blocks below a heading."""
    section = document.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```bash\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return "".join(blocks).splitlines()


def test_ssh_tutorial_runs_the_job_in_the_cloud_and_fetches_its_model(
    cloud: tuple[Bastion, dict[str, str]], tmp_path: Path, repository: Path
) -> None:
    bastion, environment = cloud
    commands = _typed(repository / "docs" / "tutorial.md", "Azure")
    assert commands[0] == "az login"
    commands.remove("fairway doctor")  # it asks Azure itself
    assert commands[-1].startswith("fairway fetch")
    here = "fairway submit jobs/classify/job.yaml --target local --watch"
    begin = ["fairway init lab --location southcentralus --yes", "cd lab", here]
    done = subprocess.run(
        ["bash", "-euxc", "\n".join([*begin, *commands])],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs on gpu" in done.stdout
    models = [path for path in (tmp_path / "lab" / "results").rglob("*") if path.is_file()]
    assert models
    tunnels = [call for call in bastion.calls if call[:3] == ["network", "bastion", "tunnel"]]
    assert len(tunnels) == 2, "one for the job, and one for its files"

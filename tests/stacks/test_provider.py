"""The real provider accepts every stack of every environment, and plans it without an account.

Needs the azurerm provider: from its registry, from a plugin cache (TF_PLUGIN_CACHE_DIR), or from a
folder named by FAIRWAY_PROVIDER_MIRROR. So these tests run only on request, with `bin/test
--provider`, which exits with 4 and prints instructions if there is no provider.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished
from tests.stacks.documents import ENVIRONMENTS
from waiting import PATIENCE

from fairway_constructs.azurerm import PROVIDER_SOURCE, PROVIDER_VERSION

pytestmark = pytest.mark.provider

MIRROR, CACHE = "FAIRWAY_PROVIDER_MIRROR", "TF_PLUGIN_CACHE_DIR"
INSTALL = "terraform is not on PATH: install it, 1.9 or newer"

BRING = f"""\
On a machine that reaches its registry type

    bin/synth demo
    terraform -chdir=cdktf.out/stacks/demo-network providers mirror \\
        -platform={{platform}} $PWD/mirror

bring the folder `mirror` here, and type

    {MIRROR}=$PWD/mirror bin/test --provider"""


def _platform() -> str:
    """Returns this machine's platform as Terraform spells it."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}_{machine}"


def _kept() -> Path | None:
    """Returns the first of the two folders that contains the provider, packed or not."""
    for name in (MIRROR, CACHE):
        folder = Path(os.environ.get(name) or os.devnull)
        if folder.is_dir() and any(folder.glob(f"*/{PROVIDER_SOURCE}")):
            return folder.resolve()
    return None


def _variables(folder: Path) -> dict[str, str]:
    """Returns the variables with which Terraform fetches the provider once for all stacks."""
    cache = folder / "plugins"
    cache.mkdir()
    variables = {**os.environ, CACHE: str(cache), "CHECKPOINT_DISABLE": "1"}
    kept = _kept()
    if kept is not None:
        settings = folder / "settings.tfrc"
        path = json.dumps(str(kept))
        settings.write_text(
            f"provider_installation {{\n filesystem_mirror {{ path = {path} }}\n}}\n"
        )
        variables["TF_CLI_CONFIG_FILE"] = str(settings)
    return variables


def _missing(folder: Path, variables: dict[str, str]) -> str:
    """Returns why the provider is unavailable, with instructions, or "" if it is available."""
    if shutil.which("terraform") is None:
        return INSTALL
    stack = folder / "stack"
    stack.mkdir()
    needs = {"azurerm": {"source": PROVIDER_SOURCE, "version": PROVIDER_VERSION}}
    document = {"terraform": {"required_providers": needs}}
    (stack / "main.tf.json").write_text(json.dumps(document))
    done = _terraform(stack, variables, "init", "-no-color", "-input=false")
    if done.returncode == 0:
        return ""
    said = " ".join(done.stderr.split())
    reason = said[max(0, said.find("Could not")) :].partition(" To see which")[0][:300]
    how = BRING.format(platform=_platform())
    return f"the azurerm provider is not at hand: {reason}\n\n{how}"


def _terraform(
    folder: Path, variables: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    words = ["terraform", f"-chdir={folder}", *arguments]
    return finished(words, 2 * PATIENCE, env=variables, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns variables for Terraform to find the provider, or ends the run with instructions."""
    folder = tmp_path_factory.mktemp("provider")
    found = _variables(folder)
    missing = _missing(folder, found)
    if missing:
        pytest.exit(missing, returncode=4)
    return found


def _fairway(variables: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fairway_cli.entry", *words],
        env=variables,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda file: file.stem)
def test_provider_validates_every_stack(
    environment: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    _fairway({**variables, "CDKTF_OUTDIR": str(tmp_path)}, "synth", str(environment))
    for stack in sorted((tmp_path / "stacks").iterdir()):
        for words in (["init", "-backend=false", "-input=false"], ["validate"]):
            done = _terraform(stack, variables, *words, "-no-color")
            assert done.returncode == 0, f"{words[0]}:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda file: file.stem)
def test_provider_plans_every_stack_without_an_account(
    environment: Path, variables: dict[str, str]
) -> None:
    printed = _fairway(variables, "plan", str(environment), "--offline", "--json")
    stacks = json.loads(printed)["stacks"]
    assert [stack["state"] for stack in stacks] == ["planned"] * 3
    assert all(stack["changes"] for stack in stacks)

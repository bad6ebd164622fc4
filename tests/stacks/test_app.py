"""`fairway synth`, which cdktf runs: its output, its folder, and its refusals."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from endings import refused
from programs import finished
from tests.stacks.documents import FILES

from fairway_core.environment import selection
from fairway_core.findings import UserError

Fairway = Callable[..., int]
Synth = Callable[..., subprocess.CompletedProcess[str]]

SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
SYNTH = [sys.executable, "-P", "-m", "fairway_cli.main", "synth"]


def _run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CDKTF")}
    return finished(command, cwd=folder, env={**kept, **variables})


@pytest.fixture
def synth(
    fairway: Fairway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Synth:
    """Runs `fairway synth` in this process, which has already loaded cdktf, in the test's folder.

    Its Node.js process stays in the folder where it was started, so CDKTF_OUTDIR is absolute.
    """

    def run(
        *arguments: str, folder: Path = tmp_path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("CDKTF")]:
                patch.delenv(name)
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.chdir(folder)
            code = fairway("synth", *arguments)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return run


def test_synth_prints_a_line_per_stack_of_the_chosen_environment(
    tmp_path: Path, synth: Synth
) -> None:
    choice = {"CDKTF_OUTDIR": str(tmp_path / "out"), "FAIRWAY_ENVIRONMENT": "mine.yaml"}
    done = synth("demo", **choice)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["demo-network", "demo-data", "demo-compute"]
    assert lines[2] == "demo-compute: 2 resources -> out/stacks/demo-compute"
    assert "error:" not in done.stderr
    assert synth("demo", "extra", **choice).returncode == 2
    mine = FILES["demo"].read_text().replace("name: demo", "name: mine")
    (tmp_path / "mine.yaml").write_text(mine)
    assert synth(**choice).returncode == 0
    assert (tmp_path / "out" / "stacks" / "mine-network" / "cdk.tf.json").is_file()


def test_bin_synth_works_from_any_folder_without_activated_environment(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "jinja2.py").write_text("raise SystemExit('the wrong module')\n")
    done = _run(
        [str(repository / "bin" / "synth")],
        tmp_path,
        CDKTF_OUTDIR="out",
        FAIRWAY_ENVIRONMENT="demo",
        PATH="/usr/local/bin:/usr/bin:/bin" + os.pathsep + os.environ["PATH"],
    )
    assert done.returncode == 0, done.stderr
    assert "demo-compute: 2 resources -> out/stacks/demo-compute" in done.stdout
    state = (tmp_path / "out" / "stacks" / "demo-data" / "cdk.tf.json").read_text()
    assert "terraform.demo-data.tfstate" in state


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"FAIRWAY_ENVIRONMENT": "dmo"}, "did you mean `demo`?"),
        ({"FAIRWAY_ENVIRONMENT": "nothing.yaml"}, "nothing.yaml: no such file"),
        ({"FAIRWAY_ENVIRONMENT": "folder/nothing"}, "folder/nothing: no such file"),
        ({"FAIRWAY_ENVIRONMENT": ""}, "[no-environment]"),
        ({"FAIRWAY_STACKS": "stat"}, "FAIRWAY_STACKS: no stacks `stat`"),
        ({"CDKTF_OUTDIR": "FOLDER/file/out"}, "set CDKTF_OUTDIR to a folder"),
        ({"LEFT": "x_override.tf"}, "demo-data/x_override.tf: Terraform would read this too"),
        ({"LEFT": "override.tofu.json"}, "demo-data/override.tofu.json: Terraform would"),
        ({"LEFT": "a.auto.tfvars"}, "demo-data/a.auto.tfvars: Terraform would"),
        ({"LEFT": "a b.tf|terraform.tfvars.json"}, "demo-data/terraform.tfvars.json: Terraform w"),
        ({"LEFT": "a b.tf|c.tf"}, "/a b.tf' FOLDER/out/stacks/demo-data/c.tf\n"),
        ({"LEFT": ".a.auto.tfvars"}, "demo-data/.a.auto.tfvars: Terraform would"),
    ],
)
def test_synth_that_is_refused_changes_no_folder(
    tmp_path: Path, synth: Synth, variables: dict[str, str], said: str
) -> None:
    (tmp_path / "file").touch()
    stale = tmp_path / "out/stacks/lab-network/cdk.tf.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    (own := tmp_path / "out/stacks/demo-data").mkdir()
    # Terraform skips the first, which is how Emacs locks a file.
    for name in (".#cdk.tf", *variables.get("LEFT", "terraform.tfstate").split("|")):
        (own / name).touch()
    given = {"CDKTF_OUTDIR": "FOLDER/out", "FAIRWAY_ENVIRONMENT": "demo", **variables}
    done = synth(**{name: each.replace("FOLDER", str(tmp_path)) for name, each in given.items()})
    assert (done.returncode, done.stdout) == (2, "")
    assert said.replace("FOLDER", str(tmp_path)) in done.stderr
    assert ".#" not in done.stderr
    assert [*tmp_path.rglob("cdk.tf*")] == [stale]
    # An argument takes precedence.
    assert "FAIRWAY_STACKS" not in synth("nothing", **variables).stderr


def test_synth_refuses_faulty_file_at_its_line_without_node(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("name: lab\nlocatoin: westeurope\n")
    # Neither the output nor the exit code depends on Node.js.
    done = _run(
        SYNTH,
        tmp_path,
        FAIRWAY_ENVIRONMENT="lab.yaml",
        CDKTF_OUTDIR="out",
        JSII_NODE="/no/such/node",
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "lab.yaml:2:1: error: unknown key `locatoin` [unknown-key]" in done.stderr
    assert "did you mean `location`?" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_synth_reports_missing_node_without_traceback(tmp_path: Path) -> None:
    chosen = {"CDKTF_OUTDIR": "out", "FAIRWAY_ENVIRONMENT": "demo"}
    done = _run(SYNTH, tmp_path, JSII_NODE="/no/such/node", **chosen)
    assert done.returncode == 4
    assert "Node.js" in done.stderr
    assert "Traceback" not in done.stderr


def test_synth_without_outdir_writes_beside_cdktf_json(tmp_path: Path, synth: Synth) -> None:
    (tmp_path / "cdktf.json").write_text("{}")
    (tmp_path / "below").mkdir()
    done = synth(folder=tmp_path / "below", CDKTF_OUTDIR="", FAIRWAY_ENVIRONMENT="demo")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cdktf.out" / "stacks" / "demo-network" / "cdk.tf.json").is_file()


def test_environment_file_reports_missing_default_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fairway.yaml").write_text("targets: []\nenvironment: dmo\n")
    monkeypatch.delenv("FAIRWAY_ENVIRONMENT", raising=False)
    monkeypatch.chdir(tmp_path)
    finding = refused(lambda: selection.environment_file())
    assert finding.location is not None
    assert (finding.location.file, finding.location.line) == (str(tmp_path / "fairway.yaml"), 2)
    assert "did you mean `demo`?" in finding.hint


def test_environment_file_finds_environments_of_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab.yaml").write_text("name: lab\n")
    monkeypatch.setattr(selection, "_FOLDERS", (tmp_path / "none", tmp_path))
    assert selection.environment_file("lab") == tmp_path / "lab.yaml"
    with pytest.raises(UserError, match="`demo`"):
        selection.environment_file("demo")


def test_synth_refused_by_checks_keeps_the_earlier_output(tmp_path: Path, synth: Synth) -> None:
    """Earlier output is not overwritten either."""
    out = {"CDKTF_OUTDIR": str(tmp_path / "out"), "FAIRWAY_ENVIRONMENT": "lab.yaml"}
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu a"
    file = tmp_path / "lab.yaml"
    file.write_text(
        f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: [{key}]}}\n"
        f"resource_group: {{existing: /subscriptions/{SUBSCRIPTION}/resourceGroups/rg}}\n"
        "filesystems: {data: {kind: nfs_server, path: /data}}\nslurm: {login: {}}\n"
        "clusters: {nd: {engine: slurm, size: Standard_HB120rs_v3, nodes: 1, mounts: [data]}}\n"
    )
    assert synth(**out).returncode == 0
    written = tmp_path / "out/stacks/lab-network/cdk.tf.json"
    before = written.read_text()
    # Only the stacks know which addresses there are.
    vnet = "providers/Microsoft.Network/virtualNetworks/v"
    imported = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/{vnet}"
    file.write_text(f"{file.read_text()}imports: {{azurerm_virtual_network.vnt: {imported}}}\n")
    done = synth(**out)
    assert done.returncode == 2
    assert "azurerm_virtual_network.vnt" in done.stderr
    assert written.read_text() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lab.yaml", "out"]


def test_synth_with_closed_pipe_prints_no_traceback(tmp_path: Path) -> None:
    command = f"set -o pipefail; {shlex.join(SYNTH)} | true"
    done = _run(["bash", "-c", command], tmp_path, CDKTF_OUTDIR="out", FAIRWAY_ENVIRONMENT="demo")
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr


def test_synth_removes_stacks_of_another_environment_but_keeps_state(
    tmp_path: Path, synth: Synth
) -> None:
    stale = tmp_path / "out/stacks/lab-network"
    (stale / ".terraform").mkdir(parents=True)
    (stale / "cdk.tf.json").write_text("{}")
    (stale / "terraform.tfstate").write_text("{}")
    bare = tmp_path / "out/stacks/lab-data"
    bare.mkdir()
    (bare / "cdk.tf.json").write_text("{}")
    own = tmp_path / "out/stacks/demo-state"  # from a synthesis with FAIRWAY_STACKS=state
    own.mkdir()
    (own / "cdk.tf.json").write_text("{}")
    done = synth(CDKTF_OUTDIR=str(tmp_path / "out"), FAIRWAY_ENVIRONMENT="demo")
    assert done.returncode == 0, done.stderr
    assert sorted(entry.name for entry in stale.iterdir()) == [".terraform", "terraform.tfstate"]
    assert not bare.exists()
    assert (own / "cdk.tf.json").exists()
    assert (tmp_path / "out/stacks/demo-network/cdk.tf.json").exists()


def test_environment_file_finds_environments_of_a_project_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "lab.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert "beside cdktf.json" in refused(lambda: selection.environment_file("lab")).hint
    (folder / "lab.yaml").unlink()
    (tmp_path / "cdktf.json").write_text("{}")
    below = tmp_path / "jobs"
    below.mkdir()
    monkeypatch.delenv("FAIRWAY_ENVIRONMENT", raising=False)
    monkeypatch.chdir(below)
    with pytest.raises(UserError, match="no environment is chosen"):
        selection.environment_file()
    (folder / "lab.yaml").write_text("name: lab\n")
    assert selection.environment_file() == folder / "lab.yaml"
    assert selection.environment_file("lab") == folder / "lab.yaml"
    assert selection.environment_file("demo").name == "demo.yaml"
    (folder / "demo.yaml").write_text("name: demo\n")
    assert selection.environment_file("demo") == folder / "demo.yaml"
    with pytest.raises(UserError, match="2 environments") as error:
        selection.environment_file()
    assert "name one of: demo, lab" in error.value.findings[0].hint
    with pytest.raises(UserError) as error:
        selection.environment_file("labb")
    assert "did you mean `lab`?" in error.value.findings[0].hint
    for usual in ("lab", "environments/lab.yaml"):
        (tmp_path / "fairway.yaml").write_text(f"environment: {usual}\n")
        assert selection.environment_file() == folder / "lab.yaml"
        assert selection.environment_file("demo") == folder / "demo.yaml"
    # As in this repository.
    monkeypatch.chdir(repository / "docs")
    assert selection.environment_file().samefile(FILES["demo"])

"""`fairway init`: the files that it writes and their names; it never overwrites a file."""

import json
import os
import pty
import shlex
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from endings import refused
from typer.testing import CliRunner, Result

from fairway_cli.commands.environments import ask_for_the_rest
from fairway_cli.main import Commands, app
from fairway_core.catalog import vm_sizes
from fairway_core.catalog.limits import regions
from fairway_core.checks import check_environment
from fairway_core.documents import read
from fairway_core.environment import load_environment, read_environment
from fairway_core.findings import UserError
from fairway_core.project import Project
from fairway_runner.jobs.job_file import load_job
from fairway_runner.starter.answers import account_answers
from fairway_runner.starter.project import Settings, name_from, project_files, write_project

pytestmark = pytest.mark.integration

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home directory without a key; the current folder is empty."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def _init(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["init", *arguments])


def _files(folder: Path = Path()) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_init_project_is_complete_and_its_readme_names_existing_commands(home: Path) -> None:
    done = _init("lab")
    assert done.exit_code == 0, done.output
    assert {
        *(".gitignore", "README.md", "cdktf.json", "environments/lab.yaml", "fairway.yaml"),
        *("jobs/classify/job.yaml", "jobs/classify/train.py", "requirements.txt"),
    } <= set(_files(Path("lab")))
    for file in _files(Path("lab")):
        assert f"lab/{file}" in done.output
        text = Path("lab", file).read_text()
        assert not any(f"@{name}@" in text for name in ("NAME", "LOCATION", "VERSION", "KEYS"))
    assert json.loads(Path("lab/cdktf.json").read_text())["app"] == "fairway synth"
    assert load_environment(Path("lab/environments/lab.yaml")).name == "lab"
    (local,) = read("lab/fairway.yaml").validate(Project).targets
    assert local.mounts == {"data": "data"}
    assert _init("--name", "lab").exit_code == 0
    lines = Path("README.md").read_text().splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines if "    fairway " in line]
    assert len(commands) > 5
    for name, *arguments in commands:
        command = Commands.imported(name)
        if hasattr(command, "commands"):
            name, *arguments = arguments
            command = command.commands[name]
        command.make_context(name, arguments)


def test_init_job_leaves_out_ignored_files_within_a_work_tree(home: Path) -> None:
    known = {}
    for folder in ("plain", "scratch/lab", "new/lab"):
        assert _init(folder, "--name", "lab").exit_code == 0
        data = load_job(Path(folder, "jobs/classify/job.yaml")).document.data
        known[folder] = data.get("code") if isinstance(data, dict) else None
        if folder == "plain":
            subprocess.run(["git", "init", "-q"], check=True)
            Path(".gitignore").write_text("scratch/\n")
    assert known == {"plain": None, "scratch/lab": None, "new/lab": {"gitignore": True}}


def test_init_takes_names_regions_and_the_users_own_key(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _init("--name", "vision", "--location", "swedencentral").exit_code == 0
    environment = load_environment(Path("environments/vision.yaml"))
    assert (environment.name, environment.location) == ("vision", "swedencentral")
    assert _init("words", "--name", "true").exit_code == 0
    assert load_environment(Path("words/environments/true.yaml")).name == "true"
    monkeypatch.setenv("ARM_ENVIRONMENT", "usgovernment")  # its regions are not in the catalogue
    assert _init("gov", "--location", "usgovexample").exit_code == 0
    assert _init("none").exit_code == 0
    assert "Nobody has the private half" in Path("none/environments/none.yaml").read_text()
    comment = 'me: "quoted" # and more'
    (home / ".ssh/id_ed25519.pub").write_text(f"{KEY} {comment}\n")
    assert _init("lab").exit_code == 0
    file = Path("lab/environments/lab.yaml")
    assert "Nobody has the private half" not in file.read_text()
    assert load_environment(file).access.ssh_keys == (f"{KEY} {comment}",)


def test_init_lists_existing_files_writes_nothing_and_leaves_others_alone(home: Path) -> None:
    Path("cdktf.json").write_text("mine")
    Path("README.md").symlink_to("nowhere")
    message = refused(lambda: write_project(Path(), Settings("lab"))).message
    seen = [each in message for each in ("cdktf.json", "README.md", "fairway.yaml")]
    assert seen == [True, True, False]
    assert Path("cdktf.json").read_text() == "mine"
    assert sorted(entry.name for entry in Path().iterdir()) == ["README.md", "cdktf.json"]
    Path("new/jobs").mkdir(parents=True)
    others = (Path("new/LICENSE"), Path("new/jobs/other.yaml"))
    for other in others:
        other.write_text("mine")
    assert _init("new", "--name", "lab").exit_code == 0
    assert [other.read_text() for other in others] == ["mine"] * 2


@pytest.mark.parametrize("name", ["jobs", "lab"])
def test_init_lists_a_file_in_the_place_of_a_folder(home: Path, name: str) -> None:
    Path(name).write_text("mine")
    folder = Path("lab") if name == "lab" else Path()
    with pytest.raises(UserError, match=f"{name}( is no folder)?; nothing was written"):
        write_project(folder, Settings("lab"))
    assert _files() == [name]


def test_init_that_fails_to_write_leaves_the_folder_unchanged(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def open_(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.name == "job.yaml":
            raise OSError(28, "No space left on device", str(self))
        if self.name == "fairway.yaml" and not self.exists() and self.parent == Path():
            with opened(self, "w") as file:
                file.write("another's")
        return opened(self, *arguments, **options)

    Path("lab").mkdir()
    monkeypatch.setattr(Path, "open", open_)
    with pytest.raises(UserError, match="No space left on device; nothing was written"):
        write_project(Path("lab"), Settings("lab"))
    assert not list(Path("lab").iterdir())
    with pytest.raises(UserError, match="File exists; nothing was written"):
        write_project(Path(), Settings("lab"))
    assert _files() == ["fairway.yaml"]
    assert Path("fairway.yaml").read_text() == "another's"


@pytest.mark.parametrize(
    ("option", "message", "hint"),
    [
        ("--name A", "--name: `A` is not a valid environment name", "2 to 12"),
        ("--location 'West Europe'", "--location: `West Europe`", "did you mean `westeurope`?"),
        ("--location westeuropa", "Azure has no region `westeuropa`", "mean `westeurope`?"),
        ("--location bogus", "has no region `bogus`", "is it a new one?"),
        ("--engine slrum", "--engine: there is no engine `slrum`", "`slurm`"),
        ("--size Standard_NC41ads_H100_v5", "--size: ", "Standard_NC40ads_H100_v5"),
        ("--size Standard_NCC40ads_H100_v5", "is a confidential VM", "NC40ads_H100_v5`"),
        ("--size Standard_NV8ads_V710_v5", "--size: no image in the catalogue", "image_id"),
        ("--nodes 0", "--nodes: `0` is not a number from 1 to 100", "--nodes 4"),
        ("--budget -1", "--budget: `-1` is not a number", "--budget 4"),
        ("--email me", "--email: `me` is not an email address", "team@example.com"),
    ],
)
def test_init_refuses_wrong_answers(home: Path, option: str, message: str, hint: str) -> None:
    done = _init(*shlex.split(option))
    assert isinstance(done.exception, UserError)
    (finding,) = done.exception.findings
    assert message in finding.message
    assert hint in finding.hint
    assert not _files()


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ("", ("ssh", "Standard_NC40ads_H100_v5", 1, "gpu")),
        ("--size Standard_HB176rs_v4 --nodes 3", ("ssh", "Standard_HB176rs_v4", 3, "cpu")),
        ("--engine slurm", ("slurm", "Standard_ND96isr_H100_v5", 4, "gpu")),
        ("--engine slurm --nodes 1", ("slurm", "Standard_ND96isr_H100_v5", 1, "gpu")),
        ("--engine batch --nodes 9", ("batch", "Standard_ND96asr_v4", 9, "gpu")),
        (
            "--engine batch --size Standard_NC4as_T4_v3 --location northcentralus",
            ("batch", "Standard_NC4as_T4_v3", 4, "gpu"),
        ),
        ("--size Standard_ND96isr_MI300X_v5", ("ssh", "Standard_ND96isr_MI300X_v5", 1, "gpu")),
    ],
)
def test_init_options_make_an_environment_without_findings(
    home: Path, options: str, facts: tuple[str, str, int, str]
) -> None:
    (home / ".ssh/id_ed25519.pub").write_text(f"{KEY} me\n")
    more = ("--budget", "900", "--email", "ada@example.com", "--yes")
    assert _init("--name", "lab", *options.split(), *more).exit_code == 0
    environment = load_environment(Path("environments/lab.yaml"))
    ((name, cluster),) = environment.clusters.items()
    assert (cluster.engine, cluster.size, cluster.node_range.max, name) == facts
    assert (environment.budget.monthly, environment.budget.emails) == (900, ("ada@example.com",))
    assert environment.tags["owner"] == "ada@example.com"
    assert f"--target {name} --watch" in Path("README.md").read_text()
    checked = CliRunner().invoke(app, ["check", "lab"])
    assert (checked.exit_code, checked.output) == (0, "lab: nothing found\n")


@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2))])
def test_init_accepted_answers_pass_check_without_findings(tmp_path: Path, turn: int) -> None:
    """Covers every size, varying engine, number of nodes and region; nightly runs cover each size
    on each engine."""
    engines = islice(cycle(("ssh", "slurm", "batch")), turn, None)
    numbers, places = cycle((1, 2, 5, 17, 100)), cycle(sorted(regions()))
    file, written = tmp_path / "lab.yaml", 0
    for size, engine in zip(vm_sizes(), engines, strict=False):
        given = {"engine": engine, "size": size, "nodes": next(numbers), "location": next(places)}
        given["email"] = "*a\"'#]}@example.com"  # invalid in YAML without quotes
        try:
            settings = Settings.checked("lab", tmp_path, (f"{KEY} me",), given)
            files = project_files(settings, in_git=True)
            ((_, text),) = [each for each in files if each[0].parent.name == "environments"]
        except UserError:
            continue  # refused, with nothing written
        file.write_bytes(text)
        environment = read_environment(file).environment
        assert check_environment(environment, ignore=environment.checks.ignore) == [], given
        written += 1
    assert written > 20


@pytest.mark.parametrize(
    ("options", "id_", "note"),
    [
        ("--engine slurm --size Standard_NC40ads_H100_v5 --nodes 4", None, "no-infiniband"),
        ("--engine slurm --nodes 100", None, "starved-gpus"),
        ("--engine slurm --size Standard_ND40rs_v2", "slurm-image", ""),
        ("--engine ssh --size Standard_ND128isr_GB300_v6 --nodes 2", "no-imex", ""),
    ],
)
def test_init_reports_findings_of_check_about_its_answers(
    home: Path, options: str, id_: str | None, note: str
) -> None:
    done = _init("--name", "lab", *options.split(), "--yes")
    if id_:
        assert isinstance(done.exception, UserError)
        (finding,) = done.exception.findings
        assert (finding.id, finding.location) == (id_, None)
        assert not _files()
        return
    assert f"`{note}`" in done.output
    assert load_environment(Path("environments/lab.yaml")).checks.ignore == (note,)


def test_init_prompts_for_missing_answers_with_defaults_of_the_azure_cli(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defaults come from the Azure CLI's settings; an invalid answer prompts again."""
    (home / ".azure").mkdir()
    monkeypatch.delenv("AZURE_CONFIG_DIR", raising=False)
    (home / ".azure/config").write_text("[defaults]\nlocation = swedencentral\n")
    accounts = [
        {"isDefault": False, "user": {"name": "other@example.com"}},
        {"isDefault": True, "user": {"name": "ada@example.com"}},
    ]
    profile = json.dumps({"subscriptions": accounts})
    (home / ".azure/azureProfile.json").write_text(profile, encoding="utf-8-sig")
    asked = []
    answers = iter(["", "slrum", "slurm", "", "", "ada@contoso.com"])

    def prompt(question: str, *, default: str) -> str:
        asked.append((question.partition(" (")[0], default))
        return next(answers) or default

    monkeypatch.setattr("typer.prompt", prompt)
    found = ask_for_the_rest({"nodes": 8, "email": None, "size": None})
    assert asked == [
        ("Azure region", "swedencentral"),
        ("Engine that runs the jobs", "ssh"),
        ("Engine that runs the jobs", "ssh"),
        ("VM size", "Standard_ND96isr_H100_v5"),
        ("Monthly budget in USD, for alerts", "1500"),
        ("Email address of the owner", "ada@example.com"),
    ]
    assert found == {
        "location": "swedencentral",
        "engine": "slurm",
        "size": "Standard_ND96isr_H100_v5",
        "nodes": 8,
        "budget": 1500,
        "email": "ada@contoso.com",
    }


@pytest.mark.parametrize("text", ["", "{", "[]", '{"subscriptions": [1]}'])
def test_init_suggests_nothing_from_a_damaged_azure_cli_profile(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (home / ".azure").mkdir()
    monkeypatch.setenv("AZURE_CONFIG_DIR", str(home / ".azure"))
    (home / ".azure/config").write_text(text)
    (home / ".azure/azureProfile.json").write_text(text)
    assert account_answers() == {}


def test_init_prompts_on_a_terminal(home: Path) -> None:
    command = [str(Path(sys.executable).with_name("fairway")), "init", "lab", "--email", "a@b.de"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        os.write(ours, b"\xff\n\nbatch\n\n2\n\n")
        printed, _ = process.communicate(timeout=300)
    os.close(ours)
    assert process.returncode == 0
    assert printed.count(b"Azure region [southcentralus]: ") == 2
    (cluster,) = load_environment(Path("lab/environments/lab.yaml")).clusters.values()
    assert (cluster.engine, cluster.node_range.max) == ("batch", 2)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("lab", "lab"),
        ("My Vision_Lab-2026", "my-vision-la"),
        ("2026-runs", "runs"),
        ("x", "lab"),
        ("Straße", "stra-e"),
        ("日本", "lab"),
        ("twelve-lett-and", "twelve-lett"),
    ],
)
def test_init_derives_the_environment_name_from_the_folder(folder: str, name: str) -> None:
    assert name_from(Path("/home") / folder) == name

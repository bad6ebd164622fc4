"""`code: {gitignore: true}`: files that git itself reports as ignored are not sent."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from endings import refused
from programs import executable

from fairway_core.findings import Finding
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.project_files import NEVER
from fairway_runner.runs.store import RunStore
from fairway_runner.submit import snapshot
from fairway_runner.submit.code_upload import CodeUpload
from fairway_runner.submit.prepare import prepare
from fairway_runner.targets.lookup import find_target

pytestmark = pytest.mark.integration

DOCS = Path(__file__).parents[2] / "docs"


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True)


def write(folder: Path, *paths: str, **files: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    if files:
        (folder / ".gitignore").write_text(files["gitignore"])


def kept(folder: Path, *, exclude: Sequence[str] = (".gitignore",)) -> list[str]:
    return [each.path for each in snapshot.list_files(folder, exclude, gitignore=True)[0]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree with ignore rules of each kind."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".gitconfig").write_text("[core]\n  excludesFile = ~/own\n")
    (tmp_path / "own").write_text("*.swp\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q")
    write(tree, gitignore="data/*\n!data/keep.txt\nsecret.env\n*.log\nwhole/\n")
    (tree / ".git/info/exclude").write_text("mine\n")
    write(tree, "a.py", "secret.env", "data/big", "data/keep.txt", "mine", "b.swp", "tracked.log")
    write(tree, "whole/x", "sub/secret.env", "sub/run.log", "sub/deep/x", "sub/deep/y", "sub/é z")
    (tree / "sub/.gitignore").write_text("!run.log\n/deep/y\n")
    git(tree, "add", "--force", "tracked.log")
    return tree


def test_gitignore_rules_of_linked_folders_and_nested_repositories_apply(tree: Path) -> None:
    for name in ("nested", "outside"):
        write(tree.parent / name, "x.tmp", "secret.env")
    (tree.parent / "nested").rename(tree / "nested")
    git(tree / "nested", "init", "-q")
    write(tree / "nested", gitignore="*.tmp\n")
    (tree / "link").symlink_to("sub/deep")
    (tree / "away").symlink_to(tree.parent / "outside")
    found = [each for each in kept(tree) if each.split("/")[0] in ("nested", "link", "away")]
    assert found == ["away/secret.env", "away/x.tmp", "link/x", "nested/secret.env"]


def test_gitignore_rules_of_every_kind_apply(tree: Path) -> None:
    git(tree, "config", "core.fsmonitor", f"touch {tree.parent}/ran; false")
    assert "a.py" in kept(tree)
    assert not (tree.parent / "ran").exists()
    named = ["a.py", "data/keep.txt", "sub/deep/x", "sub/run.log", "sub/é z", "tracked.log"]
    assert kept(tree) == named
    assert kept(tree, exclude=[".gitignore", "sub"]) == ["a.py", "data/keep.txt", "tracked.log"]
    assert kept(tree / "sub") == ["deep/x", "run.log", "é z"]
    write(tree, "whole/deep/y")
    for folder in (tree / "whole", tree / "whole/deep"):
        finding = refused(lambda folder=folder: kept(folder))
        assert (finding.id, finding.path) == ("bad-code", "code.gitignore")
    git(tree, "add", "--force", "whole/deep/y")
    assert kept(tree / "whole") == ["deep/y"]
    assert kept(tree / "whole/deep") == ["y"]


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_gitignore_without_a_work_tree_or_git_is_refused_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "job.yaml").write_text("name: a\ncommand: x\ncode:\n  gitignore: true\n")
    monkeypatch.chdir(tmp_path)
    if path:
        monkeypatch.setenv("PATH", path)
    job = load_job(tmp_path / "job.yaml")
    for prepared in (lambda: prepare(job, local(), RunStore.here()), lambda: CodeUpload.of(job)):
        finding = refused(prepared)
        assert (finding.id, finding.path) == ("no-git", "code.gitignore")
        assert finding.location.line == 4
        assert str(tmp_path) in finding.message


def local() -> Target:
    return find_target("local")


def warned(tree: Path, code: str = "") -> list[Finding]:
    """Returns the warnings about ignored files, and asserts that CodeUpload gives the same."""
    (tree / "job.yaml").write_text(f"name: a\ncommand: 'true'\n{code}")
    job = load_job(tree / "job.yaml")
    found = [each for each in prepare(job, local(), RunStore.here()).warnings if "Git" in str(each)]
    assert [each for each in CodeUpload.of(job).warnings if "Git" in str(each)] == found
    return found


def test_gitignore_warning_names_ignored_files_unless_chosen_explicitly(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    (finding,) = warned(tree)
    assert (finding.id, finding.severity, finding.path) == ("ignored-files", "warning", "code")
    names = "b.swp, data/big, mine and 4 more"
    assert finding.message == f"the code holds {names}, which Git ignores"
    assert not warned(tree, "code: {gitignore: true}\n")
    assert not warned(tree, "code: {gitignore: false}\n")
    assert not warned(tree, 'code: {exclude: [b.swp, data, mine, secret.env, sub, whole, "*.log"]}')
    assert not warned(tree / "whole")
    monkeypatch.setenv("PATH", "/nowhere")
    assert not warned(tree)


@pytest.mark.parametrize("code", ["", "code: {gitignore: true}\n"])
def test_gitignore_does_not_apply_to_code_kept_by_an_earlier_run(
    tree: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The files were selected in their original folder; the runs folder's rules do not apply."""
    monkeypatch.chdir(tree)
    (tree / "job.yaml").write_text(f"name: a\ncommand: 'true'\n{code}")
    prepared = prepare(load_job(tree / "job.yaml"), local(), RunStore.here(), code_folder=tree)
    assert "b.swp" in [each.path for each in prepared.code.files]
    assert list(prepared.code.warnings) == []


@pytest.mark.parametrize("what", ["--others", "diff", "--stage"])
def test_git_facts_have_the_commit_and_are_dirty_if_git_does_not_say_the_rest(
    tree: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    git(tree, "add", "--force", "--all")
    git(tree, "commit", "-q", "-m", "first")
    assert not snapshot.git_facts(tree)[0]["dirty"]
    ask = snapshot.ask_git
    silent = lambda *words, **more: None if what in words else ask(*words, **more)  # noqa: E731
    monkeypatch.setattr(snapshot, "ask_git", silent)
    facts, _ = snapshot.git_facts(tree)
    assert (bool(facts["commit"]), facts["untracked"], facts["dirty"]) == (True, [], True)


@pytest.mark.parametrize("scope", ["--local", "--worktree"])
def test_git_facts_run_no_program_that_the_repository_names(tree: Path, scope: str) -> None:
    """An archive that was only unpacked has a .git/config."""
    trap = executable(tree.parent / "trap", f"touch {tree.parent}/ran; exit 1")
    (tree / ".gitattributes").write_text("*.py filter=odd diff=odd\n*.sh filter=other\n")
    for name in ("code.py", "code.sh"):
        (tree / name).write_text("one\n")
    git(tree, "add", "--force", ".")
    git(tree, "commit", "-q", "-m", "first")
    for name in ("code.py", "code.sh"):
        (tree / name).write_text("two\n")
    hook = tree / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(trap)
    git(tree, "config", "extensions.worktreeConfig", "true")
    names = ("filter.odd.clean", "filter.other.process", "diff.odd.command", "diff.odd.textconv")
    for name in ("core.fsmonitor", "diff.external", *names):
        git(tree, "config", scope, name, str(trap))
    git(tree, "config", scope, "filter.odd.required", "true")
    facts, diff = snapshot.git_facts(tree)
    assert not (tree.parent / "ran").exists()
    assert (facts["dirty"], diff.count("+two")) == (True, 2)


@pytest.mark.parametrize(
    ("attributes", "settings"),
    [
        ("filter=a=b", ["filter.a=b.clean=TRAP"]),
        ("filter=odd", ["includeIf.hasconfig:remote.*.url:x.path=more"]),
        ("filter=lfs", ["lfs.extension.Odd.clean=TRAP"]),
    ],
)
def test_git_facts_run_no_filter_whose_setting_is_well_hidden(
    tree: Path, attributes: str, settings: list[str]
) -> None:
    """git-lfs, which is the user's own, runs what the repository's settings name."""
    trap = str(executable(tree.parent / "trap", f"touch {tree.parent}/ran"))
    lfs = executable(tree.parent / "lfs", "cat; $(git config lfs.extension.Odd.clean)")
    git(tree, "config", "--global", "filter.lfs.clean", str(lfs))
    (tree / ".gitattributes").write_text(f"*.py {attributes}\n")
    (tree / "code.py").write_text("one\n")
    git(tree, "add", "--force", "--all")
    git(tree, "commit", "-q", "-m", "first")
    (tree / "code.py").write_text("two\n")
    git(tree, "config", "extensions.worktreeConfig", "true")
    git(tree, "config", "--local", "remote.o.url", "x")
    (tree / ".git/more").write_text(f'[filter "odd"]\nclean = {trap}\n')
    for each in settings:
        name, _, value = each.rpartition("=")
        git(tree, "config", "--worktree", name, value.replace("TRAP", trap))
    facts, diff = snapshot.git_facts(tree)
    assert not (tree.parent / "ran").exists()
    assert (facts["dirty"], diff.count("+two")) == (True, 1)


@pytest.mark.parametrize("change", ["file", "commit", ""])
def test_git_facts_count_a_submodules_changes_without_its_programs(tree: Path, change: str) -> None:
    trap = executable(tree.parent / "trap", f"touch {tree.parent}/ran")
    sub, other = tree / "below/other", tree.parent / "origin"
    git(tree.parent, "init", "-q", str(other))
    (other / "code.py").write_text("one\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "first")
    git(tree, "add", "--force", "--all")
    git(
        tree,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(other),
        "below/other",
    )
    git(tree, "commit", "-q", "-m", "first")
    if change:
        (sub / "code.py").write_text("two\n")
    if change == "commit":
        git(sub, "commit", "-qam", "second")
    (sub / ".gitattributes").write_text("*.py filter=odd\n")
    git(tree, "config", "diff.submodule", "diff")
    for name in ("core.fsmonitor", "diff.external", "filter.odd.clean"):
        git(sub, "config", name, str(trap))
    facts, _ = snapshot.git_facts(tree)
    assert not (tree.parent / "ran").exists()
    assert facts["dirty"] == bool(change)


def test_code_files_that_are_never_sent_are_documented() -> None:
    text = (DOCS / "job.md").read_text(encoding="utf-8")
    (line,) = (each for each in text.split("\n\n") if each.startswith("Always left out"))
    assert [each for each in NEVER if f"`{each}`" not in line] == []

"""The code of a job: the files of its folder, named by their content, and its commit."""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import fairway_core
from fairway_agent.quick import dataclass
from fairway_boot.files import copy_file
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.jobs import project_files
from fairway_runner.quantities import format_names
from fairway_runner.runs.records import writing

if TYPE_CHECKING:
    from fairway_runner.jobs.job_file import JobFile

MOST_FILES = 20_000
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class CodeFile:
    """One file: its path below the code's folder with `/`, size in bytes, executable bit, and time
    of the last change, in nanoseconds. A path that ends with `/` is an empty folder's."""

    path: str
    size: int
    executable: bool
    changed: int = 0

    @property
    def is_folder(self) -> bool:
        """True if it is an empty folder."""
        return self.path.endswith("/")


@dataclass(frozen=True)
class Code:
    """The files of a folder, and the digest of their paths and contents."""

    folder: Path
    files: Sequence[CodeFile]
    digest: str
    warnings: Sequence[Finding] = ()


def folder_of(job_file: JobFile, path: str) -> Path:
    """Returns the folder of a job's code. Raises UserError if it is missing or forbidden."""
    folder = job_file.folder / path
    if not folder.is_dir():
        message = f"`code.path`: {folder} is not a folder"
        hint = "write the folder of the code relative to the job file, for example `path: src`"
        raise job_file.document.error("bad-value", ("code", "path"), message, hint)
    project_files.require_code(folder)
    return folder


def collect(folder: Path, exclude: Sequence[str] = (), *, gitignore: bool | None = False) -> Code:
    """Returns the code in a folder. Raises UserError if it is too large. `exclude` are shell
    patterns for paths and names; if `gitignore` is None, a warning names files that Git ignores."""
    files, warnings = list_files(folder, exclude, gitignore=gitignore)
    digest = hashlib.sha256()
    for file in files:
        try:
            content = b"" if file.is_folder else (folder / file.path).read_bytes()
        except OSError as error:
            raise _unreadable(folder, folder / file.path, error) from None
        kind = "x" if file.executable else "-"
        digest.update(f"{kind} {len(content)} {file.path}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return Code(folder, files, digest.hexdigest(), warnings)


def list_files(
    folder: Path, exclude: Sequence[str] = (), *, gitignore: bool | None = False
) -> tuple[list[CodeFile], list[Finding]]:
    """Returns the same files, sorted by path, and warnings about others; reads none of them."""
    patterns = (*project_files.NEVER, *exclude)
    filters: list[project_files.LeavesOut] = [_exclusion(pattern) for pattern in patterns]
    ignored = Ignored(folder) if gitignore else None
    if ignored is not None:
        filters.append(ignored)

    def leaves_out(path: str, entry: os.DirEntry[str]) -> bool:
        return any(each(path, entry) for each in filters)

    files: list[CodeFile] = []
    others: list[project_files.Found] = []
    total = 0
    try:
        for each in project_files.walk(folder, leaves_out):
            if (status := each.status) is None or not (each.is_file or each.is_folder):
                others.append(each)
                continue
            size = 0 if each.is_folder else status.st_size
            is_executable = each.is_file and bool(status.st_mode & 0o100)
            files.append(CodeFile(each.path, size, is_executable, status.st_mtime_ns))
            total += size
            if len(files) > MOST_FILES or total > MOST_BYTES:
                _refuse(folder, files)
    except OSError as error:
        raise _unreadable(folder, Path(error.filename), error) from None
    files.sort(key=lambda file: file.path)
    if ignored is not None and ignored.paths and all(each.is_folder for each in files):
        message, hint = f"Git ignores all of {folder}", "leave out `code.gitignore`"
        raise UserError([Finding("bad-code", message, hint, "code.gitignore")])
    warnings = project_files.left_out(others, "the code")
    if gitignore is None:
        warnings += ignored_yet_sent(folder, [each.path for each in files])
    return files, warnings


def _exclusion(pattern: str) -> project_files.LeavesOut:
    """Returns a filter of a walk: `x/` is a folder only, `/x` and `./x` only at the top, and `**/x`
    at the top too."""
    wanted = pattern.rstrip("/")
    top = wanted.removeprefix(".").removeprefix("/") if wanted.startswith(("/", "./")) else ""
    patterns = {top} if top else {wanted, wanted.removeprefix("**/")}

    def leaves_out(path: str, entry: os.DirEntry[str]) -> bool:
        names = (path,) if top else (path, entry.name)
        is_named = any(fnmatch(name, each) for name in names for each in patterns)
        return is_named and (wanted == pattern or entry.is_dir())

    return leaves_out


def snapshot(code: Code, store: Path) -> Path:
    """Returns a copy below `store`, made once for each digest. Raises UserError if that fails."""
    with writing(f"the code cannot be copied to {store}", f"is the disk full? df -h {store}"):
        target = stored(code.digest, store)
        if target.is_dir():
            return target
        store.mkdir(parents=True, exist_ok=True)
        # A server submits the same code in several threads at once.
        draft = store / f".{code.digest[:16]}.{os.getpid()}-{threading.get_ident()}"
        draft.mkdir()
        try:
            for file in code.files:
                copy = draft / file.path
                if file.is_folder:
                    copy.mkdir(parents=True, exist_ok=True)
                    continue
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy_file(code.folder / file.path, copy)
            try:
                draft.rename(target)
            except OSError:
                if not target.is_dir():  # otherwise another submission of the same code was faster
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return target


def stored(digest: str, store: Path) -> Path:
    """Returns the folder of the snapshot with that digest."""
    return store / digest[:16]


@contextmanager
def keep_snapshots(store: Path, *, alone: bool = False) -> Iterator[None]:
    """Keeps snapshots from being removed within the block; with `alone`, also from being taken.
    Raises UserError if nothing can be written there."""
    with writing(f"nothing can be written to {store}", "use a folder that you may write to"):
        store.mkdir(parents=True, exist_ok=True)
        lock = os.open(store / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def _unreadable(folder: Path, path: Path, error: OSError) -> UserError:
    hint = f"see who owns it: ls -ld {folder}"
    if path != folder:
        hint = f'leave it out: code: {{exclude: ["{path.relative_to(folder)}"]}}'
    return UserError.of("bad-code", f"{path}: {error.strerror}", hint)


def _refuse(folder: Path, files: Sequence[CodeFile]) -> None:
    sizes: dict[str, int] = {}
    for file in files:
        top = file.path.split("/", 1)[0]
        sizes[top] = sizes.get(top, 0) + (1 if len(files) > MOST_FILES else file.size)
    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
    message = (
        f"{folder}: this is too large for code ({MOST_FILES:,} files or {MOST_BYTES >> 20} "
        f"MiB at most); the largest: {', '.join(largest)}"
    )
    hint = "move the job file to its code, or name the code's folder:\n"
    hint += f'  code: {{path: src, exclude: ["{largest[0]}"]}}\nand read data through `inputs:`'
    raise UserError.of("bad-code", message, hint)


_TIMEOUT = 20  # seconds
# A repository that was only unpacked has settings of its own, which may name programs for git to
# run: watchers of files, hooks, and those of a connection that fetches a missing object.
_SETTINGS = ("safe.bareRepository=explicit", "core.fsmonitor=false", "core.hooksPath=/dev/null")
_EMPTY = "_FAIRWAY_EMPTY"
_VARIABLES = {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", _EMPTY: ""}
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def ask_git(
    folder: Path, *arguments: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[bytes] | None:
    """Returns git's result for that folder, whatever repository the environment names; None if git
    is missing or takes too long."""
    safe = [word for each in _SETTINGS for word in ("-c", each)]
    try:
        return subprocess.run(
            ["git", *safe, *options, "-C", str(folder), *arguments],
            capture_output=True,
            env={name: os.environ[name] for name in os.environ if name not in _PLACES} | _VARIABLES,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def is_kept_by_git(folder: Path) -> bool:
    """Returns True if a folder, even one to come, is in a work tree and not ignored."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
    done = ask_git(there, "check-ignore", "--quiet", "--", str(folder.absolute()))
    return done is not None and done.returncode == 1


class Ignored:
    """Filter of a walk for files that Git ignores, each work tree by its own rules, including those
    of links and nested repositories. Raises UserError if there is none, or git fails."""

    def __init__(self, folder: Path) -> None:
        known = _ignored(folder)
        if known is None:
            raise _unknown(folder, "not a git repository")
        self.paths = known

    def __call__(self, path: str, entry: os.DirEntry[str]) -> bool:
        """Returns True if the path is left out."""
        if path in self.paths:
            return True
        if entry.is_dir() and (entry.is_symlink() or Path(entry.path, ".git").exists()):
            found = _ignored(Path(entry.path)) or ()
            self.paths |= {f"{path}/{each}" for each in found}
        return False


def ignored_yet_sent(folder: Path, paths: Iterable[str]) -> list[Finding]:
    """Returns a warning that names the files that Git ignores; none if git fails, or ignores all of
    them, because then the folder itself is ignored."""
    try:
        known = _ignored(folder)
    except UserError:
        return []
    if not known:
        return []
    every = [(each, PurePosixPath(each)) for each in paths]
    found = [each for each, path in every if not known.isdisjoint(map(str, (path, *path.parents)))]
    if not found or len(found) == len(every):
        return []
    message = f"the code holds {format_names(found)}, which Git ignores"
    hint = "leave such files out: code: {gitignore: true}, or say that they are meant: false"
    return [Finding("ignored-files", message, hint, "code", Severity.WARNING)]


def _ignored(folder: Path) -> set[str] | None:
    """Returns the paths below a folder that Git ignores, a completely ignored folder as one path;
    None if it is in no work tree."""
    itself = ask_git(folder, "check-ignore", "--quiet", "--", ".")
    if itself is not None and b"not a git repository" in itself.stderr:
        return None
    if itself is None or itself.returncode not in (0, 1):
        raise _unknown(folder, "" if itself is None else itself.stderr.decode(errors="replace"))
    # Within an ignored folder, git cannot list ignored folders.
    folders = ("--directory",) if itself.returncode else ()
    words = ("ls-files", "--others", "--ignored", "--exclude-standard", "-z", *folders)
    listed = ask_git(folder, *words)
    if listed is None or listed.returncode:
        raise _unknown(folder, "" if listed is None else listed.stderr.decode(errors="replace"))
    return {os.fsdecode(each).rstrip("/") for each in listed.stdout.split(b"\0") if each}


def _unknown(folder: Path, said: str) -> UserError:
    lines = said.strip().splitlines() or ["git is not there, or does not answer"]
    message = f"`code.gitignore`: {folder}: {lines[0].removeprefix('fatal: ')}"
    hint = "\n".join(lines[1:]).strip() or "leave the field out, or make it a work tree: git init"
    return UserError([Finding("no-git", message, hint, "code.gitignore")])


_LARGEST_DIFF = 2**20


def provenance(folder: Path, template: str, code_digest: str) -> tuple[dict[str, Any], str]:
    """Returns the provenance of a run, and the diff against its commit ("" if there is none).
    `template` is the text of the launcher's template."""
    try:
        user = getpass.getuser()  # the submitter's login name on this machine
    except (OSError, KeyError):  # a uid without an entry, as in some containers
        user = None
    git, diff = git_facts(folder)
    facts = {
        "fairway": fairway_core.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "user": user,
        "code": code_digest,
        "template": hashlib.sha256(template.encode()).hexdigest(),
        "git": git,
        **({} if project_files.known_git() is None else {"sent": True}),
    }
    if len(diff) > _LARGEST_DIFF:
        diff = diff[:_LARGEST_DIFF] + "\n(the rest of the diff is omitted)\n"
    return facts, diff


def git_facts(folder: Path) -> tuple[Mapping[str, Any], str]:
    """Returns a folder's commit, True if the files differ from it or git does not say, and the
    diff; for uploaded code the facts that came with it, without the diff."""
    if (known := project_files.known_git()) is not None:
        return known, ""
    listed = ask_git(folder, "ls-files", "--others", "--exclude-standard", "--", ".")
    if listed is not None and listed.returncode:  # no work tree
        return {"commit": None, "dirty": False, "untracked": []}, ""
    untracked = output_of(listed)
    commit = output_of(ask_git(folder, "rev-parse", "HEAD"))
    diff = _diff(folder) if commit else ""
    is_changed = bool(commit) and (listed is None or diff != "" or _differs(folder))
    facts = {
        "commit": commit.strip() or None,
        "dirty": is_changed or bool(untracked),
        "untracked": untracked.splitlines(),
    }
    return facts, diff or ""


def _diff(folder: Path) -> str | None:
    """Returns the difference of a folder's files from the commit; None if git does not say. No
    program that the repository's own settings name has a part in it; those that the user has set up
    filter files."""
    query = ("--show-scope", "-z", "--name-only", "--get-regexp", r"^(filter|lfs)\.")
    listed = ask_git(folder, "config", *query)
    if listed is None or listed.returncode not in (0, 1):  # 1: there are none
        return None
    words = os.fsdecode(listed.stdout).split("\0")
    pairs = zip(words[::2], words[1::2], strict=False)
    users = ("system", "global", "command")
    own = [name for scope, name in pairs if scope not in users]
    filters = {name.rpartition(".")[0] for name in own if name.startswith("filter.")}
    if any(name.lower().startswith("lfs.extension.") for name in own):
        filters.add("filter.lfs")
    # Unlike `-c`, this takes names that contain "=".
    none = [
        f"--config-env={name}.{key}={_EMPTY}"
        for name in filters
        for key in ("clean", "process", "required")
    ]
    # A submodule has programs of its own.
    diff = "diff --no-ext-diff --no-textconv --submodule=short --ignore-submodules=dirty HEAD -- ."
    done = ask_git(folder, *diff.split(), options=none)
    return None if done is None or done.returncode else done.stdout.decode("utf-8", "replace")


def _differs(folder: Path) -> bool:
    """Returns True if a submodule's files differ from its commit, or git does not say."""
    listed = ask_git(folder, "ls-files", "--stage", "-z", "--", ".")
    if listed is None or listed.returncode:
        return True
    found = (
        folder / os.fsdecode(each.partition(b"\t")[2])
        for each in listed.stdout.split(b"\0")
        if each.startswith(b"160000 ")
    )
    return any(_diff(sub) != "" or _differs(sub) for sub in found if (sub / ".git").exists())


def output_of(done: subprocess.CompletedProcess[bytes] | None) -> str:
    """Returns git's output; "" if it failed, as it does if there is no commit."""
    return "" if done is None or done.returncode else done.stdout.decode("utf-8", "replace")

"""Upload of a job's code to a server: files in sequence, cut into pieces that are named by their
digests, so that nothing is sent twice.

The first line is JSON: the job's folder, git's facts, and each file's path, size and executable
bit. The contents follow unchanged: nothing is packed, so nothing can unpack to more than was sent.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from fairway_agent.records import section_of
from fairway_core.documents import FieldError
from fairway_core.findings import Finding, UserError
from fairway_runner.jobs.job_file import JobFile, has_steps
from fairway_runner.jobs.project_files import NEVER
from fairway_runner.jobs.templates import SUFFIX, own_folders
from fairway_runner.submit import snapshot

PIECE = 1 << 20
"""Maximum bytes of a piece."""
_FOLDER = "job_templates"


@dataclass(frozen=True)
class CodeUpload:
    """Files below `root` that a job needs, by their paths there, and the job's folder. `sources`
    maps some to files elsewhere; files of which only the names are needed have no content."""

    root: Path
    folder: str
    files: tuple[snapshot.CodeFile, ...]
    sources: dict[str, Path]
    warnings: Sequence[Finding] = ()

    @classmethod
    def of(cls, job_file: JobFile) -> CodeUpload:
        """Returns the files that a submission takes. Raises UserError if they cannot be sent."""
        jobs = [job_file]
        if has_steps(job_file.document.data):
            from fairway_runner.jobs.steps import read_steps

            steps = read_steps(job_file.document, "run")
            jobs = [JobFile(step.document, job_file.folder) for step in steps]
        # By their paths here; an empty folder's path ends with `/`.
        found: dict[str, snapshot.CodeFile] = {}
        sources: dict[str, Path] = {}
        folders, warnings = [job_file.folder], list[Finding]()
        for job in jobs:
            folder, exclude, gitignore = _code_of(job)
            folders.append(folder)
            with job.document.locating():
                files, more = snapshot.list_files(folder, exclude, gitignore=gitignore)
            found |= {f"{folder}/{file.path}": file for file in files}
            warnings += more
        for job in jobs:
            for destination, source in _templates(job):
                size = source.stat().st_size
                found.setdefault(str(destination), snapshot.CodeFile("", size, executable=False))
                sources[str(destination)] = source
            for destination in _swept(job):
                found.setdefault(str(destination), snapshot.CodeFile("", 0, executable=False))
        root = Path(os.path.commonpath(folders))
        size = sum(each.size for each in found.values())
        if len(found) > snapshot.MOST_FILES or size > snapshot.MOST_BYTES:
            message = f"{root}: this is more code than a server accepts"
            raise UserError.of("bad-code", message, "leave some out: code: {exclude: [NAME]}")
        start = len(str(root).rstrip("/")) + 1
        return cls(
            root,
            job_file.folder.relative_to(root).as_posix(),
            tuple(replace(found[path], path=path[start:]) for path in sorted(found)),
            {path[start:]: source for path, source in sources.items()},
            list(dict.fromkeys(warnings)),
        )

    def pieces(self) -> Iterator[bytes]:
        """Yields the pieces in order; an unchanged file mostly keeps its piece."""
        head = {
            "folder": self.folder,
            "git": snapshot.git_facts(self.root / self.folder)[0],
            "files": [[file.path, file.size, file.executable] for file in self.files],
        }
        line = json.dumps(head).encode() + b"\n"
        yield from (line[at : at + PIECE] for at in range(0, len(line), PIECE))
        waiting = b""
        for file in self.files:
            content = self._content(file)
            if len(waiting) + len(content) > PIECE and waiting:
                yield waiting
                waiting = b""
            waiting += content
            while len(waiting) > PIECE:
                yield waiting[:PIECE]
                waiting = waiting[PIECE:]
        if waiting:
            yield waiting

    def _content(self, file: snapshot.CodeFile) -> bytes:
        if file.size == 0:
            return b""
        path = self.sources.get(file.path, self.root / file.path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError.of("bad-code", f"{path}: {error.strerror}", _AGAIN) from None
        if len(content) != file.size:
            raise UserError.of("bad-code", f"{path} changed while it was read", _AGAIN)
        return content


_AGAIN = "submit again"


def digest_of(piece: bytes) -> str:
    """Returns the name of a piece."""
    return hashlib.sha256(piece).hexdigest()


def _code_of(job: JobFile) -> tuple[Path, Sequence[str], bool | None]:
    """Returns the folder of a job's code, its exclusions, and its setting `gitignore`."""
    section = section_of(job.document.data, "code")
    path, exclude, gitignore = (section.get(name) for name in ("path", "exclude", "gitignore"))
    path = path if isinstance(path, str) else "."
    if "{{" in path or path.startswith("/"):
        message = f"`code.path`: the folder `{path}` cannot be sent to a server"
        hint = "write it relative to the job file, for example `path: src`"
        raise job.document.error("bad-value", ("code", "path"), message, hint)
    folder = Path(os.path.normpath(snapshot.folder_of(job, path)))
    words = exclude if isinstance(exclude, list) else []
    gitignore = gitignore if isinstance(gitignore, bool) else None
    return folder, [each for each in words if isinstance(each, str)], gitignore


def _templates(job: JobFile) -> Iterator[tuple[Path, Path]]:
    """Yields the user's own templates that a job may name: their paths in the upload and here."""
    data = job.document.data
    name = data.get("template") if isinstance(data, dict) else None
    if not isinstance(name, str):
        return
    if name.endswith(SUFFIX):
        here = there = Path(os.path.normpath(job.folder / name)).parent
        if not here.is_relative_to(job.folder):
            return
    else:
        there, folders = job.folder / _FOLDER, own_folders(job.folder)
        having = [each for each in folders if (each / f"{name}{SUFFIX}").is_file()]
        if not having:
            return
        here = having[0]
    yield from ((there / each.name, each) for each in sorted(here.glob("*.j2")) if each.is_file())


def _swept(job: JobFile) -> Iterator[Path]:
    from fairway_runner.jobs.sweep_sources import matching_files

    sweep = job.sweep if section_of(job.document.data, "sweep") else None
    for _, generator in sweep.section.generators() if sweep else ():
        pattern = generator.value
        if generator.key != "files" or not isinstance(pattern, str):
            continue
        if pattern.startswith("/") or ".." in pattern.split("/"):
            message = f"`files:` the pattern `{pattern}` cannot be listed here for a server"
            hint = "keep the files below the folder of the job file"
            raise UserError.of("bad-value", message, hint)
        with suppress(FieldError):  # the server reports it, with its line
            for path in matching_files(pattern, job.folder):
                if not any(fnmatch(part, each) for part in path.split("/") for each in NEVER):
                    yield Path(os.path.normpath(job.folder / path))

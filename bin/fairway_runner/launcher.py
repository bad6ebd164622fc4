"""From a job and its template to the script that an engine runs on the main host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.findings import Finding, Location, UserError
from fairway_runner import templating
from fairway_runner.templates import template_paths

if TYPE_CHECKING:
    from pathlib import Path

    from fairway_core.target import Target
    from fairway_runner.job import Job
    from fairway_runner.job_file import JobFile


def render_launcher(job_file: JobFile, job: Job, target: Target) -> str:
    """The launcher's script, ready to run; UserError at the template's line where it fails."""
    file = job_file.template_file(job)
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError.of("bad-template", f"{file}: cannot be read: {error}") from None
    folders = (file.parent, *template_paths(job_file.folder))
    environment = templating.shell_environment(folders)
    try:
        template = templating.compile_text(environment, source)
        return templating.render(template, _context(job, target))
    except templating.TemplateFault as fault:
        raise _located(fault, file, source) from None


def _context(job: Job, target: Target) -> dict[str, object]:
    return {
        "job": job,
        "name": job.name,
        "command": job.command,
        "env": job.env,
        "params": job.params,
        "nodes": job.nodes,
        "processes_per_node": job.processes_per_node,
        "target": target,
    }


def _located(fault: templating.TemplateFault, file: Path, source: str) -> UserError:
    name = fault.file or str(file)
    if name != str(file):
        try:
            source = file.with_name(name).read_text(encoding="utf-8")
        except OSError:
            source = ""
    lines = source.splitlines()
    text = lines[fault.line - 1] if 0 < fault.line <= len(lines) else ""
    column = len(text) - len(text.lstrip()) + 1
    place = Location(name, fault.line, column, text, max(1, len(text.strip())))
    return UserError([Finding("bad-template", str(fault), location=place)])

"""From a job and its template to the script that an engine runs on the main host."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_agent.records import section_of
from fairway_core.documents import FieldError
from fairway_core.findings import Finding, Location, UserError
from fairway_core.yaml_text import DataPath, unfit_character
from fairway_runner.engines.capabilities import capabilities
from fairway_runner.jobs import templates, templating
from fairway_runner.jobs.project_files import is_own

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

    from fairway_core.documents import Document
    from fairway_core.target import Target
    from fairway_runner.jobs.job import Job
    from fairway_runner.jobs.job_file import JobFile
    from fairway_runner.jobs.param_use import ParamUse

# Exit code of a script if nodes failed their checks: EX_UNAVAILABLE of sysexits.h, which neither
# shells nor MPI launchers use.
UNFIT_NODES = 69
_CHECKS = '{% include "_preflight.sh.j2" %}'  # found like any template


@dataclass(frozen=True)
class Launcher:
    """A compiled template for any number of jobs. If it `shares`, the scripts of jobs that differ
    only in command, variables and parameters are equal but for command and variables."""

    file: Path
    source: str
    front_matter: templates.FrontMatter
    environment: SandboxedEnvironment
    template: Template
    shares: bool


class Launchers:
    """Launchers of one submission, each compiled once: a sweep may have very many tasks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._ready: dict[str, Launcher] = {}
        self._shared: dict[tuple[Any, ...], list[str]] = {}

    def of(self, job_file: JobFile, job: Job) -> Launcher:
        """Returns the job's launcher. Raises UserError if its template is missing or wrong."""
        if job.template in self._ready:
            return self._ready[job.template]
        try:
            file = templates.find_template(job.template, job_file.folder)
        except FieldError as error:
            raise job_file.document.error(
                "unknown-template", ("template",), str(error), error.hint
            ) from None
        if not is_own(file):
            hint = "use one of `fairway templates`, or ask for the role Operator"
            raise UserError.of("missing-role", "your role does not let you send templates", hint)
        source = templates.template_source(file)
        front = templates.front_matter(file, source)
        folders = (file.parent, *filter(is_own, templates.template_paths(job_file.folder)))
        # Imports are the same for all tasks, so files are not checked again for each of them.
        own = templating.shell_environment(folders).overlay(auto_reload=False, cache_size=50)
        try:
            template = templating.compile_file(own, file.name)
        except templating.TemplateFault as fault:
            raise _located(fault, file) from None
        shares = templates.is_shipped(file)
        self._ready[job.template] = Launcher(file, source, front, own, template, shares)
        return self._ready[job.template]

    def needs(self) -> list[str]:
        """Returns the programs that the launchers so far need on the main host's PATH."""
        return [tool for launcher in self._ready.values() for tool in launcher.front_matter.needs]

    def render(self, job_file: JobFile, job: Job, use: ParamUse | None = None) -> str:
        """Returns the script, ready to run. Raises UserError at the template's line if it fails,
        and for parameters without effect that `use` finds."""
        launcher, document = self.of(job_file, job), job_file.document
        if use is not None:
            use.require(job_file, launcher.file, launcher.environment, launcher.source)
        _require_room(job, document)
        script = self._shared_script(launcher, job, document) if launcher.shares else None
        if script is None:
            params = templating.Names("params", job.params)
            script = _script(launcher, job, params, self._target, document)
        if character := unfit_character(script):
            message = (
                f"{launcher.file}: the script that it makes contains the character {character}"
            )
            hint = "remove it from the template, or from the field or parameter that it prints"
            raise UserError.of("bad-template", message, hint)
        return script

    def _shared_script(self, launcher: Launcher, job: Job, document: Document) -> str | None:
        """Returns a script that was rendered once, with gaps for commands and variables; None if
        the template reads more of them than their lengths, or reads a parameter."""
        texts = [job.command.rstrip(), *job.env.values()]
        rest = job.model_dump_json(exclude={"command", "params", "env"})
        key = (rest, *job.env, *map(len, texts))
        if key not in self._shared:
            command, *values = (templating.Gap(len(each), at) for at, each in enumerate(texts))
            gaps = {"command": command, "env": dict(zip(job.env, values, strict=True))}
            as_shared = job.model_copy(update={**gaps, "params": (params := templating.Gap())})
            try:
                script = _script(launcher, as_shared, params, self._target, document)
            except UserError:
                self._ready[job.template] = replace(launcher, shares=False)
                return None
            if len(self._shared) >= _MOST_SHARED:
                self._shared.clear()
            self._shared[key] = script.split(templating.GAP)
        parts = enumerate(self._shared[key])
        return "".join(
            templating.shell_words(texts[int(part)]) if at % 2 else part for at, part in parts
        )


_MOST_SHARED = 100  # cached scripts: if all tasks differ, none is used again


def _script(launcher: Launcher, job: Job, params: Any, target: Target, document: Document) -> str:
    declared = launcher.front_matter.options
    options = templates.resolve_options(job.options, declared, job.template, document)
    refusals: list[Finding] = []

    def refuse(path: str, message: str, hint: str = "") -> str:
        """Records a finding at the job's dotted `path`, or where that would be; renders nothing."""
        refusals.append(document.finding("unfit-job", tuple(path.split(".")), message, hint))
        return ""

    fabric = None
    if target.vm_size:  # otherwise the catalogue is not needed
        from fairway_runner.jobs.fabric import fabric_profile

        fabric = fabric_profile(target, job, sharp=options.get("sharp") is True)
    context = {
        "fabric": fabric,
        "options": templating.Names("options", options),
        "job": job,
        "name": job.name,
        "command": job.command,
        "env": job.env,
        "params": params,
        "nodes": job.nodes,
        "processes_per_node": job.processes_per_node,
        "target": target,
        "refuse": refuse,
    }
    try:
        script = templating.render(launcher.template, context)
        if _preflight(job, target) != "none":
            # After the opening comments, so that a failed check ends the script.
            checks = templating.compile_text(launcher.environment, _CHECKS)
            text = templating.render(checks, {**context, "unfit_nodes": UNFIT_NODES})
            lines = script.splitlines(keepends=True)
            head = "".join(takewhile(lambda line: line.startswith("#"), lines))
            script = f"{head}{text}{script[len(head) :]}"
    except templating.TemplateFault as fault:
        raise _located(fault, launcher.file) from None
    if refusals:
        raise UserError(refusals)
    return script


def _preflight(job: Job, target: Target) -> str:
    if job.preflight is not None:
        return job.preflight
    if job.wanted or not (target.vm_size and capabilities(target.engine).checks_gpus):
        return "none"
    from fairway_core.catalog import vm_size

    gpu = vm_size(target.vm_size).gpu
    # A program for AMD's GPUs is only present if the image has one.
    return "gpus" if gpu and gpu.vendor == "nvidia" else "none"


def render_once_a_node(when: str, command: str, job: Job) -> str:
    """Returns the script that runs a command once per node; `when` describes its moment."""
    title = f"Runs once a node, {when}."
    folders = templates.template_paths(Path.cwd())
    template = templating.shell_environment(folders).get_template("_setup.sh.j2")
    return templating.render(template, {"title": title, "setup": command, "env": job.env})


# Bytes of one argument, or of a variable with its name, and of all arguments and variables. Linux
# allows 128 KiB, and 2 MiB in total, which includes other variables.
_LONGEST, _LARGEST = 131_000, 1_500_000


def _require_room(job: Job, document: Document) -> None:
    """Raises UserError for variables and parameters that are too long, each or together."""
    texts: dict[DataPath, str] = {("env", key): f"{key}={value}" for key, value in job.env.items()}
    for name, value in job.params.items():
        items = enumerate(value) if isinstance(value, list) else [(None, value)]
        texts |= {("params", name, *([] if i is None else [i])): str(item) for i, item in items}
    sizes = {path: len(text.encode()) for path, text in texts.items()}
    found = [
        (path, f"`{'.'.join(map(str, path))}` has {size:,} bytes: a program takes {_LONGEST:,}")
        for path, size in sizes.items()
        if size > _LONGEST
    ]
    variables = sum(size for path, size in sizes.items() if path[0] == "env")
    command = len(job.command.encode())
    # Variables are passed twice, once for forwarding to other nodes.
    if not found and 2 * variables + command > _LARGEST:
        message = f"`env` has {variables:,} bytes and `command` {command:,}: too much for a program"
        found = [(("command" if command > variables else "env",), message)]
    if found:
        hint = "write it to a file beside the job, and give the program the name of that file"
        raise UserError(document.finding("too-long", at, message, hint) for at, message in found)


_SEE = "correct this line of the template, or the value of the job that it prints"


def _located(fault: templating.TemplateFault, file: Path) -> UserError:
    name, lines = fault.file or str(file), list[str]()
    with suppress(OSError, UnicodeDecodeError):
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    text = lines[fault.line - 1] if 0 < fault.line <= len(lines) else ""
    location = templating.expression_of(fault, Location.of_line(name, fault.line, text))
    return UserError([Finding("bad-template", str(fault), fault.hint or _SEE, location=location)])


def param_use(job_file: JobFile) -> ParamUse | None:
    """Returns a search for parameters without effect; None if the job's own file lists all of its
    parameters, and no task overrides one."""
    document = job_file.document
    listed = section_of(document.text.data, "params").keys()
    if job_file.sweep is None and section_of(document.data, "params").keys() <= listed:
        return None
    from fairway_runner.jobs.param_use import ParamUse

    return ParamUse(job_file)


def render_launcher(job_file: JobFile, job: Job, target: Target) -> str:
    """Returns a job's script. Raises UserError also for a parameter that is set but never read."""
    return Launchers(target).render(job_file, job, param_use(job_file))

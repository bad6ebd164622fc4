"""Search for parameters of a job that nothing reads, or that have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError, nodes

from fairway_agent.quick import dataclass
from fairway_agent.records import section_of
from fairway_core.findings import Finding, Location, UserError
from fairway_core.suggestions import nearest
from fairway_runner.jobs import templating
from fairway_runner.jobs.job_fields import leaves
from fairway_runner.jobs.job_file import LITERAL_FIELDS, JobFile

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

    from fairway_core.yaml_text import DataPath

# Every point of these generators has them, even if unused.
_OF_POINTS = {"files": {"file", "name", "stem"}, "shards": {"shard", "shards", "shard_input"}}


@dataclass
class _Reading:
    """Names of parameters that templates read; `everything` if one reads the entire mapping."""

    names: set[str] = field(default_factory=set)
    everything: bool = False
    _seen: set[str] = field(default_factory=set)
    """Templates that were already included, since one may include itself."""

    def look(self, environment: SandboxedEnvironment, source: str) -> None:
        """Adds the parameters that a template reads, and those that its includes read."""
        try:
            tree = environment.parse(source)
        except TemplateError:
            return  # rendering reports the error
        bound = [(each.node, each.attr) for each in tree.find_all(nodes.Getattr)]
        bound += [
            (each.node, str(each.arg.value))
            for each in tree.find_all(nodes.Getitem)
            if isinstance(each.arg, nodes.Const)
        ]
        named = {id(node): name for node, name in bound if _is_params(node)}
        self.names.update(named.values())
        references = [*tree.find_all(nodes.Name), *tree.find_all(nodes.Getattr)]
        if any(_is_params(node) and id(node) not in named for node in references):
            self.everything = True
        from jinja2 import meta

        for part in meta.find_referenced_templates(tree):
            if part is None or environment.loader is None:
                self.everything = True  # the name is only known when it is rendered
                continue
            if part in self._seen:
                continue
            self._seen.add(part)
            try:
                text, _, _ = environment.loader.get_source(environment, part)
            except TemplateError:
                continue
            self.look(environment, text)


def _is_params(node: nodes.Node) -> bool:
    """Returns True for `params`, or the `job.params` that launchers see."""
    if isinstance(node, nodes.Getattr):
        return node.attr == "params" and isinstance(node.node, nodes.Name)
    return isinstance(node, nodes.Name) and node.name == "params"


class ParamUse:
    """Parameters that a job declares, and those that it reads."""

    def __init__(self, job_file: JobFile) -> None:
        self._document = job_file.document
        self._declared = set(section_of(self._document.text.data, "params"))
        sweep = job_file.sweep
        for _, each in sweep.section.generators() if sweep else ():
            self._declared |= _OF_POINTS.get(each.key, set())
        self._launchers: dict[Path, _Reading] = {}
        params = self._document.data.get("params", {})
        self._typed = {
            str(path[1]): params[path[1]]
            for path in self._document.overrides
            if path[0] == "params" and len(path) == 2 and sweep
        }

    def require(
        self, task: JobFile, file: Path, environment: SandboxedEnvironment, source: str
    ) -> None:
        """Raises UserError with every parameter of the task that neither its job nor its template
        `file` reads or declares, and with those of the command line that the sweep overrides."""
        params = task.document.data.get("params", {})
        findings = [
            Finding(
                "overridden-param",
                f"`-s params.{name}` has no effect: the sweep sets it for each task",
                "leave it out, or change the sweep: -s sweep.points=…",
                f"params.{name}",
                location=self._at(name),
            )
            for name, value in self._typed.items()
            if params[name] != value
        ]
        if findings:
            raise UserError(findings)
        names = set(params) - self._declared
        if not names or self._fields.everything or names <= self._fields.names:
            return  # the templates need not be parsed
        if file not in self._launchers:
            self._launchers[file] = _Reading(set(self._fields.names))
            self._launchers[file].look(environment, source)
        reading = self._launchers[file]
        if reading.everything:
            return
        known = self._declared | reading.names
        if unused := [name for name in params if name not in known]:
            raise UserError([self._finding(name, known) for name in unused])

    @cached_property
    def _fields(self) -> _Reading:
        found = _Reading()
        data = {k: v for k, v in self._document.data.items() if k not in LITERAL_FIELDS}
        for _, text in leaves(data):
            if isinstance(text, str):
                found.look(templating.text_environment(), text)
        return found

    def _finding(self, name: str, known: set[str]) -> Finding:
        near = nearest(name, known)
        hint = f"use it as {{{{ params.{name} }}}}, or list it under `params:`"
        if near is not None:
            hint = f"did you mean `params.{near}`?"
        path, location = f"params.{name}", self._at(name)
        return Finding("unused-param", f"nothing reads `{path}`", hint, path, location=location)

    def _at(self, name: str) -> Location:
        """Returns where a parameter is named: on the command line, or in the sweep."""
        document = self._document
        for path in (("params", name), ("params",)):
            if typed_at := document.overrides.get(path):
                return replace(typed_at, column=len("-s ") + 1, length=len(".".join(path)))
        written = (path for path in document.text.keys if path[-1:] == (name,))
        keys: Iterator[DataPath] = (
            path for path in (*written, *document.overrides) if path[0] == "sweep"
        )
        return document.location(next(keys, ("sweep",)), of_key=True)

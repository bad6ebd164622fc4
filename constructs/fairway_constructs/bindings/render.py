"""The text of the generated modules: a pure function of the facts.

A resource becomes a class, a nested block a dataclass beside it, an argument a keyword that is
required if the schema says so, and a readable attribute a member that returns a reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from fairway_constructs.bindings import names
from fairway_constructs.bindings.facts import Attribute, Body, Facts, Type

_SCALARS = {"string": "str", "number": "float", "bool": "bool"}
_MEMBERS = {"string": "StringAttribute", "number": "NumberAttribute", "bool": "BooleanAttribute"}
_SYMBOLS = {
    "collections.abc": ["Mapping", "Sequence"],
    "fairway_constructs.bindings.attributes": [
        "BooleanAttribute",
        "ListAttribute",
        "MapAttribute",
        "NumberAttribute",
        "NumberListAttribute",
        "ObjectAttribute",
        "StringAttribute",
    ],
    "fairway_constructs.bindings.blocks": ["Block", "ObjectValue", "Timeouts"],
    "fairway_constructs.cdk": [
        "Construct",
        "DataSource",
        "ITerraformDependable",
        "Lifecycle",
        "Provider",
        "Resource",
    ],
}
_KINDS = {"Block": "The block", "ObjectValue": "An object in"}
_WIDTH = 100
_WRITER = "bin/bindings"
OWN_WRITER = "fairway bindings"
"""Marks the files of a user's own package as written by this program, not by the user."""

# From an attribute's name to its declared name in Python.
_Naming: TypeAlias = Callable[[str], str]


@dataclass
class _Module:
    """A module under construction: the name and text of each class for a block, innermost first."""

    taken: set[str]
    classes: list[str] = field(default_factory=list)

    def text(self, head: str, main: str) -> str:
        """Returns the entire module, with imports of the names that its text uses."""
        body = "\n\n\n".join([*self.classes, main])
        return f"{head}\n{_imports(body)}\n\n\n{body}\n"


@dataclass(frozen=True)
class _Parameter:
    """An argument of a constructor or a field of a block: Python's name, and Terraform's."""

    name: str
    key: str
    annotation: str
    required: bool

    @property
    def text(self) -> str:
        """The parameter's declaration."""
        if self.required:
            return f"{self.name}: {self.annotation}"
        return f"{self.name}: {self.annotation} | None = None"


def render(facts: Facts) -> dict[str, str]:
    """Returns the text of each file of the package `fairway_constructs.azurerm`, by file name."""
    major, minor = facts.version.split(".")[:2]
    package = (
        f'"""Bindings {_origin(facts, _WRITER)}\n'
        "\nA module holds one resource or data source; import the module that you need.\n"
        '"""\n'
        f'\nPROVIDER_SOURCE = "{facts.provider}"\n'
        f'PROVIDER_VERSION = "~> {major}.{minor}"\n'
    )
    files = {"__init__.py": package, "provider.py": _provider(facts)}
    return files | render_elements(facts)


def render_own(facts: Facts) -> dict[str, str]:
    """Returns the text of each file of a user's own package, by file name."""
    head = f'"""Bindings {_origin(facts, OWN_WRITER)}"""\n'
    return {"__init__.py": head} | render_elements(facts, OWN_WRITER)


def render_elements(facts: Facts, writer: str = _WRITER) -> dict[str, str]:
    """Returns the text of the module of each resource and data source, by file name."""
    origin, files = _origin(facts, writer), {}
    for kind, bodies in (("Resource", facts.resources), ("DataSource", facts.data_sources)):
        for terraform_type, body in bodies.items():
            module = names.module_name(terraform_type, data=kind == "DataSource")
            files[f"{module}.py"] = _element(kind, terraform_type, body, origin)
    return files


def _origin(facts: Facts, writer: str) -> str:
    """Returns the provider, with its version if known, and the program that writes the file."""
    provider = f"{facts.provider} {facts.version}".strip()
    return f"of {provider}; written by {writer}, never edited."


def _head(what: str, origin: str) -> str:
    return f'"""{what} {origin}"""\n\nfrom __future__ import annotations\n'


def _element(kind: str, terraform_type: str, body: Body, origin: str) -> str:
    """Returns the module of a resource (`kind` Resource) or data source (DataSource)."""
    resource = kind == "Resource"
    cls = names.class_name(names.module_name(terraform_type, data=not resource))
    module = _Module({cls})
    parameters = _parameters(module, body, (), names.argument_name)
    shared = ["lifecycle: Lifecycle | None = None"] if resource else []
    shared += [
        "depends_on: Sequence[ITerraformDependable] = ()",
        "provider: Provider | None = None",
    ]
    what = "resource" if resource else "data source"
    lines = [
        f"class {cls}({kind}):",
        f'    """The {what} {terraform_type}."""',
        "",
        f'    TYPE = "{terraform_type}"',
        "",
        *(f"    {line}" for line in _members(body)),
        "",
        *_constructor(parameters, "id: str", shared),
    ]
    return module.text(_head(f"{what.capitalize()} {terraform_type}", origin), "\n".join(lines))


def _provider(facts: Facts) -> str:
    """Returns the module of the provider's configuration."""
    module = _Module({"AzurermProvider"})
    parameters = [
        parameter
        if parameter.key != "features"
        # The provider requires this block, even if it is empty.
        else _Parameter("features", "features", "Features = Features()", required=True)
        for parameter in _parameters(module, facts.configuration, (), names.argument_name)
    ]
    lines = [
        "class AzurermProvider(Provider):",
        f'    """The configuration of the provider {facts.provider}."""',
        "",
        *_constructor(parameters, 'id: str = "azurerm"', ["alias: str | None = None"]),
    ]
    head = _head("Configuration", _origin(facts, _WRITER))
    return module.text(head, "\n".join(lines))


def _constructor(parameters: list[_Parameter], id_: str, shared: list[str]) -> Iterator[str]:
    """Yields the lines of `__init__`, which passes the arguments in `shared` on by name."""
    yield "    def __init__("
    for line in ("self", "scope: Construct", id_, "*"):
        yield f"        {line},"
    for parameter in parameters:
        yield f"        {parameter.text},"
    for line in shared:
        yield f"        {line},"
    yield "    ) -> None:"
    yield "        super().__init__("
    yield "            scope,"
    yield "            id,"
    if parameters:
        yield "            {"
        for parameter in parameters:
            yield f'                "{parameter.key}": {parameter.name},'
        yield "            },"
    else:
        yield "            {},"
    for line in shared:
        name = line.partition(":")[0]
        yield f"            {name}={name},"
    yield "        )"


def _members(body: Body) -> Iterator[str]:
    for key, attribute in sorted(body.attributes.items()):
        if attribute.write_only:
            continue
        name = names.member_name(key)
        yield f"{name} = {_member(attribute.type)}({'' if name == key else repr(key)})".replace(
            "'", '"'
        )


def _member(type_: Type) -> str:
    if isinstance(type_, str):
        return _MEMBERS[type_]
    match type_:
        case ["list" | "set", "string"]:
            return "ListAttribute"
        case ["list" | "set", "number"]:
            return "NumberListAttribute"
        case ["map", "string"]:
            return "MapAttribute"
    return "ObjectAttribute"


def _parameters(
    module: _Module, body: Body, path: tuple[str, ...], name_of: _Naming
) -> list[_Parameter]:
    """Returns the parameters of a body: required ones first, `timeouts` last, otherwise by name."""
    found = []
    for key, attribute in sorted(body.attributes.items()):
        if attribute.settable:
            annotation = _annotation(module, attribute.type, (*path, key))
            found.append(_Parameter(name_of(key), key, annotation, attribute.required))
    for key, nested in sorted(body.blocks.items()):
        shared = (*path, key) == ("timeouts",)
        annotation = "Timeouts" if shared else _class(module, nested.body, (*path, key), "Block")
        if not nested.once:
            annotation = f"Sequence[{annotation}]"
        found.append(_Parameter(name_of(key), key, annotation, nested.min_items > 0))
    return sorted(
        found, key=lambda parameter: (not parameter.required, parameter.key == "timeouts")
    )


def _annotation(module: _Module, type_: Type, path: tuple[str, ...]) -> str:
    """Returns the type of an argument; an object gets a class of its own."""
    if isinstance(type_, str):
        return _SCALARS[type_]
    match type_:
        case ["list" | "set", element]:
            return f"Sequence[{_annotation(module, element, path)}]"
        case ["map", element]:
            return f"Mapping[str, {_annotation(module, element, path)}]"
        case ["object", dict(members)]:
            fields = {key: Attribute(each, optional=True) for key, each in members.items()}
            return _class(module, Body(fields, {}), path, "ObjectValue")
    raise AssertionError(f"{'.'.join(path)}: {type_} is no type constraint of Terraform's")


def _class(module: _Module, body: Body, path: tuple[str, ...], base: str) -> str:
    """Adds the dataclass of a block or object, after those inside it; returns its name."""
    name = names.block_class_name(path, module.taken)
    module.taken.add(name)
    parameters = _parameters(module, body, path, names.field_name)
    fields = [f"    {parameter.text}" for parameter in parameters]
    lines = [f"class {name}({base}):", f'    """{_KINDS[base]} `{".".join(path)}`."""']
    module.classes.append("\n".join([*lines, *([""] if fields else []), *fields]))
    return name


def _imports(body: str) -> str:
    words = set(re.findall(r"[A-Za-z]+", body))
    lines = []
    for module, symbols in _SYMBOLS.items():
        if used := [symbol for symbol in symbols if symbol in words]:
            line = f"from {module} import {', '.join(used)}"
            if len(line) > _WIDTH:
                members = "".join(f"    {symbol},\n" for symbol in used)
                line = f"from {module} import (\n{members})"
            lines.append(line)
    split = sum(not line.startswith("from fairway") for line in lines)
    return "\n".join([*lines[:split], *([""] if split else []), *lines[split:]])

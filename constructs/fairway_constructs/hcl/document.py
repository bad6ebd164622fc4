"""The document of a stack, `cdk.tf.json`, as HCL."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fairway_constructs.bindings.blocks import BlockBody, ObjectBody
from fairway_constructs.bindings.facts import kept_facts
from fairway_constructs.hcl.expressions import (
    assignments,
    base64_text,
    expression,
    hashed_text,
    quoted,
    sequence,
)
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from fairway_constructs.bindings.facts import Body


_FIRST = ("count", "for_each", "provider", "name", "resource_group_name", "location")
_LAST = ("connection", "provisioner", "timeouts", "lifecycle", "depends_on")
_COMMENT = "//"


@dataclass(frozen=True)
class Shape:
    """The schema of a block: the names of its nested blocks, those of blocks with labels, those of
    arguments with an address or a keyword, which is a string in JSON but not an expression, and
    those of arguments in which Terraform evaluates nothing; "*" means all.

    Without a known schema, a list of objects is a block, and so is a value whose class says so.
    """

    blocks: Mapping[str, Shape] = field(default_factory=dict)
    labelled: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    known: bool = True
    literal: frozenset[str] = frozenset()

    def is_block(self, name: str, value: Any) -> bool:
        """Returns True if that name, with that value, is a block."""
        if self.known or name in self.blocks:
            return name in self.blocks
        if isinstance(value, list):
            bodies = [isinstance(e, dict) and not isinstance(e, ObjectBody) for e in value]
            return bool(bodies) and all(bodies)
        return isinstance(value, BlockBody)

    def inside(self, name: str) -> Shape:
        """Returns the shape of the blocks with that name."""
        return self.blocks.get(name, Shape(known=self.known))


_PLAIN = Shape()
_LIFECYCLE = Shape(
    {"precondition": _PLAIN, "postcondition": _PLAIN},
    bare=frozenset({"ignore_changes", "replace_triggered_by"}),
)
_PROVISIONER = Shape({"connection": _PLAIN}, bare=frozenset({"when", "on_failure"}))
_LITERAL = Shape(literal=frozenset({"*"}))
BACKEND = Shape({"workspaces": _LITERAL, "exec": _LITERAL}, known=False, literal=frozenset({"*"}))
"""The settings of a backend; a block that may occur several times is a list."""
_OWN_BLOCKS = {"lifecycle": _LIFECYCLE, "connection": _PLAIN, "provisioner": _PROVISIONER}
_LABELLED = frozenset({"dynamic", "provisioner"})
_REFERENCES = frozenset({"provider", "depends_on"})

_TERRAFORM = Shape(
    {"required_providers": _PLAIN, "backend": BACKEND, "cloud": BACKEND},
    labelled=frozenset({"backend"}),
)
_TEXTS = frozenset({"description"})
_VARIABLE = Shape({"validation": _PLAIN}, bare=frozenset({"type"}), literal=_TEXTS | {"default"})
_OUTPUT = Shape({"precondition": _PLAIN}, bare=frozenset({"depends_on"}), literal=_TEXTS)
# The shape of a block of each section of the document, and its number of labels.
_SECTIONS = {
    "terraform": (_TERRAFORM, 0),
    "provider": (Shape(known=False), 1),
    "variable": (_VARIABLE, 1),
    "locals": (_PLAIN, 0),
    "data": (Shape(_OWN_BLOCKS, _LABELLED, _REFERENCES, known=False), 2),
    "ephemeral": (Shape(_OWN_BLOCKS, _LABELLED, _REFERENCES, known=False), 2),
    "resource": (Shape(_OWN_BLOCKS, _LABELLED, _REFERENCES, known=False), 2),
    "module": (Shape(bare=_REFERENCES | {"providers"}), 1),
    "import": (Shape(bare=frozenset({"provider", "to"})), 0),
    "moved": (Shape(bare=frozenset({"from", "to"})), 0),
    "removed": (Shape(_OWN_BLOCKS, _LABELLED, frozenset({"from"})), 0),
    "output": (_OUTPUT, 1),
    "check": (Shape({"assert": _PLAIN}, frozenset({"data"})), 1),
}


def to_hcl(document: Mapping[str, Any]) -> str:
    """Returns the HCL of a stack: the same configuration, in the layout of `terraform fmt`.

    Resources are in the order of the constructs that created them. The provider's schema, of which
    the bindings keep a copy, distinguishes arguments from blocks. Raises UserError for a section
    that is not Terraform's.
    """
    for section in document.keys() - {_COMMENT, *_SECTIONS}:
        message = f"there is no HCL of the section `{section}`"
        raise UserError.of("no-hcl", message, "write the stack as JSON, which has it as it is")
    document = _with_shared_texts(document)
    texts = [
        "\n".join(_block(" ".join([section, *labels]), body, shape, ""))
        for section, (own, depth) in _SECTIONS.items()
        for labels, body, shape in sorted(
            _bodies(section, document.get(section), own, depth), key=_path
        )
    ]
    return "\n\n".join(texts) + "\n"


def write_hcl(document: Mapping[str, Any], folder: Path) -> None:
    """Writes the HCL of a stack, and beside it the metadata that cdktf's command line needs."""
    (folder / "cdk.tf").write_text(to_hcl(document), encoding="utf-8")
    asked = {section: document[section] for section in ("//", "terraform")}
    (folder / "metadata.json").write_text(json.dumps(asked, indent=1), encoding="utf-8")


def _with_shared_texts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document with a text as a local value if a resource also has its MD5."""
    shared: dict[str, str] = {}

    def body_of(resource: str, body: Mapping[str, Any]) -> dict[str, Any]:
        texts = {value: name for name, value in body.items() if isinstance(value, str)}
        found = dict(body)
        for name, value in body.items():
            text = hashed_text(value) if isinstance(value, str) else None
            if text in texts and text is not None and "\n" in text:
                local = f"{resource}-{texts[text]}"
                shared[local] = text
                found |= {texts[text]: f"${{local.{local}}}", name: f"${{md5(local.{local})}}"}
        return found

    resources = {
        type_: {name: body_of(name, body) for name, body in bodies.items()}
        for type_, bodies in document.get("resource", {}).items()
    }
    local_values = {**document.get("locals", {}), **shared}
    return {**document, "resource": resources, "locals": local_values}


def shape_of(section: str, type: str, own: Shape = _PLAIN) -> Shape:
    """Returns the shape of a resource, a data source or a provider, with Terraform's own blocks."""
    facts = kept_facts()
    known = {
        "resource": facts.resources,
        "data": facts.data_sources,
        "provider": {facts.provider.rpartition("/")[2]: facts.configuration},
    }[section]
    if type in ("terraform_data", "terraform_remote_state"):
        return Shape(own.blocks, own.labelled, own.bare)
    if type not in known:
        return own if not own.known else Shape(known=False)
    return Shape({**_nested(known[type]), **own.blocks}, own.labelled, own.bare)


def _nested(body: Body) -> dict[str, Shape]:
    return {name: Shape(_nested(block.body)) for name, block in body.blocks.items()}


_Block = tuple[list[str], dict[str, Any], Shape]


def _bodies(section: str, found: Any, own: Shape, depth: int) -> Iterator[_Block]:
    """Yields the labels, the body and the shape of each block of a section."""
    if not found:
        return
    if not depth:
        for body in found if isinstance(found, list) else [found]:
            yield [], body, own
        return
    for label, inner in found.items():
        shape = own
        if section in ("resource", "data", "provider"):
            shape = shape_of(section, label, own)
        for labels, body, _ in _bodies("", inner, own, depth - 1):
            yield [f'"{label}"', *labels], body, shape


def _path(block: _Block) -> tuple[list[str], list[str]]:
    """Returns the sort key of a resource: its construct's path in the tree, then its labels."""
    labels, body, _ = block
    path = body.get(_COMMENT, {}).get("metadata", {}).get("path", "")
    return path.split("/"), labels


def _block(header: str, body: Mapping[str, Any], shape: Shape, indent: str) -> list[str]:
    inner = f"{indent}  "
    names = _in_order(name for name in body if name != _COMMENT)
    blocks = [name for name in names if shape.is_block(name, body[name]) or name in shape.labelled]
    arguments = [name for name in names if name not in blocks and name != "depends_on"]
    groups = [
        list(assignments(((n, _argument(n, body[n], shape, inner)) for n in arguments), inner))
    ]
    for name in blocks:
        groups += _nested_blocks(name, body[name], shape, inner)
    if "depends_on" in body:
        value = _argument("depends_on", body["depends_on"], shape, inner)
        groups.append([f"{inner}depends_on = {value}"])
    lines = [line for group in groups if group for line in ("", *group)][1:]
    return [f"{indent}{header} {{", *lines, f"{indent}}}"] if lines else [f"{indent}{header} {{}}"]


def _nested_blocks(name: str, value: Any, shape: Shape, indent: str) -> Iterator[list[str]]:
    if name == "data" and name in shape.labelled:  # in a check
        for labels, body, inside in _bodies(name, value, *_SECTIONS[name]):
            yield _block(" ".join([name, *labels]), body, inside, indent)
        return
    inside = shape.inside(name)
    for body in value if isinstance(value, list) else [value]:
        if name not in shape.labelled:
            yield _block(name, body, inside, indent)
            continue
        for label, labelled in body.items():
            if name == "dynamic":
                inside = Shape({"content": shape.inside(label)}, bare=frozenset({"iterator"}))
            for each in labelled if isinstance(labelled, list) else [labelled]:
                yield _block(f'{name} "{label}"', each, inside, indent)


def _in_order(names: Iterator[str]) -> list[str]:
    """Sorts names of arguments and blocks: identifying ones first, Terraform's meta-arguments
    last."""
    places = {name: place for place, name in enumerate(_FIRST, -len(_FIRST))}
    places |= {name: place for place, name in enumerate(_LAST, 1)}
    return sorted(names, key=lambda name: places.get(name, 0))


def _argument(name: str, value: Any, shape: Shape, indent: str) -> str:
    if name in shape.bare:
        return _bare(value, indent)
    if name in ("custom_data", "user_data") and isinstance(value, str):
        return base64_text(value, indent) or expression(value, indent)
    return expression(value, indent, literal=bool(shape.literal & {name, "*"}))


def _bare(value: Any, indent: str) -> str:
    """Returns addresses and keywords without quotes."""
    if isinstance(value, list):
        return sequence([str(each) for each in value], indent)
    if isinstance(value, dict):
        return expression({name: f"${{{each}}}" for name, each in value.items()}, indent)
    return str(value)


# cdktf's tokens of lists and maps that it has yet to resolve: they have to stay as they are.
_TOKENS = ("#{TfToken[", "&{TfToken[")


def cdktf_attributes(attributes: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Returns the arguments in the form of cdktf's `synthesizeHclAttributes`."""
    return {name: _attribute(name, value, shape) for name, value in attributes.items()}


def _attribute(name: str, value: Any, shape: Shape) -> dict[str, Any]:
    if shape.is_block(name, value):
        inside = shape.inside(name)
        bodies = value if isinstance(value, list) else [value]
        found = [cdktf_attributes(body, inside) for body in bodies]
        return {"value": found, "isBlock": True, "type": "list", "storageClassType": "objectList"}
    if isinstance(value, str):
        text = quoted(value)
        return {"value": text, "isBlock": False, "type": "simple", "storageClassType": "string"}
    if isinstance(value, dict | list):
        return {"value": _quoted(value), "isBlock": False, "type": "any", "storageClassType": "any"}
    return {"value": value, "isBlock": False, "type": "simple", "storageClassType": "boolean"}


def _quoted(value: Any) -> Any:
    """Returns the value with its texts in the form that cdktf writes unchanged."""
    match value:
        case str() if not value.startswith(_TOKENS):
            return quoted(value) if "${" in value else f'"{quoted(value)}"'
        case dict():
            return {quoted(name): _quoted(each) for name, each in value.items()}
        case list():
            return [_quoted(each) for each in value]
        case _:
            return value

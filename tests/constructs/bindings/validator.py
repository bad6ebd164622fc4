"""Check of synthesized Terraform against the provider's schema, without Terraform.

    findings = list(validate(json.loads(Path("cdk.tf.json").read_text())))

A pure function of the document and the kept facts. It is stricter than Terraform in one
thing: a number does not pass for a string, nor a string for a number, unless it is an
expression, `${…}`, whose type is not known here. Of what the provider asks of a value, and its
schema does not say, it knows the addresses that storage and Batch accounts take.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairway_constructs.bindings.facts import Attribute, Body, Facts, NestedBlock, Type, kept_facts
from fairway_core.findings import Finding
from fairway_core.suggestions import did_you_mean

# What Terraform itself understands in a resource, whatever its type.
_META = frozenset(
    {"//", "connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioner"}
)
_PROVIDER_META = frozenset({"//", "alias"})

# Terraform's own resources; "dynamic" is its name for any type.
_BUILTIN_RESOURCES = {
    "terraform_data": Body(
        {
            "id": Attribute("string", computed=True),
            "input": Attribute("dynamic", optional=True),
            "output": Attribute("dynamic", computed=True),
            "triggers_replace": Attribute("dynamic", optional=True),
        },
        {},
    )
}
_BUILTIN_DATA_SOURCES = {
    "terraform_remote_state": Body(
        {
            "backend": Attribute("string", required=True),
            "config": Attribute("dynamic", optional=True),
            "defaults": Attribute("dynamic", optional=True),
            "outputs": Attribute("dynamic", computed=True),
            "workspace": Attribute("string", optional=True),
        },
        {},
    )
}


def validate(stack: Mapping[str, Any], facts: Facts | None = None) -> Iterator[Finding]:
    """Faults of a stack's `cdk.tf.json`, in the order of the file.

    A finding's path leads to the place: "resource.azurerm_subnet.compute.delegation[0].name".
    Its id is unknown-type, unknown-attribute, missing-attribute, computed-attribute,
    wrong-type, wrong-address or block-count.
    """
    facts = facts or kept_facts()
    resources = {**facts.resources, **_BUILTIN_RESOURCES}
    data_sources = {**facts.data_sources, **_BUILTIN_DATA_SOURCES}
    yield from _section(stack.get("resource", {}), resources, "resource")
    yield from _section(stack.get("data", {}), data_sources, "data")
    yield from _providers(stack.get("provider", {}), facts)


def _section(types: Any, bodies: Mapping[str, Body], path: str) -> Iterator[Finding]:
    """All resources, or all data sources: {type: {name: arguments}}."""
    if not isinstance(types, Mapping):
        yield _wrong_type(path, "an object", types)
        return
    for type_, elements in types.items():
        place = f"{path}.{type_}"
        if type_ not in bodies:
            yield _unknown_type(place, type_, bodies)
        elif not isinstance(elements, Mapping):
            yield _wrong_type(place, "an object", elements)
        else:
            for name, arguments in elements.items():
                yield from _body(arguments, bodies[type_], f"{place}.{name}", _META)


def _providers(providers: Any, facts: Facts) -> Iterator[Finding]:
    """The providers' configurations: {name: arguments, or a list of them}."""
    if not isinstance(providers, Mapping):
        yield _wrong_type("provider", "an object", providers)
        return
    own = facts.provider.rpartition("/")[2]
    for name, configurations in providers.items():
        path = f"provider.{name}"
        if name != own:
            yield _unknown_type(path, name, [own])
            continue
        for place, arguments in _items(configurations, path):
            yield from _body(arguments, facts.configuration, place, _PROVIDER_META)


def _body(
    given: Any, body: Body, path: str, meta: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    """The arguments between a block's braces; null counts as absent."""
    if not isinstance(given, Mapping):
        yield _wrong_type(path, "an object", given)
        return
    present = {name: value for name, value in given.items() if value is not None}
    for name, value in present.items():
        place = f"{path}.{name}"
        if name in body.blocks:
            yield from _blocks(value, body.blocks[name], place)
        elif name in body.attributes:
            yield from _attribute(value, body.attributes[name], place)
        elif name not in meta:
            settable = [key for key, attribute in body.attributes.items() if attribute.settable]
            yield _unknown_attribute(place, name, [*settable, *body.blocks])
    for name, attribute in body.attributes.items():
        if attribute.required and name not in present:
            yield _missing(f"{path}.{name}", name)
    for name, nested in body.blocks.items():
        if nested.min_items and name not in present:
            yield _count(f"{path}.{name}", nested, 0)


def _blocks(value: Any, nested: NestedBlock, path: str) -> Iterator[Finding]:
    """A block type's blocks: one as an object, or any number as a list."""
    blocks = list(_items(value, path))
    limit = 1 if nested.once else nested.max_items
    if len(blocks) < nested.min_items or (limit and len(blocks) > limit):
        yield _count(path, nested, len(blocks))
    for place, block in blocks:
        yield from _body(block, nested.body, place)


def _attribute(value: Any, attribute: Attribute, path: str) -> Iterator[Finding]:
    if attribute.settable:
        yield from _type(value, attribute.type, path)
    else:
        name = path.rpartition(".")[2]
        hint = "take it out, and refer to it where its value is needed"
        yield Finding("computed-attribute", f"`{name}` is set by Azure alone", hint, path)


def _type(value: Any, type_: Type, path: str) -> Iterator[Finding]:
    """Faults of a value against a type constraint of Terraform's; an expression fits every one."""
    if type_ == "dynamic" or _is_expression(value):
        return
    match type_:
        case "string" | "number" | "bool":
            if not _is_scalar(value, type_):
                yield _wrong_type(path, _SCALARS[type_][0], value)
            elif _ADDRESSES.search(path) and not _is_rule_address(value):
                yield _wrong_address(path, value)
        case ["list" | "set" | "map" as kind, element]:
            yield from _collection(value, kind, element, path)
        case ["object", dict(members)]:
            yield from _object(value, members, path)


def _collection(value: Any, kind: str, element: Type, path: str) -> Iterator[Finding]:
    wanted, type_ = ("an object", Mapping) if kind == "map" else ("a list", list)
    if not isinstance(value, type_):
        yield _wrong_type(path, wanted, value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _type(item, element, f"{path}.{name}")
    else:
        for place, item in _items(value, path):
            yield from _type(item, element, place)


def _object(value: Any, members: Mapping[str, Type], path: str) -> Iterator[Finding]:
    """Terraform wants an object whole: a member may be null, but none may be missing."""
    if not isinstance(value, Mapping):
        yield _wrong_type(path, "an object", value)
        return
    for name, item in value.items():
        if name not in members:
            yield _unknown_attribute(f"{path}.{name}", name, members)
        elif item is not None:
            yield from _type(item, members[name], f"{path}.{name}")
    for name in members:
        if name not in value:
            yield _missing(f"{path}.{name}", name)


_SCALARS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "number": ("a number", (int, float)),
    "bool": ("true or false", (bool,)),
}


def _is_scalar(value: Any, type_: str) -> bool:
    # In Python True is an int, in Terraform it is no number.
    return isinstance(value, _SCALARS[type_][1]) and isinstance(value, bool) == (type_ == "bool")


# "must start with IPV4 address and/or slash, number of bits (0-30) as prefix": the provider's
# check of these, services/batch/validate and services/storage/validate/storage_account_ip_rule.go.
_ADDRESSES = re.compile(
    r"^resource\.azurerm_(batch_account|storage_account)\..*\.(ip_range|ip_rules\[\d+\])$"
)
_RULE_ADDRESS = re.compile(r"(\d{1,3}\.){3}\d{1,3}(/([0-9]|[12][0-9]|30))?")
_EXPRESSION = re.compile(r"\$\{[^}]*\}")


def _is_rule_address(value: str) -> bool:
    # What Terraform fills in is the address of something.
    return _RULE_ADDRESS.fullmatch(_EXPRESSION.sub("192.0.2.1", value)) is not None


def _is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("${") and value.endswith("}")


def _items(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """A list's items with their paths; anything else is the only one."""
    if isinstance(value, list):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
    else:
        yield path, value


def _unknown_type(path: str, type_: str, known: Iterable[str]) -> Finding:
    hint = did_you_mean(type_, known) or "add it to selection.toml and run bin/bindings SCHEMA"
    return Finding("unknown-type", f"there are no bindings of `{type_}`", hint, path)


def _unknown_attribute(path: str, name: str, known: Iterable[str]) -> Finding:
    said = f"there is no argument `{name}` here"
    return Finding("unknown-attribute", said, did_you_mean(name, known), path)


def _missing(path: str, name: str) -> Finding:
    return Finding("missing-attribute", f"`{name}` is required", f"give `{name}`", path)


def _wrong_type(path: str, wanted: str, value: Any) -> Finding:
    said = f"is {value!r}, where Terraform wants {wanted}"
    return Finding("wrong-type", said, f"give {wanted}", path)


def _wrong_address(path: str, value: str) -> Finding:
    said = f"is `{value}`, where the provider takes an address, or a range of /0 to /30"
    return Finding("wrong-address", said, "write a small range address by address", path)


def _count(path: str, nested: NestedBlock, count: int) -> Finding:
    most = 1 if nested.nesting == "single" else nested.max_items
    if most is None:
        wanted = f"at least {nested.min_items}"
    elif most == nested.min_items:
        wanted = f"exactly {most}"
    else:
        wanted = f"{nested.min_items} to {most}"
    said = f"there {'is' if count == 1 else 'are'} {count} of this block, where {wanted} may stand"
    return Finding("block-count", said, f"give {wanted}", path)

"""Validation of synthesized Terraform against the provider's schema, without Terraform.

    assert not list(validate(json.loads(Path("cdk.tf.json").read_text())))

The kept facts are converted to a JSON schema, which is stricter than Terraform in one respect: a
number is not accepted as a string, nor a string as a number, except an expression, `${…}`, whose
type is unknown here. Of the provider's checks beyond its schema, only that of addresses which
storage and Batch accounts accept is reproduced.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from fairway_constructs.bindings.facts import Attribute, Body, Facts, NestedBlock, Type, kept_facts

# Arguments of Terraform itself, valid in a resource of any type.
_META = (
    *("//", "connection", "count", "depends_on", "for_each", "lifecycle", "provider"),
    "provisioner",
)
_ANY, _SOME = Attribute("dynamic", optional=True), Attribute("string", required=True)
_BUILTIN = {
    "terraform_data": Body({"input": _ANY, "triggers_replace": _ANY}, {}),
    "terraform_remote_state": Body(
        {"backend": _SOME, "config": _ANY, "defaults": _ANY, "workspace": _ANY}, {}
    ),
}
_EXPRESSION = {"type": "string", "pattern": r"^\$\{[\s\S]*\}$"}
# "must start with IPV4 address and/or slash, number of bits (0-30) as prefix": the provider's
# check of these, services/batch/validate and services/storage/validate/storage_account_ip_rule.go.
_ADDRESS = r"^((\d{1,3}\.){3}\d{1,3}|\$\{[^}]*\})(/([0-9]|[12][0-9]|30))?$"
_ADDRESSES = {"azurerm_batch_account": "ip_range", "azurerm_storage_account": "ip_rules"}

Schema = dict[str, Any] | bool


def validate(stack: Mapping[str, Any], facts: Facts | None = None) -> Iterator[str]:
    """Yields faults of a stack's `cdk.tf.json`, each with its path:
    `resource.azurerm_subnet.compute.delegation.0: 'name' is a required property`."""
    facts = facts or kept_facts()
    _, _, own = facts.provider.rpartition("/")
    configuration = _body(facts.configuration, ("//", "alias"))
    schema = {
        "properties": {
            "resource": _section(stack.get("resource"), facts.resources),
            "data": _section(stack.get("data"), facts.data_sources),
            "provider": _object({own: _items(configuration)}),
        }
    }
    for error in Draft202012Validator(schema).iter_errors(stack):
        yield f"{'.'.join(map(str, error.absolute_path))}: {error.message}"


def _section(given: Any, bodies: Mapping[str, Body]) -> Schema:
    """Returns the schema of all resources or data sources: {type: {name: arguments}}."""
    known = {**bodies, **_BUILTIN}
    used = [each for each in known if isinstance(given, Mapping) and each in given]
    return _object(
        {
            each: {
                "type": "object",
                "additionalProperties": _body(known[each], _META, _ADDRESSES.get(each, "")),
            }
            for each in used
        }
    )


def _object(properties: Mapping[str, Schema], required: list[str] | None = None) -> Schema:
    given = {"properties": properties, "required": required or []}
    return {"type": "object", "additionalProperties": False, **given}


def _body(body: Body, meta: tuple[str, ...] = (), address: str = "") -> Schema:
    """Returns the schema of the arguments in a block; null counts as absent. The argument `address`
    holds addresses that an account accepts."""
    found: dict[str, Schema] = dict.fromkeys(meta, True)
    for name, each in body.attributes.items():
        schema = _type(each.type, _ADDRESS if name == address else ".*")
        absent = {"if": {"type": "null"}, "else": schema}
        found[name] = (schema if each.required else absent) if each.settable else {"not": {}}
    found |= {name: _block(each, address) for name, each in body.blocks.items()}
    required = [name for name, each in body.attributes.items() if each.required]
    required += [name for name, each in body.blocks.items() if each.min_items]
    return _object(found, required)


def _block(nested: NestedBlock, address: str) -> Schema:
    most = 1 if nested.once else nested.max_items
    limits = {"minItems": nested.min_items, **({"maxItems": most} if most else {})}
    return _items(_body(nested.body, address=address), **limits)


def _items(schema: Schema, **limits: int) -> Schema:
    """Returns the schema of one item as an object, or of any number as a list."""
    return {"if": {"type": "array"}, "then": {"items": schema, **limits}, "else": schema}


def _type(type_: Type, text: str = ".*") -> Schema:
    """Returns the schema of a Terraform type constraint; an expression fits every type."""
    match type_:
        case "string":
            return {"type": "string", "pattern": text}
        case "number":
            wanted: Schema = {"type": "number"}
        case "bool":
            wanted = {"type": "boolean"}
        case ["list" | "set", element]:
            wanted = {"type": "array", "items": _type(element, text)}
        case ["map", element]:
            wanted = {"type": "object", "additionalProperties": _type(element)}
        case ["object", dict(members)]:
            # Terraform requires every member of an object: one may be null, but not missing.
            items = {n: {"if": {"type": "null"}, "else": _type(t)} for n, t in members.items()}
            wanted = _object(items, list(members))
        case _:
            wanted = True
    return {"if": _EXPRESSION, "else": wanted}

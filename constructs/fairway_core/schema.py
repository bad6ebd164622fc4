"""JSON schemas (2020-12) of models for editors; the description of a field is the string below it
in its class, which is read from the source only when a schema is requested."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel

from fairway_core.annotations import extra_annotations
from fairway_core.fields import written_span

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

# Types of values that a reference may replace.
_LEAVES = frozenset({"string", "integer", "number", "boolean"})


def schema_of(model: type[BaseModel], *, title: str, reference: str | None = None) -> Schema:
    """Returns the schema of files that contain that model. Text that matches the regular expression
    `reference` is accepted for any value, as it is replaced when the file is read."""
    schema = model.model_json_schema()
    models = models_in(model)
    definitions = schema.pop("$defs", {})
    for name, definition in {**definitions, model.__name__: schema}.items():
        _describe(definition, models.get(name))
    if reference is not None:
        definitions = {name: _lenient(each, reference) for name, each in definitions.items()}
        schema = _lenient(schema, reference)
    schema["title"] = title
    return {"$schema": DIALECT, **schema, "$defs": definitions}


def field_words(model: type[BaseModel]) -> dict[str, str]:
    """Returns the docstrings of a model's fields, by field; fields without one are left out."""
    words: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in pairwise(tree.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(said))),
                ) if name in base.model_fields:
                    words[name] = inspect.cleandoc(said)
    return words


def models_in(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Returns the model and all models in its fields, by name, parents first."""
    found: dict[str, type[BaseModel]] = {}

    def visit(annotation: Any) -> None:
        if hasattr(annotation, "__value__"):
            visit(annotation.__value__)
        if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
            for part in get_args(annotation):
                visit(part)
        elif annotation.__name__ not in found:
            found[annotation.__name__] = annotation
            for field in annotation.model_fields.values():
                visit(field.annotation)
                for each in field.metadata:
                    # The type that a validator accepts besides the field's own.
                    visit(getattr(each, "json_schema_input_type", None))
            for extra in extra_annotations(annotation):
                visit(extra)

    visit(model)
    return found


def _describe(definition: Schema, model: type[BaseModel] | None) -> None:
    """Adds descriptions to properties, and removes the titles that pydantic makes from names."""
    words: dict[str, str] = {}
    if model is not None:
        fields = model.model_fields
        words = {fields[name].alias or name: said for name, said in field_words(model).items()}
    definition.pop("title", None)
    if "description" in definition:
        described = inspect.cleandoc(definition["description"])
        # An example in Python is for programs, not for files.
        definition["description"] = described.partition("\n\n>>> ")[0]
    for name, schema in definition.get("properties", {}).items():
        schema.pop("title", None)
        if name in words:
            schema["description"] = words[name]
        if "default" in schema:
            schema["default"] = written_span(schema["default"], schema)


def _lenient(schema: Any, reference: str) -> Any:
    """Returns the schema, in which a reference may replace each value except lists and mappings."""
    if isinstance(schema, list):
        return [_lenient(each, reference) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        # More than one branch may fit text that is not known yet.
        ("anyOf" if key == "oneOf" else key): _within(key, value, reference)
        for key, value in schema.items()
        if key != "discriminator"
    }
    if not _is_narrow_leaf(schema):
        return result
    about = {key: result.pop(key) for key in ("description", "default") if key in result}
    return {"anyOf": [result, {"type": "string", "pattern": reference}], **about}


def _within(key: str, value: Any, reference: str) -> Any:
    """Returns a keyword's value; it changes only if it contains schemas."""
    if key in ("properties", "patternProperties", "$defs"):
        return {name: _lenient(each, reference) for name, each in value.items()}
    if key in ("anyOf", "oneOf") and any(
        branch.get("type") == "string" and not _is_narrow_leaf(branch) for branch in value
    ):
        return [
            branch if _is_narrow_leaf(branch) else _lenient(branch, reference) for branch in value
        ]
    if key in ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties"):
        return _lenient(value, reference)
    return value


def _is_narrow_leaf(schema: Schema) -> bool:
    """Returns True if a schema accepts single values, but not any text."""
    if "const" in schema or "enum" in schema:
        return True
    narrow = {"pattern", "format", "minLength", "maxLength"} & schema.keys()
    return schema.get("type") in _LEAVES and (schema["type"] != "string" or bool(narrow))

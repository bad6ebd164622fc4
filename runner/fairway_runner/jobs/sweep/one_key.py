"""A mapping whose one key says what it is, as `{grid: …}` and `{uniform: [0, 1]}` do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator
from pydantic_core import core_schema

from fairway_core.documents import FieldError, Model

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler


class OneKey(Model):
    """Base of models of which exactly one field is set.

    >>> class Shape(OneKey):
    ...     noun = "a shape"
    ...     circle: float | None = None
    >>> Shape(circle=2).key, Shape(circle=2).value
    ('circle', 2.0)
    """

    noun: ClassVar[str]

    @model_validator(mode="after")
    def _has_one_key(self) -> OneKey:
        found = [name for name in type(self).model_fields if name in self.model_fields_set]
        known = ", ".join(type(self).model_fields)
        if not found:
            raise FieldError(f"{self.noun} has one key, this has none", f"one of: {known}")
        if len(found) > 1:
            listed = " and ".join(f"`{name}`" for name in found)
            message = f"{self.noun} has one key, this has {listed}"
            raise FieldError(message, "keep one of them", (found[1],))
        if getattr(self, found[0]) is None:
            message = f"`{found[0]}` has no value"
            raise FieldError(message, "give it a value or remove the key", (found[0],))
        return self

    @property
    def key(self) -> str:
        """The name of the field that is set."""
        return next(iter(self.model_fields_set))

    @property
    def value(self) -> Any:
        """What the field is set to."""
        return getattr(self, self.key)


@dataclass(frozen=True)
class Called:
    """Annotates a model with the words for what was expected where there is no mapping.

    >>> Annotated[Shape, Called("a shape such as {circle: 2}")]  # doctest: +SKIP
    """

    words: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """A union of the one model, because a union lets the error be worded."""

        def shape(value: Any) -> str | None:
            return self.words if isinstance(value, Mapping | Model) else None

        return core_schema.tagged_union_schema(
            {self.words: handler(source)},
            discriminator=shape,
            custom_error_type="shape",
            custom_error_message=self.words,
        )

"""Options whose values need no pydantic, which takes longer to import than most commands run.

Typer builds a pydantic adapter for each option of a command, though most are words, or are not
given at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = (str, int, float, bool)


class PlainValue:
    """Stands before an option's adapter: what has the option's type already passes as it is.

    Anything else, such as the digits of a number, is Typer's to read or to refuse.
    """

    def __init__(self, option: Any) -> None:
        self._annotation: Any = option.type_descriptor.annotation
        self._adapter = option.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The option's value; Typer's BadParameter where it is none."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if get_origin(self._annotation) is list:
            if isinstance(value, (list, tuple)) and _all_are(get_args(self._annotation)[0], value):
                return list(value)
        elif _all_are(self._annotation, [value]):
            return value
        return self._adapter().coerce(value, param=param, ctx=ctx)


def _all_are(kind: Any, values: Sequence[Any]) -> bool:
    return kind in _PLAIN and all(type(each) is kind for each in values)


def take_plainly(command: Any) -> None:
    """Lets the command read its options, `--help` too, without pydantic where they do not need it.

    Those of an earlier Typer, which has no such adapters, are left as they are.
    """
    every = command.get_params

    def get_params(ctx: Any) -> Any:
        options = every(ctx)
        for option in options:
            if _has_adapter(option):
                plain = PlainValue(option)
                option.get_runtime_param = lambda plain=plain: plain
        return options

    command.get_params = get_params


def _has_adapter(option: Any) -> bool:
    """Whether Typer would build one; not where a function of the option's own reads its value."""
    given = "get_runtime_param" in vars(option)
    kind = getattr(option, "type_descriptor", None)
    return not given and kind is not None and kind.parameter_info.parser is None

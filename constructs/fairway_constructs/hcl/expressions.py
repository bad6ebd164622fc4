"""Values of Terraform's JSON as expressions of HCL, in the layout of `terraform fmt`.

A string is a template. One that is one expression, `${azurerm_subnet.compute.id}`, becomes that
expression; a text of several lines becomes a heredoc; any other is a quoted string.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WIDTH = 100
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]*")
_KEYWORDS = frozenset({"for", "true", "false", "null"})
_PLACEHOLDER = re.compile(r'"@@\d+@@"')
_CALL = re.compile(r"(\w+)\(")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')
_OPENING, _CLOSING = "([{", ")]}"
# Characters that a heredoc would not preserve.
_NOT_IN_HEREDOC = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def expression(value: Any, indent: str, *, literal: bool = False) -> str:
    """Returns the value as an expression; lines after its first begin with `indent`.

    Where Terraform evaluates nothing, a `literal` has neither templates nor calls.

    >>> print(expression({"a": 1, "long": ["${b.id}", "c"]}, ""))
    {
      a    = 1
      long = [b.id, "c"]
    }
    >>> print(expression("${a}\\n", "", literal=True))
    "$${a}\\n"
    """
    inner = f"{indent}  "
    match value:
        case str() if literal:
            return f'"{quoted(escaped(value))}"'
        case str():
            return string(value, indent)
        case dict() if value:
            pairs = (
                (
                    _key(escaped(name) if literal else name),
                    expression(each, inner, literal=literal),
                )
                for name, each in value.items()
            )
            return "\n".join(["{", *assignments(pairs, inner), f"{indent}}}"])
        case list():
            return sequence([_item(each, inner, literal=literal) for each in value], indent)
        case _:
            return json.dumps(value)


def _item(value: Any, indent: str, *, literal: bool) -> str:
    """Returns the value as an item of a list, in which no comma can follow a heredoc."""
    text = expression(value, indent, literal=literal)
    return f'"{quoted(value)}"' if text.startswith("<<") else text


def sequence(items: list[str], indent: str) -> str:
    """Returns a list of expressions, on one line if they fit."""
    line = f"[{', '.join(items)}]"
    if len(indent + line) <= _WIDTH and "\n" not in line:
        return line
    return "\n".join(["[", *(f"{indent}  {item}," for item in items), f"{indent}]"])


def _key(name: str) -> str:
    if _IDENTIFIER.fullmatch(name) and name not in _KEYWORDS:
        return name
    is_expression = len(split(name)) == 1 and name.startswith("${")
    return f"({name[2:-1]})" if is_expression else f'"{quoted(name)}"'


def assignments(pairs: Iterable[tuple[str, str]], indent: str) -> Iterator[str]:
    """Yields lines `name = value`; the signs of consecutive lines are aligned."""
    column: list[tuple[str, str]] = []
    for name, value in pairs:
        if "\n" not in value or value.startswith("<<"):
            column.append((name, value))
        else:  # the value's brackets span several lines
            yield from _aligned(column, indent)
            yield f"{indent}{name} = {value}"
            column = []
    yield from _aligned(column, indent)


def _aligned(column: list[tuple[str, str]], indent: str) -> Iterator[str]:
    width = max((len(name) for name, _ in column), default=0)
    for name, value in column:
        yield f"{indent}{name:<{width}} = {value}"


def string(text: str, indent: str) -> str:
    """Returns the template as an expression; lines after its first begin with `indent`.

    >>> print(string("${azurerm_subnet.compute.id}", ""))
    azurerm_subnet.compute.id
    >>> print(string('say "${local.name}"', ""))
    "say \\"${local.name}\\""
    >>> print(string('${base64gzip(base64decode("I2EKYgo="))}', ""))
    base64gzip(<<-EOT
      #a
      b
      EOT
    )
    """
    parts = split(text)
    if len(parts) == 1 and parts[0].startswith("${") and not parts[0].startswith("${~"):
        inner = parts[0][2:-1].strip()
        return _with_texts(inner, indent)
    return _heredoc(text, indent) or f'"{quoted(text)}"'


def base64_text(encoded: str, indent: str) -> str:
    """Returns the expression for a readable text in base64; "" for any other.

    >>> print(base64_text("I2EKYgo=", ""))
    base64encode(<<-EOT
      #a
      b
      EOT
    )
    """
    text = _decoded(encoded)
    return _call("base64encode", text, indent) if text is not None else ""


def hashed_text(text: str) -> str | None:
    """Returns the template whose MD5 the expression is, as `md5_of` writes it, or None.

    >>> hashed_text('${md5(join("", ["a ", local.b]))}')
    'a ${local.b}'
    """
    name, arguments = _arguments(text[2:-1])
    name, arguments = _arguments(arguments[0]) if name == "md5" else ("", [])
    if name != "join" or len(arguments) != 2 or arguments[0] != '""':
        return None
    parts = _between_commas(arguments[1][1:-1])
    return "".join(
        json.loads(part) if part.startswith('"') else f"${{{part}}}"
        for part in map(str.strip, parts)
    )


def quoted(text: str) -> str:
    r"""Returns the template's form between quotes: expressions as they are, the rest escaped.

    >>> quoted('a\tb ${upper("c")}')
    'a\\tb ${upper("c")}'
    """
    return "".join(
        part
        if part.startswith(("${", "%{"))
        else _ESCAPED.sub(lambda m: _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}", part)
        for part in split(text)
    )


def split(text: str) -> list[str]:
    """Returns the literal parts of a template, and its expressions with `${` and `}` around them.

    >>> split("a $${b} ${c}")
    ['a $${b} ', '${c}']
    """
    parts, start, position = [], 0, 0
    while position < len(text):
        if text.startswith(("$${", "%%{"), position):
            position += 3
        elif text.startswith(("${", "%{"), position):
            end = _end(text, position + 1)
            parts += [text[start:position], text[position:end]]
            start = position = end
        else:
            position += 1
    return [part for part in (*parts, text[start:]) if part]


def _end(text: str, position: int) -> int:
    """Returns the position after the bracket that closes the one at `position`."""
    depth = 0
    while position < len(text):
        if text[position] == '"':
            position = _end_of_string(text, position)
            continue
        depth += (text[position] in _OPENING) - (text[position] in _CLOSING)
        position += 1
        if not depth:
            break
    return position


def _end_of_string(text: str, position: int) -> int:
    """Returns the position after the quotes that close those at `position`."""
    position += 1
    while position < len(text) and text[position] != '"':
        if text.startswith(("$${", "%%{"), position):
            position += 3
        elif text.startswith(("${", "%{"), position):
            position = _end(text, position + 1)
        else:
            position += 2 if text[position] == "\\" else 1
    return position + 1


def _with_texts(expression: str, indent: str) -> str:
    """Returns the expression, with a long text in it as a heredoc: alone, or as the argument of
    `base64encode` or `base64gzip`, as in a machine's cloud-init."""
    text = _text_of(expression)
    if text is not None:
        return _heredoc(text, indent) or expression
    name, arguments = _arguments(expression)
    if name in ("base64encode", "base64gzip") and len(arguments) == 1:
        text = _text_of(arguments[0])
        if text is not None:
            return _call(name, text, indent) or expression
    return expression


def _text_of(expression: str) -> str | None:
    """Returns the template that an expression stands for: a text in base64, with its placeholders
    replaced as in `cloud_init.terraform_text`, or None for any other expression."""
    name, arguments = _arguments(expression)
    if name == "base64decode" and len(arguments) == 1:
        return _decoded(json.loads(arguments[0])) if arguments[0].startswith('"') else None
    if name == "replace" and len(arguments) == 3 and _PLACEHOLDER.fullmatch(arguments[1]):
        text = _text_of(arguments[0])
        value = arguments[2]
        return text and text.replace(json.loads(arguments[1]), f"${{{value}}}")
    return None


def _decoded(encoded: str) -> str | None:
    """Returns the text in base64 as a template without expressions, or None if it is not text."""
    try:
        return escaped(base64.b64decode(encoded, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return None


def escaped(text: str) -> str:
    """Returns the template that stands for a text without expressions."""
    return text.replace("${", "$${").replace("%{", "%%{")


def _arguments(expression: str) -> tuple[str, list[str]]:
    """Returns the name and the arguments of a call; no name for any other expression."""
    called = _CALL.match(expression)
    if not called or _end(expression, called.end() - 1) != len(expression):
        return "", []
    return called[1], [each.strip() for each in _between_commas(expression[called.end() : -1])]


def _between_commas(text: str) -> Iterator[str]:
    start = position = 0
    while position < len(text):
        if text[position] == '"':
            position = _end_of_string(text, position)
        elif text[position] in _OPENING:
            position = _end(text, position)
        else:
            if text[position] == ",":
                yield text[start:position]
                start = position + 1
            position += 1
    yield text[start:]


def _call(name: str, text: str, indent: str) -> str:
    """Returns a call with a heredoc, or "" if the text cannot be one."""
    heredoc = _heredoc(text, indent)
    if not heredoc:
        return ""
    inner = heredoc.removeprefix("chomp(").removesuffix(f"\n{indent})")
    closing = "))" if heredoc != inner else ")"
    opening = f"{name}(chomp(" if heredoc != inner else f"{name}("
    return f"{opening}{inner}\n{indent}{closing}"


def _heredoc(text: str, indent: str) -> str:
    """Returns the template as a heredoc, or "" for one line or characters that would not survive.

    A heredoc ends in a newline, which `chomp` removes.
    """
    lines = text.removesuffix("\n").split("\n")
    if len(lines) < 2 or _NOT_IN_HEREDOC.search(text) or text.endswith("\n\n"):
        return ""
    filled = [line for line in lines if line.strip()]
    # Terraform strips the common indentation: one line has to begin with no spaces.
    flush = any(not line[:1].isspace() for line in filled)
    margin = f"{indent}  " if flush else ""
    marker = "EOT"
    while any(line.strip() == marker for line in lines):
        marker += "_"
    body = "\n".join(margin + line if line.strip() else line for line in lines)
    heredoc = f"<<{'-' if flush else ''}{marker}\n{body}\n{margin}{marker}"
    return heredoc if text.endswith("\n") else f"chomp({heredoc}\n{indent})"

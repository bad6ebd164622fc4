"""YAML parser that returns plain data, with the location of every key and value.

Reads the JSON-like core of YAML 1.2 with anchors and merge keys, and refuses what a configuration
file does not need: tags, duplicate keys, infinities, and aliases that expand without end. All
failures are `UserError`s that point at the offending text.
"""

from __future__ import annotations

import math
import re
from dataclasses import field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from fairway_agent.quick import dataclass
from fairway_core.findings import Finding, Location, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ruamel.yaml.composer import Composer
    from ruamel.yaml.nodes import Node, ScalarNode
    from ruamel.yaml.reader import Reader


# Usual fixes, by a part of the problem as the YAML library words it.
_HINTS = {
    r"'\t'": "indent with spaces",
    "mapping values are not": "indent it as its neighbours, or quote text that has `: ` in it",
    "could not find expected ':'": "write `key: value`, with a space after the colon",
    "undefined alias": "name an `&anchor` above it, or quote the `*`",
    "cannot start any token": "put the text in quotes",
    "unknown escape": r"write \\ for \, or put the text in single quotes",
    "unexpected end of stream": "close the quote that is open here",
    "<stream end>": "close the bracket that is open here",
}
_USUAL = "look at its indentation, brackets and quotes"

DEEP = "lists or mappings are nested too deeply"
FLATTER = "write it with fewer levels"


DataPath = tuple[str | int, ...]
"""The path of a value in plain data: mapping keys and list positions from the root."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = {_TAG + name for name in ("null", "bool", "int", "float", "str", "timestamp")}
_PLAIN_TAGS |= {_TAG + name for name in ("map", "seq", "merge")}

# Aliases may repeat parts of a document, but not to ten times its own size.
_ALIAS_ALLOWANCE = 10_000
_ALIAS_FACTOR = 10

# Far more than any file needs, and few enough for recursive code that walks the data later.
_DEEPEST = 64
# The largest power of two below the maximum of a float.
_LONGEST_INTEGER = 1023

_EMPTY = "to start with an example: fairway init FOLDER"
_LINE_END = re.compile("\r\n|\r|\n")
# Characters of YAML that `isprintable` refuses, for `translate`.
_SPACES = str.maketrans("\t\n\r", "   ")


@dataclass(frozen=True)
class Mark:
    """A stretch of one line: `line` and `column` count from 1, `length` is in characters."""

    line: int
    column: int
    length: int


@dataclass
class YamlText:
    """Plain data and its source locations; `keys` and `values` map paths to marks."""

    file: str
    source: str
    data: Any = None
    keys: dict[DataPath, Mark] = field(default_factory=dict)
    values: dict[DataPath, Mark] = field(default_factory=dict)

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines without line ends, split as YAML does."""
        return _LINE_END.split(self.source)

    def location(self, mark: Mark) -> Location:
        """Returns the location of a mark, with its file and its line's text, for findings."""
        text = self.lines[mark.line - 1] if mark.line <= len(self.lines) else ""
        return Location(self.file, mark.line, mark.column, text, mark.length)


def parse_yaml(text: str, file: str) -> YamlText:
    """Parses one YAML document; `file` is only a name for messages. Raises UserError for anything
    but a single document of plain data."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.reader import ReaderError

    result = YamlText(file, text)
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer, yaml.Reader = _composer(), _reader()
    try:
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1, 1) if at else Mark(1, 1, 1)
        problem = str(error.problem or error.context)
        if problem == DEEP:
            _fail(result, "yaml-nesting", DEEP, mark, FLATTER)
        hint = next((hint for part, hint in _HINTS.items() if part in problem), _USUAL)
        _fail(result, "yaml-syntax", f"this is not YAML: {problem}", mark, hint)
    except ReaderError as error:
        mark = _mark_at(text, error.position)
        message = f"this is not YAML: it holds the character U+{ord(text[error.position]):04X}"
        _fail(result, "yaml-syntax", message, mark, "remove it, or write it as an escape")
    except (ValueError, OverflowError):
        # The reader has no error of its own for this, and so no location.
        found = re.search(r"\\U(?!000|0010)", text)
        mark = _mark_at(text, found.start() if found else 0)
        message = "this is not YAML: an escape beyond Unicode"
        _fail(result, "yaml-syntax", message, mark, "remove it")
    except YAMLError as error:
        reason = str(error).splitlines()[0]
        _fail(result, "yaml-syntax", f"this is not YAML: {reason}", Mark(1, 1, 1), _USUAL)
    if "!" in text:
        _refuse_tags(result)
    if root is None:
        raise UserError([Finding("empty-file", f"{file}: the file is empty", _EMPTY)])
    try:
        result.data = _Reader(result).read(root, ())
    except RecursionError:
        _fail(result, "yaml-nesting", DEEP, Mark(1, 1, 1), FLATTER)
    return result


@cache
def _reader() -> type[Reader]:
    """Returns a reader that searches only text with unusual characters for those that YAML forbids:
    to compile the library's pattern takes as long as to parse a short file."""
    from ruamel.yaml.reader import Reader

    class Quick(Reader):
        def check_printable(self, data: Any) -> None:
            if not data.translate(_SPACES).isprintable():
                super().check_printable(data)

    return Quick


@cache
def _composer() -> type[Composer]:
    """Returns a composer that stops at the first level that is too deep: in the library's own, each
    bracket takes time for all that are open, until Python's stack overflows."""
    from ruamel.yaml.composer import Composer, ComposerError
    from ruamel.yaml.events import CollectionStartEvent

    class Shallow(Composer):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.depth >= _DEEPEST and self.parser.check_event(CollectionStartEvent):
                start = self.parser.peek_event().start_mark
                raise ComposerError(problem=DEEP, problem_mark=start)
            return super().compose_node(parent, index)

    return Shallow


def _fail(text: YamlText, id: str, message: str, mark: Mark, hint: str) -> NoReturn:  # noqa: A002
    raise UserError([Finding(id, message, hint, location=text.location(mark))])


def _refuse_tags(text: YamlText) -> None:
    """Raises UserError for any tag, even `!!int 3`, which only events distinguish from `3`."""
    from ruamel.yaml import YAML

    for event in YAML(typ="safe", pure=True).parse(text.source):
        if tag := getattr(event, "tag", None):
            start = event.start_mark
            mark = Mark(start.line + 1, start.column + 1, 1)
            shown = str(tag).replace(_TAG, "!!")
            message = f"the YAML tag `{shown}` is not allowed"
            _fail(text, "yaml-tag", message, mark, "remove the tag")


def unfit_character(text: str) -> str | None:
    """Returns the name of the first character that cannot be passed to a program, or None."""
    if text.isascii() and "\0" not in text:
        return None  # much faster: there are scripts of very many tasks
    found = re.search("[\x00\ud800-\udfff]", text)
    return f"U+{ord(found[0]):04X}" if found else None


def _mark_at(text: str, position: int) -> Mark:
    before = _LINE_END.split(text[:position])
    return Mark(len(before), len(before[-1]) + 1, 1)


def _mark(node: Node) -> Mark:
    start, end = node.start_mark, node.end_mark
    length = end.column - start.column if end.line == start.line else 1
    return Mark(start.line + 1, start.column + 1, max(1, length))


class _Reader:
    """A converter from composed nodes to plain data that records marks."""

    def __init__(self, text: YamlText) -> None:
        self._text = text
        self._distinct: set[int] = set()
        self._open: set[int] = set()
        self._visits = 0

    def read(self, node: Node, path: DataPath) -> Any:
        from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

        self._count(node)
        nothing = node.start_mark.index == node.end_mark.index
        # A missing value has the mark of the next line: the mark of its key is better.
        mark = self._text.keys.get(path) if nothing else None
        self._text.values.setdefault(path, mark or _mark(node))
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if len(path) >= _DEEPEST:
            self._fail("yaml-nesting", DEEP, node, FLATTER)
        if id(node) in self._open:
            hint = "write out what it refers to"
            self._fail("alias-cycle", "this alias contains itself", node, hint)
        self._open.add(id(node))
        value: Any = None
        if isinstance(node, MappingNode):
            value = self._mapping(node, path, {})
        elif isinstance(node, SequenceNode):
            value = [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.discard(id(node))
        return value

    def _count(self, node: Node) -> None:
        if str(node.tag) not in _PLAIN_TAGS:
            tag = str(node.tag).replace(_TAG, "!!")
            self._fail("yaml-tag", f"the YAML tag `{tag}` is not allowed", node, "remove the tag")
        self._distinct.add(id(node))
        self._visits += 1
        if self._visits > _ALIAS_FACTOR * len(self._distinct) + _ALIAS_ALLOWANCE:
            message = "aliases expand to far more than the file itself"
            self._fail("alias-bomb", message, node, "write out what you need of it")

    def _mapping(
        self, node: Node, path: DataPath, into: dict[str, Any], *, merged: bool = False
    ) -> dict[str, Any]:
        """Adds the keys of a mapping, then those of its merge keys; a `merged` mapping adds only
        missing keys."""
        from ruamel.yaml.nodes import MappingNode

        if not isinstance(node, MappingNode):
            message = "`<<` takes a mapping or a list of mappings"
            self._fail("bad-merge", message, node, "for example `<<: *anchor`")
        sources: list[Node] = []
        for key_node, value_node in node.value:
            self._count(key_node)
            if str(key_node.tag) == _TAG + "merge":
                several = str(value_node.tag) == _TAG + "seq"
                sources += value_node.value if several else [value_node]
                continue
            key = self._key(key_node)
            if key in into:
                if merged:
                    continue
                first = self._text.keys[*path, key].line
                hint = f"the first is in line {first}: keep one of the two"
                self._fail("duplicate-key", f"the key `{key}` is repeated here", key_node, hint)
            self._text.keys[*path, key] = _mark(key_node)
            into[key] = self.read(value_node, (*path, key))
        for source in sources:
            self._count(source)
            self._mapping(source, path, into, merged=True)
        return into

    def _key(self, node: Node) -> str:
        from ruamel.yaml.nodes import ScalarNode

        if not isinstance(node, ScalarNode) or str(node.tag) != _TAG + "str":
            hint = "write a word before the colon"
            if isinstance(node, ScalarNode):
                hint = f'write "{node.value}"'
            self._fail("bad-key", "a key must be text", node, hint)
        return self._string(str(node.value), node)

    def _scalar(self, node: ScalarNode) -> Any:
        text = str(node.value)
        match str(node.tag).removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                if text.lower() not in ("true", "false"):
                    message = f"`{text}` is neither true nor false"
                    self._fail("bad-boolean", message, node, "quote it")
                return text.lower() == "true"
            case "int":
                return self._integer(text, node)
            case "float":
                try:
                    value = float(text.replace("_", ""))
                except ValueError:
                    value = math.nan
                if not math.isfinite(value):
                    message = f"`{text}` is not a finite number"
                    self._fail("bad-number", message, node, "write a number, or quote it")
                return value
            case _:
                return self._string(text, node)

    def _string(self, text: str, node: ScalarNode) -> str:
        # JSON escapes a character beyond U+FFFF as a surrogate pair, which is joined here.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        if character := unfit_character(text):
            message = f"the text holds the character {character}"
            self._fail("bad-character", message, node, "remove it")
        return text

    def _integer(self, text: str, node: ScalarNode) -> int:
        digits = text.replace("_", "")
        try:
            # A number with a leading zero is decimal in YAML 1.2; one with 0x or 0o is not.
            base = 0 if digits.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else 10
            # Python itself refuses to read very many digits.
            value = int(digits, base) if len(digits) <= _LONGEST_INTEGER else None
        except ValueError:
            self._fail("bad-number", f"`{text[:40]}` is not a whole number", node, "quote it")
        if value is None or value.bit_length() > _LONGEST_INTEGER:
            self._fail("bad-number", f"`{text[:40]}…` is too large a number", node, "quote it")
        return value

    def _fail(self, id: str, message: str, node: Node, hint: str) -> NoReturn:  # noqa: A002
        _fail(self._text, id, message, _mark(node), hint)


def nearest_mark(path: DataPath, *tables: Mapping[DataPath, Mark]) -> Mark | None:
    """Returns the mark of the path, or of its nearest ancestor that has one."""
    for end in range(len(path), -1, -1):
        for table in tables:
            if path[:end] in table:
                return table[path[:end]]
    return None

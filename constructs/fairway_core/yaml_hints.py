"""What to do about a file that is not YAML, by the words of the library that reads it."""

from __future__ import annotations

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
USUAL = "look at its indentation, brackets and quotes"
"""What it is mostly, where the library does not say."""

DEEP = "lists or mappings are nested too deeply"
FLATTER = "write it with fewer levels"


def syntax_hint(problem: str) -> str:
    """What is mostly meant by what the library says of a place in the text.

    >>> syntax_hint("found undefined alias 'x'")
    'name an `&anchor` above it, or quote the `*`'
    """
    return next((hint for part, hint in _HINTS.items() if part in problem), USUAL)

"""Words that readers stumbled over stay out of docs, help, docstrings and comments."""

import re
from pathlib import Path

import pytest

_WORDS = re.compile(
    r"\b(?:whoever|so\s+many(?!\s+that)|lets\s+in|of\s+one's\s+own|bears"
    r"|mends?|small\s+letters|exclude\s+each\s+other|called\s+otherwise|is\s+no\s+way"
    r"|goes\s+by\s+roles|heard\s+about|none\s+of\s+something|everything\s+stands"
    r"|terraform\s+stop|locks?\s+less|set\s+against|there\s+already|as\s+far\s+as|the\s+same\s+of"
    r"|that\s+is\s+none\s+of"
    # As in two roles' descriptions, which are part of the Terraform of deployed environments.
    r"|stands?\s+in(?!\s+for\b|\s+this\s+(?:subnet|placement\s+group)))\b",
    re.IGNORECASE,
)
# A docstring makes sense without the one above it.
_OPENINGS = re.compile(r'"""(?:What|Whether|Where|How|The\s+same|Those|That)\b')
_FOLDERS = ("constructs", "docs", "examples", "runner", "simulators", "stacks", "tests")
_AZURES = "constructs/fairway_constructs/azurerm/"


def _found(text: str) -> list[str]:
    return [" ".join(match[0].split()) for match in _WORDS.finditer(text)]


@pytest.fixture(scope="module")
def texts(repository: Path) -> dict[str, str]:
    """Returns the text of every module and page by path, except this module and generated ones."""
    files = [
        file
        for folder in _FOLDERS
        for suffix in ("py", "md")
        for file in (repository / folder).rglob(f"*.{suffix}")
        if not str(file.relative_to(repository)).startswith(_AZURES) and file != Path(__file__)
    ]
    files += [repository / "README.md", repository / "CONTRIBUTING.md"]
    assert len(files) > 500
    return {str(file.relative_to(repository)): file.read_text(encoding="utf-8") for file in files}


def test_banned_words_appear_nowhere(texts: dict[str, str]) -> None:
    assert not {path: words for path, text in texts.items() if (words := _found(text))}


def test_words_at_the_start_of_docstrings_name_their_subject(texts: dict[str, str]) -> None:
    assert not {path: found for path, text in texts.items() if (found := _OPENINGS.findall(text))}


FOUND = ("Whoever asks", "small\n  letters", "they exclude each other", "the newest\n  so many.")
FOUND += ("one that bears it", "it lets in", "called\n  otherwise", "lets Terraform stop")
FOUND += (
    "it stands\n  in no network",
    "as far as known",
    "is there already",
    "does the same of it",
)
FOUND += ("a value that is none of\n  them",)
OTHERS = ("who asks", "so many that it fails", "the bear", "let in", "Terraform stops", "locked")
OTHERS += ("it stands in for a host", "a field that is None", "the same as this", "already there")


@pytest.mark.parametrize("text", [*FOUND, *OTHERS])
def test_banned_word_is_found_in_any_case_and_across_lines(text: str) -> None:
    assert bool(_found(text)) is (text in FOUND)

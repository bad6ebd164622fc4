"""Every pattern of the checks reads a text in a time that grows no faster than the text.

The texts repeat what a pattern could begin with again and again. A pattern that reads on from
each of these to the end needs hours, and is ended by the limit on processor time.
"""

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from programs import finished

from fairway_core import checks, secret_values

_LIMITED = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
given = json.load(sys.stdin)
texts = [piece * (given["size"] // len(piece)) for piece in given["pieces"]]
"""
_SEARCH = """
pattern = re.compile(given["pattern"], given["flags"])
for text in texts:
    for found in pattern.finditer(text):
        pass
"""
_CHECK = """
from fairway_core.checks import check_job
from fairway_core.target import NodeRange, SlurmAccess, Target
access = SlurmAccess(host="h", user="u", partition="nd", shared="/data/fairway")
target = Target(name="nd", engine="slurm", nodes=NodeRange(min=0, max=16), slurm=access)
for text in texts:
    job = {"name": "a", "command": text, "setup": {"command": text, "release": text}, "nodes": 2}
    job |= {"finally": {"command": text}, "env": {"A": text}, "params": {"a": text, "b": [text]}}
    check_job(job, target)
"""
_PLAIN = ["a", "0f", "\n", "; a=1 ", "a=1\n", "exec ", "export ", "${", "# "]


def _patterns_of(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _patterns_of(each)


def _patterns() -> list[Any]:
    """The patterns that a module of the checks keeps, and those by which checks of a plan
    know a secret."""
    names = [each.name for each in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}.")]
    modules = [secret_values, *map(importlib.import_module, names)]
    found = {
        (module.__name__, name): value for module in modules for name, value in vars(module).items()
    }
    return [
        pytest.param(pattern, id=f"{module.rpartition('.')[2]}-{name}-{number}")
        for (module, name), value in found.items()
        for number, pattern in enumerate(_patterns_of(value))
    ]


def _pieces(pattern: str, ends: list[str]) -> list[str]:
    """Texts that a match could begin with: the pattern's own words, before each of these ends."""
    words = (word.replace("\\", "") for word in re.findall(r"(?:\\\W|[\w./$-])+", pattern))
    return [*_PLAIN, *(word + end for word in words if word for end in ends)]


def _run(code: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-c", _LIMITED + code], input=json.dumps(given))


@pytest.mark.parametrize("pattern", _patterns())
@pytest.mark.parametrize("ends", [["="], pytest.param(["", " "], marks=pytest.mark.nightly)])
@pytest.mark.integration
def test_a_pattern_over_a_long_text_reads_it_once(
    pattern: re.Pattern[str], ends: list[str]
) -> None:
    """Its words as names; every night alone and among others, too."""
    pieces = _pieces(pattern.pattern, ends)
    done = _run(
        _SEARCH, pattern=pattern.pattern, flags=int(pattern.flags), pieces=pieces, size=100_000
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.integration
def test_checks_of_a_job_with_long_texts_read_them_once() -> None:
    done = _run(_CHECK, pieces=_PLAIN, size=100_000)
    assert (done.returncode, done.stderr) == (0, "")

"""Every pattern of the checks searches a text in time linear in its length.

The texts repeat possible beginnings of a match many times. A pattern that scans to the end from
each of these would need hours, and is ended by the limit on processor time.
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

from fairway_core import checks, plain_secrets, secret_values

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
    """Returns the patterns in modules of the checks, and those that recognize secrets."""
    names = [each.name for each in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}.")]
    modules = [plain_secrets, secret_values, *map(importlib.import_module, names)]
    found = {
        (module.__name__, name): value for module in modules for name, value in vars(module).items()
    }
    return [
        pytest.param(pattern, id=f"{module.rpartition('.')[2]}-{name}-{number}")
        for (module, name), value in found.items()
        for number, pattern in enumerate(_patterns_of(value))
    ]


def _pieces(pattern: str, ends: list[str]) -> list[str]:
    """Returns possible beginnings of a match: the pattern's literal words before each of `ends`."""
    words = (word.replace("\\", "") for word in re.findall(r"(?:\\\W|[\w./$-])+", pattern))
    return [*_PLAIN, *(word + end for word in words if word for end in ends)]


def _run(code: str, **given: Any) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-c", _LIMITED + code], input=json.dumps(given))


@pytest.mark.parametrize("pattern", _patterns())
@pytest.mark.parametrize("ends", [["="], pytest.param(["", " "], marks=pytest.mark.nightly)])
@pytest.mark.integration
def test_patterns_search_long_text_in_linear_time(
    pattern: re.Pattern[str], ends: list[str]
) -> None:
    """Usually tests the pattern's words as names; the nightly run also tests them otherwise."""
    pieces = _pieces(pattern.pattern, ends)
    done = _run(
        _SEARCH, pattern=pattern.pattern, flags=int(pattern.flags), pieces=pieces, size=100_000
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.integration
def test_patterns_of_job_checks_read_long_text_in_linear_time() -> None:
    done = _run(_CHECK, pieces=_PLAIN, size=100_000)
    assert (done.returncode, done.stderr) == (0, "")

"""Lets tests of the agent run on the oldest Python of hosts, which has nothing but the agent."""

import re
import sys
from pathlib import Path

_OTHER_PACKAGES = re.compile(r"^ *(?:from|import) fairway_(?!agent\b)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leaves out the modules that import what needs a later Python."""
    if sys.version_info >= (3, 11):  # noqa: UP036 (hosts have 3.10)
        return None
    files = [collection_path, collection_path / "conftest.py"]
    if any(each.is_file() and _OTHER_PACKAGES.search(each.read_text("utf-8")) for each in files):
        return True
    return None

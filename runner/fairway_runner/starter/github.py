"""The workflows of a project: those of Fairway's own repository, with the commands of the wheel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve()
# In a wheel, and in the repository.
_FOLDERS = (_HERE.with_name("workflows"), _HERE.parents[3] / ".github/workflows")

NAMES = ("comment", "deploy", "drift", "plan")
"""Those that a project has, without `.yml`; Fairway's own tests are no matter of it."""

_PYTHON = r"( +)- uses: actions/setup-python@.*\n +with:\n +python-version: .*\n"
_INSTALL = r"\g<0>\1- run: pip install -r requirements.txt\n"

_CHANGES = (
    # What a script of the repository does, a program of the wheel does.
    (r"\bbin/fairway ", "fairway "),
    (_PYTHON, _INSTALL),
    # A project holds environments, and Fairway is what its requirements name.
    (r"( +- )stacks/\*\*\n +- constructs/\*\*\n", r"\1environments/**\n\1requirements.txt\n"),
    (r" +- (bin|runner|simulators|requirements)/\*\*\n", ""),
    (r" +- pyproject.toml\n", ""),
    (r"env:\n  FAIRWAY_REQUIREMENTS: .*\n\n", ""),
    (r"docs/pull-requests\.md", "README.md"),
)


def workflows(environment: str) -> Iterator[tuple[Path, str]]:
    """Each workflow of a project with that environment, by its path in the project."""
    folder = next(folder for folder in _FOLDERS if folder.is_dir())
    for name in NAMES:
        text = (folder / f"{name}.yml").read_text(encoding="utf-8")
        for pattern, replacement in _CHANGES:
            text = re.sub(pattern, replacement, text)
        text = text.replace("""'["demo"]'""", f"""'["{environment}"]'""")
        yield Path(".github/workflows", f"{name}.yml"), text

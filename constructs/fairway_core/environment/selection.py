"""Which environment is meant: a file, or the name of one that comes with Fairway."""

from __future__ import annotations

import os
from pathlib import Path

from fairway_core.findings import UserError

VARIABLE = "FAIRWAY_ENVIRONMENT"
DEFAULT = "demo"

_ROOT = Path(__file__).resolve().parents[2]

# In the repository, and in a wheel, where the four packages lie side by side.
_FOLDERS = (_ROOT.parent / "stacks/environments", _ROOT / "fairway_stacks/environments")


def environment_file(choice: str | None = None) -> Path:
    """The file that `choice` (FAIRWAY_ENVIRONMENT by default) names, by path or by name.

    Raises UserError, with the nearest name, where there is neither.

    >>> environment_file("demo").name
    'demo.yaml'
    """
    choice = choice or os.environ.get(VARIABLE) or DEFAULT
    path = Path(choice).expanduser()
    if path.is_file():
        return path
    # What looks like a path is one: `load` then says that it is missing.
    if "/" in choice or path.suffix in (".yaml", ".yml"):
        return path
    known = known_environments()
    if choice in known:
        return known[choice]
    from fairway_core.spelling import did_you_mean

    raise UserError.of(
        "unknown-environment",
        f"no environment is called `{choice}`",
        did_you_mean(choice, known) or "name a file",
    )


def known_environments() -> dict[str, Path]:
    """The environments that come with Fairway, by name."""
    files = (file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml")))
    return {file.stem: file for file in files}

"""Which environment is meant: a file, or the name of one: of the project, or of Fairway."""

from __future__ import annotations

import os
from pathlib import Path

from fairway_core.findings import UserError

VARIABLE = "FAIRWAY_ENVIRONMENT"
DEFAULT = "demo"

_ROOT = Path(__file__).resolve().parents[2]

# In the repository, and in a wheel, where the four packages lie side by side.
_FOLDERS = (_ROOT.parent / "stacks/environments", _ROOT / "fairway_stacks/environments")


def project_folder() -> Path | None:
    """The nearest folder with a cdktf.json: where we are, or above."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if (each / "cdktf.json").is_file()), None)


def environment_file(choice: str | None = None) -> Path:
    """The file that `choice` (FAIRWAY_ENVIRONMENT by default) names, by path or by name.

    A name is looked for in the folder `environments` of the project, which is that of
    cdktf.json, and among those that come with Fairway. Without a choice it is the only
    environment of the project, or the demo where the project has none of its own.

    Raises UserError, with the nearest name, where there is neither.

    >>> environment_file("demo").name
    'demo.yaml'
    """
    choice = choice or os.environ.get(VARIABLE)
    if not choice:
        return _default()
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
    """The project's environments and those that come with Fairway, by name."""
    files = (file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml")))
    return {file.stem: file for file in files} | _own_environments()


def _own_environments() -> dict[str, Path]:
    """The environments of the project that we stand in, by name."""
    project = project_folder()
    if project is None:
        return {}
    return {file.stem: file for file in sorted(project.glob("environments/*.yaml"))}


def _default() -> Path:
    own = _own_environments()
    if len(own) > 1:
        raise UserError.of(
            "no-environment",
            f"the project has {len(own)} environments, and none is chosen",
            f"set {VARIABLE} to one of: {', '.join(own)}",
        )
    return next(iter(own.values()), None) or environment_file(DEFAULT)

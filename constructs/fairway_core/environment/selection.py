"""Selection of an environment: by file, or by the name of one in the project or in Fairway."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from fairway_core.findings import UserError
from fairway_core.project_folder import find_project, from_home, require_trusted

VARIABLE = "FAIRWAY_ENVIRONMENT"

_ROOT = Path(__file__).resolve().parents[2]

# In the repository, and in a wheel, which has the four packages side by side.
_FOLDERS = (_ROOT.parent / "stacks/environments", _ROOT / "fairway_stacks/environments")


def project_folder() -> Path | None:
    """Returns the nearest folder with a cdktf.json, from the current one upwards, or None. Raises
    UserError if somebody else may have put it there: see `require_trusted`."""
    here = Path.cwd()
    folders = (each for each in (here, *here.parents) if (each / "cdktf.json").is_file())
    found = next(folders, None)
    for each in {found or here, here}:
        require_trusted(each, here, "cdktf.json", "environments", "cdktf.out")
    return found


def environment_file(choice: str | None = None) -> Path:
    """Returns the file that `choice` (FAIRWAY_ENVIRONMENT by default) names, by path or by name.

    A name is looked up in the folder `environments` of the project, next to cdktf.json, and among
    the environments that come with Fairway. Without a choice, `environment:` in the project's
    fairway.yaml decides, or the project's only environment is taken.

    Raises UserError if there is none, with the nearest name.
    """
    choice = choice or os.environ.get(VARIABLE)
    if not choice:
        return _default()
    path = from_home(choice)
    if path.is_file():
        return path
    # Text that looks like a path is one: `load` then reports that it is missing.
    if "/" in choice or path.suffix in (".yaml", ".yml"):
        return path
    known = known_environments()
    if choice in known:
        return known[choice]
    from fairway_core.suggestions import did_you_mean

    hint = did_you_mean(choice, known) or "name a file"
    if project_folder() is None:
        hint += "\nyours are in environments/ beside cdktf.json, and there is none here or above"
    raise UserError.of("unknown-environment", f"no environment is called `{choice}`", hint)


def known_environments() -> dict[str, Path]:
    """Returns the project's environments and those that come with Fairway, by name."""
    files = (file for folder in _FOLDERS for file in sorted(folder.glob("*.yaml")))
    return {file.stem: file for file in files} | _own_environments()


def _own_environments() -> dict[str, Path]:
    """Returns the environments of the current project, by name."""
    project = project_folder()
    if project is None:
        return {}
    return {file.stem: file for file in sorted(project.glob("environments/*.yaml"))}


def _default() -> Path:
    if named := _named_by_the_project():
        return named
    own = _own_environments()
    if len(own) > 1:
        raise UserError.of(
            "no-environment",
            f"the project has {len(own)} environments, and none is chosen",
            f"name one of: {', '.join(own)}\nor say which: `environment: {next(iter(own))}` in "
            f"fairway.yaml, or {VARIABLE}",
        )
    if not own:
        raise UserError.of(
            "no-environment",
            "no environment is chosen, and there are no environments/*.yaml beside a cdktf.json",
            f"go to a project, make one with `fairway init NAME`, or set {VARIABLE} "
            f"to a file or to one of: {', '.join(known_environments())}",
        )
    return next(iter(own.values()))


def _named_by_the_project() -> Path | None:
    """Returns the file that `environment:` of fairway.yaml names, relative to fairway.yaml."""
    from fairway_core.documents import read
    from fairway_core.project import Project

    folder, file = find_project()
    if file is None:
        return None
    document = read(file)
    choice = document.validate(Project).environment
    if choice is None:
        return None
    if "/" in choice or choice.endswith((".yaml", ".yml")):
        return folder / from_home(choice)
    try:
        return environment_file(choice)
    except UserError as error:
        location = document.location(("environment",))
        raise UserError([replace(each, location=location) for each in error.findings]) from None

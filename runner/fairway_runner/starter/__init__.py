"""A project to begin with: an environment, a job, and workflows that deploy and check them.

The files are in `files/`, each with `.in` appended to its name; `@NAME@` and the like are replaced.
"""

from fairway_runner.starter.project import Settings, write_project

__all__ = ["Settings", "write_project"]

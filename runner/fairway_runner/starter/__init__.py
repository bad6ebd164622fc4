"""A project to begin with: an environment, a job, and what deploys and checks them.

The files lie in `files/`, each with `.in` behind its name; `@NAME@` and its like are replaced.
"""

from fairway_runner.starter.project import Settings, write_project

__all__ = ["Settings", "write_project"]

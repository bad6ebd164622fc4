"""A project to begin with: an environment, a job, and workflows that deploy and check them.

The files are in `files/`, each with `.in` appended to its name; `@NAME@` and the like are replaced.
"""

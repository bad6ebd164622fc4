"""Facts, specs and rules of Fairway: what the infrastructure and the runner both know.

Imports neither cdktf nor any azure package.
"""

__version__ = "0.1.0"

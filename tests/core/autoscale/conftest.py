"""The interpreter beside this file, as a module."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="session")
def interpreter() -> ModuleType:
    """tests/core/autoscale/interpreter.py."""
    file = Path(__file__).with_name("interpreter.py")
    spec = importlib.util.spec_from_file_location("autoscale_interpreter", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

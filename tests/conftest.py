"""Shared by all tests: where the repository is, and how signals are taken."""

import signal
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository's root."""
    return Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Takes signals as a terminal's programs do, whatever started the tests.

    A shell starts what it puts into the background with SIGINT ignored, and nohup with SIGHUP;
    the programs under test would inherit that, and Ctrl-C would not end them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)

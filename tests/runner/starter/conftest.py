"""A project as `fairway init` writes it."""

from pathlib import Path

import pytest

from fairway_runner.starter import Settings, write_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh project with the environment `lab`."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder, Settings("lab"))
    return folder

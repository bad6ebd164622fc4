"""Environment files that tests load."""

from pathlib import Path
from typing import Any

import pytest

from fairway_core.checks import check_environment
from fairway_core.environment import Environment, load_environment, read_environment
from fairway_core.findings import Finding, UserError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"
"""A public key, which every environment needs."""
SMALLEST = """\
name: lab
location: westeurope
clusters:
  box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}
"""


def load(folder: Path, text: str, **given: Any) -> Environment:
    """Writes `lab.yaml` with that text and returns its environment."""
    file = folder / "lab.yaml"
    file.write_text(text)
    return load_environment(file, **given)


def checked(folder: Path, text: str, **given: Any) -> list[Finding]:
    """Returns the findings of all checks in that file."""
    (file := folder / "lab.yaml").write_text(text)
    loaded = read_environment(file)
    return check_environment(loaded.environment, loaded.document, **given)


def fault(folder: Path, text: str, **given: Any) -> Finding:
    """Returns the only mistake in that file, for which a command would exit with 2."""
    with pytest.raises(UserError) as caught:
        load(folder, text, **given)
    assert caught.value.exit_code == 2
    (finding,) = caught.value.findings
    return finding

"""Messages about invalid values of an environment file, with their lines."""

from pathlib import Path

import pages
import pytest

from fairway_core.environment import load_environment
from fairway_core.findings import UserError, format_finding

AREAS = ("clusters", "filesystems", "kubernetes", "network", "pools", "services", "slurm")
HEAD = "name: lab\nlocation: southcentralus\n"


def errors_of(folder: Path, text: str) -> str:
    """Returns the errors that loading an environment reports."""
    file = folder / "lab.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_environment(file)
    assert caught.value.exit_code == 2
    said = "\n".join(map(format_finding, caught.value.findings))
    return said.replace(f"{folder}/", "").replace(str(folder), ".")


def test_environment_messages_of_impossible_values_equal_golden_page(tmp_path: Path) -> None:
    def answer(text: str) -> tuple[int, str]:
        head = HEAD if text.startswith("zone:") else f"{HEAD}zone: 1\n"
        return 2, errors_of(tmp_path, head + text)

    pages.hold("environments", answer)


@pytest.mark.parametrize("area", AREAS)
def test_environment_messages_of_sections_equal_golden_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, area: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    pages.hold(area, lambda text: (2, errors_of(tmp_path, text)))

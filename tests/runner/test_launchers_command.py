"""`fairway templates`: the list, an explanation, and the same as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from endings import finished

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.integration

OWN = """{#
description: "Mine, and nobody else's."
needs: [make]
options: {level: {type: int, help: "How loud."}}
example: {command: make train}
#}
"""


def fairway(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `fairway templates` in a folder."""
    return finished(
        [Path(sys.executable).with_name("fairway"), "templates", *arguments], cwd=folder
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two templates of its own, one of them broken."""
    own = tmp_path / "job_templates"
    own.mkdir()
    (own / "loud.sh.j2").write_text(OWN)
    (own / "openmpi.sh.j2").write_text("{# description: My own Open MPI. #}\n")
    (own / "broken.sh.j2").write_text("no front matter\n")
    (own / "_shared.sh.j2").write_text("")
    return tmp_path


def test_templates_command_lists_all_templates_by_folder(folder: Path, repository: Path) -> None:
    done = fairway(folder)
    assert (done.returncode, done.stderr) == (0, "")
    own, _, others = done.stdout.partition(f"{repository}/job_templates\n")
    assert own.startswith(f"{folder}/job_templates\n")
    assert "  loud        Mine, and nobody else's.\n" in own
    assert "  openmpi     My own Open MPI.\n" in own
    assert "  broken      cannot be used: " in own
    assert "the template has no description" in own
    assert "_shared" not in done.stdout
    assert "  torchrun    torchrun: one agent on every node" in others
    assert "openmpi " not in others
    assert others.endswith("\nmore of one: fairway templates NAME\n")
    listed = {each["name"]: each for each in json.loads(fairway(folder, "--json").stdout)}
    assert listed["openmpi"]["folder"] == str(folder / "job_templates")
    assert listed["plain"]["folder"] == str(repository / "job_templates")
    assert listed["loud"]["description"] == "Mine, and nobody else's."


def test_template_is_explained(folder: Path) -> None:
    done = fairway(folder, "loud")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Mine, and nobody else's.\n\n"
        f"file     {folder}/job_templates/loud.sh.j2\n"
        "needs    make on the main host's PATH\n\n"
        "  level  (int, required)\n"
        "      How loud.\n\n"
        "A job that uses it:\n\n"
        "  name: example\n"
        "  template: loud\n"
        "  command: make train\n"
        '  options: {level: "<int>"}\n'
    )
    facts = json.loads(fairway(folder, "torchrun", "--json").stdout)
    assert facts["needs"] == ["torchrun"]
    assert facts["options"]["rendezvous"] == {
        "type": "choice",
        "help": facts["options"]["rendezvous"]["help"],
        "default": "c10d",
        "choices": ["c10d", "static"],
    }
    assert "options: {rendezvous: c10d, min_nodes: 0" in facts["job"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("torchrum", "error: there is no template `torchrum` [unknown-template]\n  did you mean"),
        ("broken", "the template has no description"),
        ("../loud", "outside of the job's folder"),
    ],
)
def test_templates_command_refuses_an_unknown_or_broken_template(
    folder: Path, name: str, says: str
) -> None:
    done = fairway(folder, name)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr

"""What the documents show is what happens: the commands of their console blocks are run.

A block that begins with ```console holds lines `$ command` and what they print; `…` stands
for anything. The blocks of one document run one after the other in one folder.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _steps(document: Path) -> list[tuple[str, str]]:
    """Each command of the document with what it is said to print."""
    steps: list[tuple[str, str]] = []
    for block in _BLOCK.findall(document.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            while command.endswith("\\"):
                more, _, printed = printed.partition("\n")
                command = command[:-1] + more.strip()
            steps.append((command, printed))
    return steps


def _pattern(printed: str) -> str:
    return re.escape(printed.strip()).replace("…", ".*?")


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if _steps(d)], ids=lambda d: d.name)
def test_the_commands_of_a_document(document: Path, tmp_path: Path) -> None:
    for entry in ROOT.iterdir():
        if entry.name not in (".fairway", "cdktf.out", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    for command, printed in _steps(document):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        if printed.strip():
            assert re.fullmatch(_pattern(printed), done.stdout.strip(), re.DOTALL), (
                f"$ {command}\nprinted:\n{done.stdout}"
            )


def test_every_link_leads_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"

"""The Python blocks of documents, run one after the other as one program each."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("document", ["python.md", "notebooks.md"])
def test_the_blocks_do_what_they_say(repository: Path, tmp_path: Path, document: str) -> None:
    text = (repository / "docs" / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={k: v for k, v in os.environ.items() if not k.startswith("FAIRWAY_")},
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert done.stdout == ""

"""The Python blocks of documents, run one after the other as one program each."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from programs import finished


@pytest.mark.parametrize(
    "document", ["python.md", "notebooks.md", "howto/use-any-resource.md", "constructs.md"]
)
def test_python_docs_blocks_run_without_errors_or_output(
    repository: Path, tmp_path: Path, document: str
) -> None:
    text = (repository / "docs" / document).read_text(encoding="utf-8")
    for line in re.findall(r"^fairway bindings .*", text, re.MULTILINE):
        schema = repository / "tests/stacks/container_apps.schema.json"
        words = [sys.executable, "-P", "-m", "fairway_cli.entry", *shlex.split(line)[1:]]
        subprocess.run([*words, "--schema", schema], cwd=tmp_path, check=True, timeout=300)
    # The blocks generated from docstrings are incomplete programs.
    written = text.partition("<!-- made by bin/docs")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", written, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        done = finished(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith("FAIRWAY_")},
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert done.stdout == ""

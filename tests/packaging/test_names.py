"""Instructions never install our packages by bare name: an index may hold a stranger's."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

# `fairway` on the Python package index is another project; `fairway-hpc` is not there yet.
_BARE = re.compile(
    r"""pip\s+install\s[^\n#]*?(?<![\w./-])fairway(?:-hpc)?(?:\[[\w,]*\])?["'`]?(?:\s*$|\s+[^@\s])
    | (?<![\w-])fairway\[
    | (?<![\w-])fairway(?:-hpc)?(?:\[[\w,]*\])?\s*(?:==|~=|>=)\s*[\d@]""",
    re.VERBOSE | re.MULTILINE,
)
_FILES = ("README.md", "CONTRIBUTING.md", "pyproject.toml", ".ci/run")
_FOLDERS = (
    *("bin", "constructs", "docs", "examples", "job_templates", "runner", "simulators", "stacks"),
    *(".github", ".devcontainer"),
)
_TEXT = {".in", ".j2", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def test_bare_package_name_is_installed_in_no_file(repository: Path) -> None:
    files = [repository / name for name in _FILES]
    for folder in _FOLDERS:
        files += [f for f in (repository / folder).rglob("*") if f.suffix in _TEXT and f.is_file()]
    assert len(files) > 300
    found = {
        f"{file.relative_to(repository)}: {match[0].strip()}"
        for file in files
        for match in _BARE.finditer(file.read_text(encoding="utf-8", errors="replace"))
    }
    assert not found


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ('pip install "fairway[local,node]"', True),
        ("run: pip install 'fairway[node]'", True),
        ("pip install fairway", True),
        (".venv/bin/pip install -q fairway-hpc", True),
        ('pip install "fairway-hpc[local]"', True),
        ("fairway[node]==0.1.0", True),
        ("fairway-hpc[node]==@VERSION@", True),
        ("fairway==0.1.0", True),
        ('pip install "fairway-hpc[node] @ git+https://example.org/fairway@0123"', False),
        ("pip install -r requirements.txt  # brings fairway", False),
        ('pip install "./fairway_hpc-0.1.0-py3-none-any.whl[local,node]"', False),
        ('examples = ["fairway-hpc[local]", "numpy>=2"]', False),
    ],
)
def test_bare_package_name_is_found_but_not_one_with_a_source(line: str, bare: bool) -> None:
    assert bool(_BARE.search(f"{line}\n")) is bare

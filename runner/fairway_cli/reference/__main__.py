"""Renews the pages in the folder that is the only argument."""

import sys
from pathlib import Path

from fairway_cli.reference import renewed

for file in Path(sys.argv[1]).glob("*.md"):
    file.write_text(renewed(file.read_text(encoding="utf-8")), encoding="utf-8")

"""Writes every page into the folder that is the only argument."""

import sys
from pathlib import Path

from fairway_cli.reference import PAGES

for name, page in PAGES.items():
    Path(sys.argv[1], name).write_text(page(), encoding="utf-8")

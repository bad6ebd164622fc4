"""Start of a program whose disk is full while the folder in its first argument has a file `full`.
After five failed writes there is space again."""

import errno
import os
import sys
from pathlib import Path

from fairway_agent import state_files
from fairway_boot import files

folder, refused, write = Path(sys.argv[1]), [], files.write_json


def write_json(path: Path, value: object) -> None:
    if (folder / "full").exists():
        refused.append(path)
        if len(refused) == 5:
            (folder / "full").unlink()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    write(path, value)


files.write_json = write_json
state_files.ROOM_PAUSE = 0.01

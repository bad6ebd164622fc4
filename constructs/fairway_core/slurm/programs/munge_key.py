"""Makes the cluster's munge key, once in its life, and has munged use it; on the scheduler.

The vault has the key from then on: a scheduler that takes the place of another gets the same.
"""

from __future__ import annotations

import logging
import secrets
import subprocess
import sys

from fairway_agent.azure.http import Failure

from . import settings as settings_file
from .log import log_to
from .vault import install_key, put_key, read_key

_BYTES = 128
_log = logging.getLogger(__name__)


def main() -> int:
    """Answers with 0, or with 1 where the vault cannot be reached: to be tried again."""
    settings = settings_file.load()
    log_to(settings)
    metadata = settings_file.metadata_service(settings)
    try:
        key = read_key(settings, metadata)
        if key is None:
            key = secrets.token_bytes(_BYTES)
            put_key(settings, metadata, key)
            _log.info("a new munge key is in the vault")
    except Failure as failure:
        _log.error("%s", failure)
        return 1
    if install_key(settings, key):
        subprocess.run(settings.restart_munge, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

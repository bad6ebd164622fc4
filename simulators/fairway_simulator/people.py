"""People with accounts of their own on the machines of a cluster, and not on this one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MATCH = """\
Match User {names}
    AuthorizedKeysFile .ssh/authorized_keys
    SetEnv {environment}
"""
_INSIDE = 'mount --bind "$1" /etc && shift && exec "$@"'


@dataclass(frozen=True)
class People:
    """`etc` is what the cluster's machines have as /etc, in which the accounts were made; `names`
    are theirs, and let in by ~/.ssh/authorized_keys."""

    etc: Path
    names: Sequence[str]

    def inside(self, words: Sequence[str]) -> list[str]:
        """The command, run where these accounts exist."""
        unshare = shutil.which("unshare") or "unshare"
        return [unshare, "--mount", "sh", "-c", _INSIDE, "sh", str(self.etc), *words]

    def sshd_lines(self, environment: Mapping[str, str]) -> str:
        """How sshd lets them in: their sessions have a home, and programs that they may run."""
        own = {**environment, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        del own["HOME"]
        words = " ".join(f'"{name}={value}"' for name, value in own.items())
        return _MATCH.format(names=",".join(self.names), environment=words)

"""A session as a host of OpenSSH's: its block of ~/.ssh/config, and the server behind it.

The connection is one of `fairway exec`, whichever way that takes, with a server of the session's
own at its other end: no port is open, and no node lets anybody in. It has the environment, folder,
user and container of the session.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fairway_core.project_folder import VARIABLE
from fairway_runner.engines.engine import new_key
from fairway_runner.runs.records import writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_runner.dev.sessions import SessionAccess
    from fairway_runner.runs.store import Run

FOLDER = "fairway.d"
INCLUDE = f"Include {FOLDER}/*.conf"
"""The line of ~/.ssh/config by which every session is a host."""

_BLOCK = """\
# {folder}
Host {run}
    User {user}
    ProxyCommand {command}
    IdentityFile "{key}"
    IdentitiesOnly yes
    # Its server is at the other end of `fairway exec`, which knows its host.
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ServerAliveInterval 15
"""

# Whatever a connection needs lies in a folder of its own, which goes with it. The shell stays, so
# that its environment, which says that the session is used, can be read.
_SERVER = r"""
set -eu
umask 077
server=$(PATH=$PATH:/usr/sbin:/usr/local/sbin:/sbin command -v sshd) || {
    echo "fairway: there is no sshd here: install openssh-server into the image" >&2
    exit 4
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap "exit 129" HUP
trap "exit 143" TERM
[ "$(id -u)" != 0 ] || mkdir -p -m 755 /run/sshd
ssh-keygen -q -t ed25519 -N "" -f "$folder/key"
printf "%s\n" "$1" >"$folder/authorized_keys"
(
    unset HOME LOGNAME USER TERM SHLVL OLDPWD SSH_CONNECTION SSH_CLIENT SSH_TTY
    export -p
) >"$folder/environment"
cat >"$folder/login" <<END
. "$folder/environment"
cd "\$PWD"
shell=\$(command -v bash || command -v sh)
if [ -n "\${SSH_ORIGINAL_COMMAND-}" ]; then exec "\$shell" -c "\$SSH_ORIGINAL_COMMAND"; fi
exec "\$shell"
END
for sftp in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh; do
    [ ! -x "$sftp/sftp-server" ] || break
done
cat >"$folder/config" <<END
HostKey $folder/key
AuthorizedKeysFile $folder/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
X11Forwarding no
PrintMotd no
LogLevel ERROR
Subsystem sftp $sftp/sftp-server
ForceCommand sh $folder/login
END
"$server" -i -f "$folder/config"
"""


@dataclass(frozen=True)
class Host:
    """A session as ssh and VS Code reach it: its name, and the folder of its code."""

    name: str
    folder: str
    included: bool

    @property
    def vscode(self) -> str:
        """URL that opens the folder in VS Code."""
        return f"vscode://vscode-remote/ssh-remote+{self.name}{quote(self.folder)}"

    @property
    def code_command(self) -> str:
        """Command that opens the folder in VS Code."""
        return shlex.join(["code", "--remote", f"ssh-remote+{self.name}", self.folder])


def server_command(run: Run) -> list[str]:
    """Returns the command that runs in the session for one connection."""
    return ["sh", "-c", _SERVER, "sh", _public_key(run)]


def write_host(run: Run, access: SessionAccess, program: Sequence[str]) -> Host:
    """Writes the block of a session, by which `program` gets to it; UserError where it cannot."""
    _public_key(run)
    variable = f"{VARIABLE}={run.folder.parents[2]}"
    words = shlex.join(["env", variable, *program, "dev", "connect", run.id])
    block = _BLOCK.format(
        folder=run.folder,
        run=run.id,
        user=access.user,
        command=words.replace("%", "%%"),
        key=re.sub(r'["\\]', r"\\\g<0>", str(_key(run)).replace("%", "%%")),
    )
    folder = _ssh_folder() / FOLDER
    hint = f"work in the session with: fairway exec {run.id} -- bash"
    with writing(f"{folder} cannot be written", hint):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in folder.glob("*.conf"):  # of runs that are no more
            with suppress(OSError, ValueError):
                first = file.read_text(encoding="utf-8").partition("\n")[0]
                if first.startswith("# /") and not Path(first.removeprefix("# ")).is_dir():
                    file.unlink()
        draft = folder / f".{run.id}.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(block, encoding="utf-8")
        draft.replace(folder / f"{run.id}.conf")
    return Host(run.id, access.folder, _is_included())


def remove_host(run: Run) -> None:
    """Removes the block of a session that has ended."""
    with suppress(OSError):
        (_ssh_folder() / FOLDER / f"{run.id}.conf").unlink(missing_ok=True)


def _ssh_folder() -> Path:
    return Path.home() / ".ssh"


def _is_included() -> bool:
    try:
        text = (_ssh_folder() / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return re.search(rf"(?im)^\s*include\s.*\b{re.escape(FOLDER)}/\*", text) is not None


def _key(run: Run) -> Path:
    """The key of a project's sessions, which its runs do not get."""
    return run.folder.parents[1] / "ssh" / "key"


def _public_key(run: Run) -> str:
    key = _key(run)
    public = key.with_suffix(".pub")
    with writing(f"{public} cannot be read", f"remove the folder {key.parent}, and try again"):
        if not public.exists():
            private, text = new_key("fairway dev")
            key.parent.mkdir(mode=0o700, exist_ok=True)
            key.touch(mode=0o600)
            key.write_bytes(private)
            public.write_text(text, encoding="ascii")
        return public.read_text(encoding="ascii").strip()

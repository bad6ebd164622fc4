"""Targets for jobs, by name.

`local` always exists. The project's `fairway.yaml` may say what `local` mounts, and define other
targets; `fairway targets sync` writes those of an environment into `.fairway/targets.json` next to
it. Targets in `fairway.yaml` win.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairway_agent.quick import dataclass
from fairway_core.findings import UserError
from fairway_core.project_folder import find_project, from_home
from fairway_core.suggestions import did_you_mean, nearest
from fairway_core.target import Target
from fairway_runner.engines.capabilities import runs_here
from fairway_runner.runs.records import damaged, read_required
from fairway_runner.targets import LOCAL

if TYPE_CHECKING:
    from fairway_core.notifications import Notify
    from fairway_core.project import Project, Serve
    from fairway_runner.runs.folder import RunFolder

_PATIENCE = 30.0  # seconds for ssh to print its configuration of a host


def uses_this_machine(target: Target) -> bool:
    """Returns True if jobs there could read this process's files: this machine runs their tasks, or
    is the cluster's host, by whatever name or address, and the account is ours or root's."""
    access = target.access
    if access is None or runs_here(target.engine):
        return runs_here(target.engine)
    return any(_leads_here(target, host, access.user) for host in access.all_hosts)


def _leads_here(target: Target, host: str, user: str) -> bool:
    from fairway_runner.engines.remote.connection import is_here

    if is_here(host):
        return True  # as the current user, without ssh
    if target.ssh_route is not None:
        return False  # its network may use the same addresses
    facts = dict(_ssh_settings(host, user))  # without ssh nothing can start there
    own_account = _is_own_account(facts.get("user", user))
    return own_account and _is_own_address(facts.get("hostname", host))


def _ssh_settings(host: str, user: str) -> list[tuple[str, str]]:
    """Returns ssh's settings for a host, some with several values; none without ssh."""
    import subprocess

    config = os.environ.get("FAIRWAY_SSH_CONFIG", "")
    words = ["ssh", *(["-F", config] if config else []), "-G", *(["-l", user] if user else [])]
    try:
        output = subprocess.run(
            [*words, "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = (line.partition(" ") for line in output.splitlines())
    return [(name, value) for name, _, value in lines if value]


_PATHS = ("identityfile", "certificatefile", "userknownhostsfile")
# Settings that lead to a host. Others, such as SetEnv, are printed in a form that ssh cannot read,
# or already for this host.
_LEADING = (*_PATHS, "port", "user", "identitiesonly", "hostkeyalias", "proxyjump", "proxycommand")


def _as_written(name: str, value: str) -> str:
    """Returns a setting's value as in a configuration: ssh prints paths without their quotes."""
    if name not in _PATHS:
        return value
    paths = re.split(r" (?=[/~%])", value) if name == "userknownhostsfile" else [value]
    return " ".join('"{}"'.format(re.sub(r'(["\\])', r"\\\1", path)) for path in paths)


def _is_own_account(user: str) -> bool:
    """Returns True if the account may read what this process can, or is unknown here."""
    import pwd

    try:
        return pwd.getpwnam(user).pw_uid in (0, os.geteuid())
    except KeyError:
        return True


def _is_own_address(host: str) -> bool:
    """Returns True if a name or an address is this machine's: a program can listen on it."""
    import socket

    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, _, _, address in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError:
            continue
        return True
    return False


SYNCED = Path(".fairway", "targets.json")


@dataclass(frozen=True)
class KnownTarget:
    """A target, and the file that defines it; "" for `local` if no file does."""

    target: Target
    source: str


def find_target(name: str) -> Target:
    """Returns the target of that name. Raises UserError if there is none."""
    known = all_targets()
    if name not in known:
        hint = did_you_mean(name, known)
        if not nearest(name, known):
            sync = "read the targets of a deployment with: fairway targets sync"
            hint = f"{hint}\n{sync}".strip()
        raise UserError.of("unknown-target", f"there is no target `{name}`", hint)
    return known[name].target


def current_target(recorded: Target) -> Target:
    """Returns a run's target with its cluster's current address and way: main hosts are replaced,
    Bastions come and go, and old runs are reached like new ones."""
    if not recorded.environment:
        return recorded
    try:
        found = _known(recorded.name)
    except (UserError, OSError):
        return recorded  # errors in the files are reported to commands that name a target
    if found is None or not recorded.is_same_cluster(found.target):
        return recorded
    known, access = found.target, recorded.access
    changes: dict[str, Any] = {"ssh_route": known.ssh_route, "gateway": known.gateway}
    if access is not None and (now := known.access) is not None:
        changes[recorded.engine] = access.model_copy(update={"host": now.host, "user": now.user})
    return recorded.model_copy(update=changes)


def all_targets() -> dict[str, KnownTarget]:
    """Returns the targets of the current project, by name."""
    folder, file = find_project()
    found = {LOCAL: KnownTarget(Target.local(), "")} | _synced(folder / SYNCED)
    if file is None:
        return found
    from fairway_core.project import LocalTarget

    for entry in _project(file).targets:
        if isinstance(entry, LocalTarget):
            mounts = found[LOCAL].target.mounts
            mounts |= {mount: str(folder / from_home(path)) for mount, path in entry.mounts.items()}
            target = Target.local().model_copy(update={"mounts": mounts, "price": entry.price})
        else:
            target = entry.written_in(folder)
        found[target.name] = KnownTarget(target, str(file))
    return found


def default_notify() -> Notify | None:
    """Returns the default receivers of notifications, from the project's `fairway.yaml`."""
    _, file = find_project()
    return None if file is None else _project(file).notify


def server_settings() -> Serve:
    """Returns the settings of a server behind a proxy, from the project's `fairway.yaml`."""
    from fairway_core.project import Serve

    _, file = find_project()
    return Serve() if file is None else _project(file).serve


def chosen_environment() -> str | None:
    """Returns the name of the environment that FAIRWAY_ENVIRONMENT or the project's `fairway.yaml`
    chooses, whose file may be elsewhere; None if neither does, or for a name of variables."""
    from fairway_core.documents import read
    from fairway_core.environment.selection import VARIABLE, environment_file

    _, file = find_project()
    choice = os.environ.get(VARIABLE) or (file and _project(file).environment)
    if not choice:
        return None
    try:
        data = read(environment_file()).data
    except UserError as error:
        if error.findings[0].id == "unknown-environment":
            return choice
        raise
    name = data.get("name") if isinstance(data, dict) else None
    return name if isinstance(name, str) and "$" not in name else None


def _known(name: str) -> KnownTarget | None:
    """Returns the target of that name; reads `fairway.yaml` only if it may define it."""
    folder, file = find_project()
    text = b"" if file is None else file.read_bytes()
    if name.encode() in text or b"\\" in text:  # which may stand for any character
        return all_targets().get(name)
    return _synced(folder / SYNCED).get(name)


def _project(file: Path) -> Project:
    from fairway_core.documents import text_of

    return _project_of(text_of(file), str(file))


@lru_cache(maxsize=8)  # a submission asks for the targets, and for who is notified
def _project_of(text: str, file: str) -> Project:
    from fairway_core.documents import Document
    from fairway_core.project import Project
    from fairway_core.yaml_text import parse_yaml

    parsed = parse_yaml(text, file)
    return Document(parsed, parsed.data).validate(Project)


def _synced(file: Path) -> dict[str, KnownTarget]:
    try:
        targets = map(Target.from_json, json.loads(file.read_bytes()))
        return {each.name: KnownTarget(each, str(file)) for each in targets}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, TypeError, RecursionError):
        hint = "write it again with: fairway targets sync"
        raise UserError.of("damaged-targets", f"{file} cannot be read", hint) from None


def processes_per_node(target: Target) -> int:
    """Returns the value of `processes_per_node: gpus` on a target: a process per GPU; without GPUs
    one per core, of this machine or of the VM size. Raises UserError if the VM size is unknown."""
    if runs_here(target.engine):
        gpus = [each for each in Path("/dev").glob("nvidia[0-9]*") if each.name[6:].isdecimal()]
        return len(gpus) or len(os.sched_getaffinity(0))
    from fairway_core.catalog import vm_size

    if not target.vm_size:
        message = f"the VM size of the target `{target.name}` is not known"
        raise UserError.of("no-vm-size", message, "set a number of processes_per_node in the job")
    size = vm_size(target.vm_size)
    return size.gpu.count if size.gpu else size.cores


def submitted_to(run: RunFolder) -> Target:
    """Returns a run's target as it is now. Raises UserError if the run's record is damaged."""
    if runs_here(run.record.engine):
        return Target.local()
    path = run.folder / "target.json"
    try:
        target = read_required(path, Target.from_json)
    except ValueError:
        raise damaged(path, "it is not a target") from None
    return current_target(target)


def host_block(target: Target) -> str:
    """Returns a target as a `Host` block of ~/.ssh/config, for other programs. Raises UserError for
    one that ssh cannot reach."""
    from fairway_runner.engines.remote import bastion

    access = target.access
    if access is None:
        message = f"`{target.name}` is not reached by ssh: its engine is `{target.engine}`"
        raise UserError.of("not-supported", message, "see which are: fairway targets list")
    if not access.host:
        message = f"`{target.name}` has no address to connect to"
        raise UserError.of("no-address", message, "deploy it again, then: fairway targets sync")
    if not re.fullmatch(r"[\w.-]+", target.name):
        message = f"`{target.name}` cannot be a host name"
        raise UserError.of("bad-name", message, "give it a name of letters, digits and dashes")
    facts = {"HostName": access.host, **({"User": access.user} if access.user else {})}
    facts |= {**bastion.settings(target.ssh_route, access.host), "ServerAliveInterval": "15"}
    # ssh does not look for a block of the HostName: what that says is repeated here.
    usual = _ssh_settings("fairway.invalid", access.user)  # which the other block needs not repeat
    own = [each for each in _ssh_settings(access.host, access.user) if each not in usual]
    facts["HostName"] = dict(own).get("hostname", access.host)
    wanted = {*_LEADING} - {name.lower() for name in facts}
    repeated = [(name, _as_written(name, value)) for name, value in own if name in wanted]
    lines = [*facts.items(), *repeated]
    return "\n".join([f"Host {target.name}", *(f"    {name} {value}" for name, value in lines)])

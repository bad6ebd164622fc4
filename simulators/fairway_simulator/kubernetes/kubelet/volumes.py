"""The volumes and the environment of a container: folders, files from objects, memory."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fairway_agent.kubernetes.settings import parse
from fairway_core import local_disks
from fairway_simulator import machines
from fairway_simulator.kubernetes.client import ErrorResponse

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from fairway_simulator.kubernetes.client import Client

    Mount = tuple[str, str, str]
    """A kind (bind, read-only, tmpfs, proc), a source or options, and the place."""


_REFERENCE = re.compile(r"\$\(([-._A-Za-z][-._A-Za-z0-9]*)\)")
_MARKED = re.compile(r"^metadata\.labels\['(.+)'\]$")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def of_image() -> dict[str, str]:
    """Returns the variables of every image: a PATH with this machine's programs, this Python's
    first, and the settings of its MPI."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{_PATH}",
        "HOME": "/root",
        **machines.SHARED_CORES,
    }


def variables(
    pod: Mapping[str, Any], container: Mapping[str, Any], known: Mapping[str, str]
) -> dict[str, str]:
    """Returns the variables of a container's process. Raises KeyError for an unsupported source."""
    if "envFrom" in container:
        raise KeyError("the stand-in has no envFrom")
    found = dict(known)
    for each in container.get("env") or ():
        if "valueFrom" in each:
            found[each["name"]] = _from(pod, container, each["valueFrom"])
        else:
            found[each["name"]] = expanded(each.get("value") or "", found)
    return found


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Replaces each `$(NAME)` of a known variable in a text."""
    return _REFERENCE.sub(lambda match: known.get(match[1], match[0]), text)


def field_of(pod: Mapping[str, Any], path: str) -> str:
    metadata = pod["metadata"]
    if match := _MARKED.match(path):
        return str((metadata.get("labels") or {}).get(match[1], ""))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value)


def _from(pod: Mapping[str, Any], container: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    if field := source.get("fieldRef"):
        return field_of(pod, field["fieldPath"])
    if resource := source.get("resourceFieldRef"):
        kind, _, name = resource["resource"].partition(".")
        text = (container.get("resources", {}).get(kind) or {}).get(name, "0")
        return str(-int(-parse(text) // parse(resource.get("divisor") or "1")))
    raise KeyError(f"the stand-in has no variables from {next(iter(source))}")


_AGE = 0.8
"""The share of its lifetime after which a token is replaced."""


class NotReady(Exception):
    """Error that a volume cannot be mounted yet because its source is missing."""


class Volumes:
    """The volumes of one pod, in `folder`; `exports` maps `server:path` of NFS servers to folders,
    and `disks` is the folder of the node's local disks, None without disks."""

    def __init__(
        self,
        pod: dict[str, Any],
        folder: Path,
        client: Client,
        exports: Mapping[str, Path],
        disks: Path | None,
    ) -> None:
        self._pod = pod
        self._folder = folder
        self._client = client
        self._exports = exports
        self._disks = disks
        self._sources: dict[str, tuple[str, str]] = {}
        self._tokens: dict[Path, Mapping[str, Any]] = {}

    def keep(self, ended: threading.Event) -> None:
        """Replaces tokens by new ones until `ended`. Source: Kubernetes, "Service account token
        volume projection": the kubelet requests a new token after 80 % of its lifetime."""
        times = [part.get("expirationSeconds", 3600) for part in self._tokens.values()]
        while times and not ended.wait(_AGE * min(times)):
            for file, part in self._tokens.items():
                with suppress(NotReady, OSError):  # retried in the next round
                    draft = file.with_name(f".{file.name}")
                    _write(draft, self._token(part).encode(), 0o644)
                    draft.replace(file)

    def prepare(self) -> None:
        """Creates all volumes. Raises NotReady if a source is missing."""
        for volume in self._pod["spec"].get("volumes") or ():
            kind = next(name for name in volume if name != "name")
            folder = self._folder / "volumes" / volume["name"]
            make = getattr(self, f"_make_{_METHODS.get(kind, '')}", None)
            if make is None:
                raise NotReady(f'volume "{volume["name"]}": the kind {kind} is not known here')
            self._sources[volume["name"]] = make(volume[kind] or {}, folder)

    def beyond_limits(self) -> str:
        """Returns the kubelet's message on a disk volume that exceeds its limit, or ""."""
        for volume in self._pod["spec"].get("volumes") or ():
            limit = (volume.get("emptyDir") or {}).get("sizeLimit")
            if limit is None or volume["name"] not in self._sources:
                continue
            kind, source = self._sources[volume["name"]]
            if kind == "bind" and _size(Path(source)) > parse(limit):
                return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
        return ""

    def mounts(
        self, container: Mapping[str, Any], environment: Mapping[str, str]
    ) -> Iterator[Mount]:
        for mount in container.get("volumeMounts") or ():
            kind, source = self._sources[mount["name"]]
            place = _resolved(mount["mountPath"])
            if mount.get("subPath"):
                raise NotReady("the stand-in has no subPath, but subPathExpr")
            sub = expanded(mount.get("subPathExpr") or "", environment)
            if "$(" in sub:
                raise NotReady(f"failed to expand subPath: missing value for {sub}")
            if sub:
                # As in the kubelet, a new folder gets the mode of its volume.
                mode = Path(source).stat().st_mode & 0o777
                source = str(Path(source) / sub)
                if not Path(source).exists():
                    Path(source).mkdir(parents=True)
                    Path(source).chmod(mode)
            yield ("read-only" if mount.get("readOnly") and kind == "bind" else kind), source, place

    def _make_empty(self, spec: Mapping[str, Any], folder: Path) -> tuple[str, str]:
        if spec.get("medium") == "Memory":
            limit = spec.get("sizeLimit")
            size = f",size={int(parse(limit))}" if limit else ""
            return "tmpfs", f"mode=1777{size}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        return "bind", str(folder)

    def _make_host(self, spec: Mapping[str, Any], _: Path) -> tuple[str, str]:
        named = path = Path(spec["path"])
        if path.is_relative_to(local_disks.FOLDER):
            path = (self._disks or Path("/none")) / path.relative_to(local_disks.FOLDER)
        if spec.get("type") == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        if spec.get("type") == "Directory" and not path.is_dir():
            raise NotReady(f"hostPath type check failed: {named} is not a directory")
        if not path.exists():
            raise NotReady(f"hostPath type check failed: {named} does not exist")
        return "bind", str(path)

    def _make_claim(self, spec: Mapping[str, Any], folder: Path) -> tuple[str, str]:
        name = spec["claimName"]
        claim = self._found("persistentvolumeclaims", name)
        if claim.get("status", {}).get("phase") != "Bound":
            raise NotReady(f'persistentvolumeclaim "{name}" is not bound')
        given = self._ask(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")["spec"]
        if "nfs" in given:
            return self._make_nfs(given["nfs"], given.get("mountOptions") or ())
        if "csi" in given:
            driver = given["csi"]["driver"]
            raise NotReady(f"driver name {driver} not found in the list of registered CSI drivers")
        return self._make_host(given.get("hostPath") or {"path": "/none"}, folder)

    def _make_nfs(self, spec: Mapping[str, Any], options: Sequence[str]) -> tuple[str, str]:
        source = f"{spec['server']}:{spec['path']}"
        if wrong := [each for each in options if each.partition("=")[0] not in _NFS_OPTIONS]:
            raise NotReady(f"mount.nfs: an incorrect mount option was specified: {wrong[0]}")
        if source not in self._exports:
            raise NotReady(f"mount.nfs: mounting {source} failed, reason given by server: No such")
        return "bind", str(self._exports[source])

    def _make_map(self, spec: Mapping[str, Any], folder: Path) -> tuple[str, str]:
        self._write_map(spec.get("name", ""), spec, folder)
        return "bind", str(folder)

    def _make_projected(self, spec: Mapping[str, Any], folder: Path) -> tuple[str, str]:
        for source in spec.get("sources") or ():
            for kind, part in source.items():
                part = {"defaultMode": _mode(spec), **part}
                if kind == "configMap":
                    self._write_map(part["name"], part, folder)
                elif kind == "downwardAPI":
                    for item in part.get("items") or ():
                        text = field_of(self._pod, item["fieldRef"]["fieldPath"])
                        _write(folder / item["path"], text.encode(), item.get("mode", _mode(spec)))
                elif kind == "serviceAccountToken":
                    self._tokens[folder / part["path"]] = part
                    _write(folder / part["path"], self._token(part).encode(), 0o644)
        return "bind", str(folder)

    def _token(self, part: Mapping[str, Any]) -> str:
        namespace = self._pod["metadata"]["namespace"]
        account = self._pod["spec"].get("serviceAccountName", "default")
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{quote(account)}/token"
        metadata = self._pod["metadata"]
        pod = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        spec: dict[str, Any] = {"boundObjectRef": pod}
        for name, field in (("expirationSeconds",) * 2, ("audience", "audiences")):
            if name in part:
                spec[field] = [part[name]] if field == "audiences" else part[name]
        sent = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        return str(self._ask(path, sent)["status"]["token"])

    def _write_map(self, name: str, spec: Mapping[str, Any], folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        values = self._found("configmaps", name).get("data") or {}
        everything: list[dict[str, Any]] = [{"key": key, "path": key} for key in values]
        for item in spec.get("items") or everything:
            if item["key"] not in values:
                raise NotReady(f"references non-existent configmap key: {item['key']}")
            _write(folder / item["path"], values[item["key"]].encode(), _mode(spec))

    def _found(self, plural: str, name: str) -> dict[str, Any]:
        namespace = self._pod["metadata"]["namespace"]
        return self._ask(f"/api/v1/namespaces/{namespace}/{plural}/{quote(name)}")

    def _ask(self, path: str, sent: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            return self._client.send("POST" if sent else "GET", path, sent)
        except ErrorResponse as refused:
            raise NotReady(str(refused)) from None


# Source: nfs(5), and the options that mount(8) passes on.
_NFS_OPTIONS = frozenset(
    {"hard", "soft", "vers", "nfsvers", "minorversion", "proto", "sec", "rsize", "wsize"}
    | {"nconnect", "noatime", "actimeo", "timeo", "retrans", "nolock", "port"}
)
_METHODS = {
    "emptyDir": "empty",
    "hostPath": "host",
    "persistentVolumeClaim": "claim",
    "configMap": "map",
    "projected": "projected",
}


def common_mounts(folder: Path, address: str, hostname: str) -> list[Mount]:
    """Returns the mounts of every container: its own folders, and this Python if these hide it."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    temporary.chmod(0o1777)
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1\tlocalhost\n{address}\t{hostname}\n")
    found = [
        ("proc", "", "/proc"),
        ("tmpfs", "mode=1777", "/dev/shm"),  # noqa: S108 - the container's own
        ("tmpfs", "mode=755", "/run"),
        ("folder", "", "/run/sshd"),  # as in an image with sshd
        ("tmpfs", "mode=755", "/mnt"),
        ("bind", str(temporary), "/tmp"),  # noqa: S108
        ("bind", str(hosts), "/etc/hosts"),
    ]
    # This Python, if it lies in a folder that each container has for itself.
    programs = dict.fromkeys((sys.prefix, sys.base_prefix))
    hidden = [path for path in programs if path.startswith(("/tmp/", "/run/", "/mnt/"))]  # noqa: S108
    return found + [("bind", path, path) for path in hidden]


def _size(folder: Path) -> int:
    """Returns the bytes that the files below a folder use on disk."""
    found = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):  # the file was just deleted
                found += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118
    return found


def _resolved(place: str) -> str:
    """Resolves this machine's links in a mount path."""
    return os.path.realpath(place).rstrip("/") or "/"


def _mode(spec: Mapping[str, Any]) -> int:
    return int(spec.get("defaultMode", 0o644))


def _write(file: Path, data: bytes, mode: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.chmod(mode)

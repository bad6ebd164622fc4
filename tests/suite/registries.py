"""A container registry on loopback, with one image that uses this machine's programs."""

import base64
import hashlib
import io
import json
import platform
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from serving import Handler, serving

OPTIONS = ["--volume=/usr:/usr:ro"]
"""The options of a container of the image, in which /bin and others are links into /usr."""

USER, PASSWORD = "robot", "a password of tests"
"""The account that may pull images."""

_AUTHORIZATION = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
_INDEX = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass
class Registry:
    """A registry with one image, for one account; `sent` counts the requests by path."""

    address: str
    layer: str
    sent: Counter[str] = field(default_factory=Counter)

    @property
    def image(self) -> str:
        """Name of the image."""
        return f"{self.address}/train:1"

    @property
    def pulls(self) -> int:
        """The number of times that the image's layer was sent."""
        return self.sent[f"/v2/train/blobs/{self.layer}"]

    def allow(self, etc: Path) -> None:
        """Lets machines with that /etc use the registry, which has no certificate."""
        file = etc / "containers/registries.conf.d/99-test.conf"
        file.write_text(f'[[registry]]\nlocation = "{self.address}"\ninsecure = true\n')

    @property
    def login(self) -> str:
        """The command with which a user logs in for their jobs."""
        own = f"--authfile ~/.config/containers/auth.json --username {USER} --password-stdin"
        return f"echo '{PASSWORD}' | podman login {own} {self.address}"


@contextmanager
def registry() -> Iterator[Registry]:
    """Runs a registry. Its image names a user that is not root."""
    layer = _layer()
    config = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"User": "1000", "Entrypoint": ["/bin/false"]},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    parts = {_CONFIG: json.dumps(config).encode(), _LAYER: layer}
    described = [
        {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}
        for kind, blob in parts.items()
    ]
    facts = {"schemaVersion": 2, "mediaType": _INDEX}
    manifest = json.dumps({**facts, "config": described[0], "layers": described[1:]}).encode()
    blobs = {_digest(blob): blob for blob in (*parts.values(), manifest)}
    sent: Counter[str] = Counter()

    class Answers(Handler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] != _AUTHORIZATION:
                self.answer(status=401, WWW_Authenticate='Basic realm="tests"')
                return
            sent[self.path] += 1
            last = self.path.rpartition("/")[2]
            blob = blobs.get(_digest(manifest) if last == "1" else last, b"{}")
            kind = _INDEX if "/manifests/" in self.path else "application/octet-stream"
            self.answer(blob, Content_Type=kind, Docker_Content_Digest=_digest(blob))

    with serving(Answers) as address:
        yield Registry(address.removeprefix("http://"), _digest(layer), sent)


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _layer() -> bytes:
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as archive:
        for name in ("bin", "lib", "lib64", "sbin"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for name in ("etc", "tmp", "usr"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        # Its owner exists only in a container with a range of user ids.
        other = tarfile.TarInfo("etc/of-another")
        other.uid = other.gid = 42
        archive.addfile(other)
    return text.getvalue()

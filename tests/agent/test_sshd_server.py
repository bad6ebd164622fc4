"""The servers by which the nodes of a task reach each other: a real sshd on loopback."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairway_agent.fanout import sshd_mesh
from fairway_agent.fanout.sshd_mesh import Meeting

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Meeting]:
    """A task whose only node answers `served`, and where this user's home is `home`."""
    if shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}") is None:
        pytest.skip("sshd is not installed: apt-get install openssh-server")
    key, home = tmp_path / "key", tmp_path / "home"
    home.mkdir()
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
    subprocess.run(words, check=True)
    serve = tmp_path / "serve"
    serve.write_text('#!/bin/sh\necho "served $SSH_ORIGINAL_COMMAND"\n')
    serve.chmod(0o755)
    monkeypatch.setattr(sshd_mesh, "_SERVER", f"{sshd_mesh._SERVER}SetEnv HOME={home}\n")
    yield Meeting(tmp_path.name, tmp_path / "ssh", key, shlex.quote(str(serve)))
    config = str(tmp_path / "ssh" / "sshd_config").encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = config in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if is_ours:
            os.kill(int(entry.name), signal.SIGTERM)


def test_an_answer_is_what_the_node_says_and_not_what_its_bashrc_prints(
    meeting: Meeting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`conda init` writes there what takes a second, and images what greets people."""
    monkeypatch.delenv("SHLVL", raising=False)
    (tmp_path / "home" / ".bashrc").write_text("echo bashrc was read\n")
    sshd_mesh.install_keys(meeting)
    sshd_mesh.start_server(meeting, "127.0.0.1", tmp_path / "context")
    config = sshd_mesh.connect(meeting, ["127.0.0.1"])
    answers = sshd_mesh.order(config, ["127.0.0.1"], "fairway-event end")
    assert answers == {"127.0.0.1": b"served fairway-event end\n"}

"""Simulated hosts behind ssh on this machine: their announcements."""

import errno
import os
import time
from pathlib import Path

import pytest
from waiting import until

from fairway_simulator.ssh import cluster as module
from fairway_simulator.ssh.cluster import SshCluster, missing


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_ssh_cluster_hosts_announce_themselves_unless_silent_or_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that has been silent for three minutes does not count as up."""
    monkeypatch.setattr(module, "_MINUTE", 0.01)
    with SshCluster(tmp_path, ("n1", "n2", "n3")) as cluster:
        cluster.silent.add("n2")
        cluster.kill("n3")
        old = time.time() - 600
        for name in cluster.names:
            os.utime(cluster.announcements / name, (old, old))
        until(lambda: _is_new(cluster, "n1"))
        assert not _is_new(cluster, "n2")
        assert not _is_new(cluster, "n3")
        tried: list[str] = []

        def refuse(name: str) -> None:
            tried.append(name)
            raise OSError(errno.ENOSPC, "the shared folder is full")

        monkeypatch.setattr(cluster, "announce", refuse)
        until(lambda: len(tried) > 1)


def _is_new(cluster: SshCluster, name: str) -> bool:
    return time.time() - (cluster.announcements / name).stat().st_mtime < 300

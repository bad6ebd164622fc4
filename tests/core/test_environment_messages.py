"""What is said of values that an environment file may not have, at their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.environment import load_environment
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "name: lab\nlocation: southcentralus\nzone: 1\n"
VM = "clusters: {gpu: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1%s}}\n"
NFS = VM % "" + "filesystems: {data: {kind: nfs_server, path: /data%s}}\n"
NETAPP = VM % "" + "filesystems: {data: {kind: netapp, path: /data%s}}\n"
POOL = "clusters: {pool: {engine: batch, size: Standard_ND96asr_v4%s}}\n"

MISTAKES = [
    # disks and file servers
    (NFS % ", disks: {gib: 999999}", "a disk of kind `premium_v2` has 1 to"),
    (NFS % ", disks: {gib: 64, iops: 100}", "a disk of 64 GiB has 3000 to"),
    (NFS % ", disks: {gib: 64, mbps: 100000}", "a disk of 3000 IOPS has 125 to"),
    (NFS % ", disks: {kind: ultra, gib: 64}", "an `ultra` disk needs `iops:`"),
    (NFS % ", disks: {count: 500}", "`Standard_D16s_v6` takes at most"),
    (NFS % ", size: Standard_NC24ads_A100_v4", "disks is not known"),
    (NFS % ", backup: {keep: 3d}", "backups are kept for 7d to"),
    (NFS % ", versions: [3, 3]", "version 3 is named twice"),
    # managed file systems
    (NETAPP % ", service_level: Flexible, mibps: 1", "a `Flexible` volume of 4 TiB has 128 to"),
    (
        VM % "" + "filesystems: {fast: {kind: lustre, path: /fast, tib: 7}}\n",
        "with 250 MB/s a TiB there are",
    ),
    # clusters
    (VM % ", repair: {}", "Azure repairs no single VM"),
    (VM % ", repair: {grace: 5m}", "Azure takes 10m to"),
    (VM % ", image: ubuntu-hpc-1604", "unknown image `ubuntu-hpc-1604`"),
    (VM % ", mounts: [home]", "no `home` under `filesystems:`"),
    # services
    (VM % "" + "registry: {sku: Premium, retention: 900d}\n", "tag for at most 365d"),
    (VM % "" + "registry: {sku: Basic, retention: 9d}\n", "a Basic registry keeps manifests"),
    # who is told
    (
        VM % "" + "monitoring: {emails: [a@example.com, A@example.com]}\n",
        "`A@example.com` is named twice",
    ),
    (
        VM % "" + "monitoring: {emails: [a@example.com], retention: 1d}\n",
        "logs can be kept for 30d to",
    ),
    (
        VM % "" + "budget: {monthly: 9, emails: [a@example.com], alerts: [80, 50]}\n",
        "alerts are percentages in rising order, each once",
    ),
    (
        VM % "" + "budget: {monthly: 9, emails: [a@example.com], alerts: [0, 50]}\n",
        "an alert is at 1 to",
    ),
    # the network
    (
        VM % "" + "access: {bastion: false, admins: [aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee]}\n",
        "are let in by the bastion",
    ),
    (VM % "" + "network: {address_space: 10.0.0.0/30}\n", "cannot be cut into subnets"),
    (VM % "" + "tags: {owner: '%s'}\n" % ("x" * 300), "the value of `owner` has 300 characters"),
    (VM % "" + "tags: {owner: '${env:FAIRWAY_NO_SUCH_NAME}'}\n", "FAIRWAY_NO_SUCH_NAME is not set"),
    (
        VM % "" + "defaults: {cluster: {colour: red}}\n",
        "no cluster has a key `colour`",
    ),
    # pools
    (POOL % ", nodes: 999999", "a pool holds at most"),
    (POOL % ", nodes: {min: 0, max: 4}, autoscale: {every: 5m}", "needs either a `scenario:` or"),
    (
        POOL % ", nodes: {min: 0, max: 4}, autoscale: {formula: 'x = 1;'}",
        "the formula sets no number of",
    ),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_value_that_cannot_be_is_named_at_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + text)
    with pytest.raises(UserError) as caught:
        load_environment(file)
    found = [each for each in caught.value.findings if said in each.message]
    assert found, [each.message for each in caught.value.findings]
    place = found[0].location
    assert place is not None
    assert place.line > 3

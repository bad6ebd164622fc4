"""What is said of values that an environment file may not have, at their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairway_core.environment import load_environment
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "name: lab\nlocation: southcentralus\n"
VM = "clusters: {gpu: {engine: ssh, size: Standard_NC24ads_A100_v4, nodes: 1%s}}\n"
NFS = VM % "" + "filesystems: {data: {kind: nfs_server, path: /data%s}}\n"
NETAPP = VM % "" + "filesystems: {data: {kind: netapp, path: /data%s}}\n"
DESCRIBED = "clusters: {gpu: {engine: ssh, nodes: 1, size: {name: %s}}}\n"
POOL = "clusters: {pool: {engine: batch, size: Standard_ND96asr_v4%s}}\n"

LUSTRE = VM % "" + "filesystems: {fast: {kind: lustre, path: /fast, tib: %s}}\n"
SCALED = POOL % ", nodes: {min: 0, max: 4}, %s"
SLURM = (
    "clusters: {%s: {engine: slurm, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}}\n"
)
SLURM += "filesystems: {data: {kind: nfs_server, path: /data}}\n"
HOME = "filesystems: {home: {kind: nfs_server, path: /home}}\n"

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
    (
        NETAPP % ", service_level: Flexible, mibps: 1",
        "a `Flexible` volume of 4 TiB can have 128 to",
    ),
    (
        VM % "" + "filesystems: {fast: {kind: lustre, path: /fast, tib: 7}}\n",
        "with 250 MB/s per TiB, sizes are",
    ),
    (
        "zone: none\n" + LUSTRE % 16,
        "Managed Lustre needs a zone, and `zone: none` names none",
    ),
    (
        LUSTRE % 16 + "network: {egress: none}\n",
        "Managed Lustre works only if it reaches Azure's own services",
    ),
    (
        LUSTRE % "768, mbps_per_tib: 40" + "network: {address_space: 10.40.0.0/20}\n",
        "Lustre needs a subnet of 1024 addresses, and 10.40.",
    ),
    # clusters
    (VM % ", repair: {}", "Azure does not repair a single VM"),
    (VM % ", repair: {grace: 5m}", "Azure accepts 10m to 90m here, in whole minutes"),
    (VM % ", image: ubuntu-hpc-1604", "unknown image `ubuntu-hpc-1604`"),
    (VM % ", mounts: [home]", "no `home` under `filesystems:`"),
    (VM % ", mounts: [home, home]" + HOME, "`home` is mounted twice"),
    (VM % ", image: ubuntu-hpc-2404-rocm", "image `ubuntu-hpc-2404-rocm` does not fit"),
    (
        VM.replace("NC24ads_A100_v4", "ND96isr_H100_v5")
        % ", spot: {eviction: deallocate}, os_disk: local",
        "a local system disk is lost when Azure stops the node",
    ),
    (
        VM % "" + "slurm: {scheduler_size: Standard_ND128isr_GB300_v6}\n",
        "`Standard_ND128isr_GB300_v6` is an Arm size",
    ),
    (
        VM % "" + "access: {gateway: {size: Standard_ND128isr_GB300_v6}}\n",
        "`Standard_ND128isr_GB300_v6` is an Arm size",
    ),
    (
        "clusters: {gpu: {engine: ssh, size: Standard_ND6s, nodes: 1}}\n",
        "`Standard_ND6s` was retired on 20",
    ),
    (
        "clusters: {gpu: {engine: ssh, size: Standard_NCC40ads_H100_v5, nodes: 1}}\n",
        "`Standard_NCC40ads_H100_v5` is a confidential VM",
    ),
    (
        "clusters: {gpu: {engine: ssh, size: Standard_NC128ds_xl_RTXPRO6000BSE_v6, nodes: 1}}\n",
        "no image in the catalogue has NVIDIA's GRID driver",
    ),
    (
        VM.replace("NC24ads_A100_v4", "NV36ads_A10_v5") % ", image: ubuntu-hpc-2404",
        "no image in the catalogue has NVIDIA's GRID driver",
    ),
    (
        "clusters: {pool: {engine: batch, size: Standard_NV6ads_A10_v5, nodes: 2, mpi: false}}\n",
        "no image in the catalogue has NVIDIA's GRID driver",
    ),
    (
        VM.replace("NC24ads_A100_v4", "NV24ads_V710_v5") % ", image: ubuntu-hpc-2404-rocm",
        "no image in the catalogue has AMD's driver for Radeon PRO",
    ),
    (
        "clusters: {pool: {engine: batch, size: Standard_NG32ads_V620_v1, nodes: 2, mpi: false}}\n",
        "no image in the catalogue has AMD's driver for Radeon PRO",
    ),
    (
        DESCRIBED % "Standard_NC24ads_A100_v4, like: Standard_D4s_v6",
        "`Standard_NC24ads_A100_v4` is listed",
    ),
    (
        DESCRIBED % "Standard_NC2_New_v9, like: Standard_D4s_v6, gpus: 2",
        "`Standard_D4s_v6` has no GPUs",
    ),
    (
        VM % "" + "access: {gateway: {size: {name: Standard_D2s_v6, like: Standard_D4s_v6}}}\n",
        "`Standard_D2s_v6` is listed",
    ),
    (
        VM % ""
        + "access: {gateway: {size: {name: Standard_X, like: Standard_ND128isr_GB300_v6}}}\n",
        "is an Arm size",
    ),
    # Slurm
    (
        SLURM % "nd" + "slurm: {scheduler_size: {name: Standard_X, like: Standard_D4s_v66}}\n",
        "unknown VM size `Standard_D4s_v66`",
    ),
    (
        SLURM % "nd" + "slurm: {login: {size: {name: Standard_X}}}\n",
        "is missing",
    ),
    (SLURM % "slurm-scheduler", "`slurm-scheduler` is the scheduler's own name"),
    (
        SLURM % "slurm-login-0" + "slurm: {login: {}}\n",
        "`slurm-login-0` is a login node's own name",
    ),
    (
        SLURM % "nd" + "slurm: {login: {size: Standard_ND128isr_GB300_v6}}\n",
        "is an Arm size",
    ),
    (
        SLURM % "nd" + "slurm: {accounting: false, accounts: {vision: 1}}\n",
        "Slurm keeps accounts and qualities of service in its database",
    ),
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
        "connect through the bastion",
    ),
    (VM % "" + "network: {address_space: 10.0.0.0/30}\n", "cannot be cut into subnets"),
    (VM % "" + "tags: {owner: '%s'}\n" % ("x" * 300), "the value of `owner` has 300 characters"),
    (
        VM % "" + "tags: {owner: '${env:FAIRWAY_NO_SUCH_NAME}'}\n",
        "the variable FAIRWAY_NO_SUCH_NAME is not set",
    ),
    (
        VM % "" + "defaults: {cluster: {colour: red}}\n",
        "no cluster has a key `colour`",
    ),
    # pools
    (POOL % ", nodes: 999999", "a pool holds at most"),
    (POOL % ", nodes: {min: 0, max: 4}, autoscale: {every: 5m}", "needs either a `scenario:` or"),
    (
        POOL % ", nodes: {min: 0, max: 4}, autoscale: {formula: 'x = 1;'}",
        "the formula does not set the number of",
    ),
    (
        SCALED
        % "autoscale: {formula: '$TargetDedicatedNodes = 1; x = $ActiveTasks.GetSample(9);'}",
        "the formula reads samples without checking that they exist",
    ),
    (
        SCALED % "autoscale: {formula: '$TargetDedicatedNodes = 1; %s'}" % ("x = 1;" * 100),
        "the formula has 101 statements, and Batch accepts at most 100",
    ),
    (
        SCALED
        % "autoscale: {formula: '$TargetDedicatedNodes = 1; %s'}"
        % ("/*%s*/" % ("x" * 9000)),
        " bytes, and Batch accepts at most 8192",
    ),
    (
        SCALED % "autoscale: {scenario: workday, hours: {start: 18, end: 8}}",
        "the day starts at 18 and ends at 8",
    ),
    (
        SCALED % "autoscale: {scenario: workday, every: 1m}",
        "Batch evaluates a formula every 5 minutes to every 168 hours",
    ),
    (
        SCALED % "autoscale: {scenario: pending_tasks, lookback: 1m}",
        "samples of the last minute are not available yet",
    ),
    (
        SCALED % "spot: true, autoscale: workday_with_offpeak_max_spot",
        "mixes dedicated and Spot nodes, and a pool for MPI holds only one kind",
    ),
    (
        SCALED % "autoscale: {scenario: pending_tasks, nodes_per_job: 5}",
        "a pool of at most 4 nodes cannot count 5 for a job",
    ),
    (
        POOL % ", nodes: 2, mounts: [home]" + HOME,
        "a mount on /home would hide the home directories",
    ),
    (
        POOL % ", nodes: 2, image: ubuntu-hpc-2404-rocm",
        "image `ubuntu-hpc-2404-rocm` does not fit Standard_ND96asr_v4",
    ),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_value_that_cannot_be_is_named_at_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + ("" if text.startswith("zone:") else "zone: 1\n") + text)
    with pytest.raises(UserError) as caught:
        load_environment(file)
    found = [each for each in caught.value.findings if said in each.message]
    assert found, [each.message for each in caught.value.findings]
    place = found[0].location
    assert place is not None
    assert place.line > 3

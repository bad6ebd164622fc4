"""Keys that other programs' job files have, and what a job file here has in their place."""

from __future__ import annotations

from types import MappingProxyType

_GPUS = "GPUs come with the nodes of the target; `gpus: 1` takes one of a node"
_RANKS = "nodes come with all their GPUs; a rank on each is `processes_per_node: gpus`"
_COMMAND = "write what runs as `command: python train.py`"
_ENV = "write variables as `env: {NAME: VALUE}`"
_NODES = "write the number of nodes as `nodes: 2`"
_TIMEOUT = "write how long it may take as `timeout: 2h`"
_IMAGE = "write `container: {image: REGISTRY/NAME:TAG}`"
_CODE = "the job file's own folder is copied; for another: `code: {path: FOLDER}`"
_ORDER = "write it under target: `target: {in_order: [FIRST, SECOND]}`"
STAYS = (
    "a run stays on the target that it was submitted to: leave it out; to move one that waits, "
    "cancel it, and submit the job to another"
)
_INPUTS = "name what it reads as `inputs: {data: MOUNT:PATH}`"
_TARGET = "write `target: NAME`, or `fairway submit JOB --target NAME`"

FOREIGN_KEYS = MappingProxyType(
    {
        **dict.fromkeys(("resources", "gpu", "accelerators", "num_gpus"), _GPUS),
        **dict.fromkeys(("gpus_per_node", "gpu_count", "ngpus", "nproc_per_node"), _RANKS),
        **dict.fromkeys(("ntasks_per_node", "ranks_per_node", "ntasks"), _RANKS),
        **dict.fromkeys(("script", "run", "commands", "cmd", "entrypoint", "args"), _COMMAND),
        **dict.fromkeys(("environment", "environment_variables", "envs", "variables"), _ENV),
        **dict.fromkeys(("num_nodes", "node_count", "instance_count", "instances"), _NODES),
        **dict.fromkeys(("time", "time_limit", "walltime"), _TIMEOUT),
        **dict.fromkeys(("image", "docker", "docker_image"), _IMAGE),
        **dict.fromkeys(("workdir", "working_dir", "src", "file_mounts"), _CODE),
        "in_order": _ORDER,
        "patience": STAYS,
        **dict.fromkeys(("mounts", "volumes"), _INPUTS),
        **dict.fromkeys(("compute", "partition", "queue", "pool"), _TARGET),
    }
)

_PREEMPTION = "nodes that are taken away with notice are `retry: {preemption: 3}`"
_NODE = "nodes that are lost are `retry: {node: 3}`"
_ERROR = "failures of the job's own are `retries: 3`"

FOREIGN_CAUSES = MappingProxyType(
    {
        **dict.fromkeys(("spot", "eviction", "evictions", "interruption"), _PREEMPTION),
        **dict.fromkeys(("node_failure", "lost", "hardware", "no_capacity"), _NODE),
        **dict.fromkeys(("failure", "failures", "attempts", "count", "max", "limit"), _ERROR),
    }
)

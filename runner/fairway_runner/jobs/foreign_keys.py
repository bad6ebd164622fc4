"""Keys that other programs' job files have, and what a job file here has in their place."""

from __future__ import annotations

from types import MappingProxyType

_GPUS = "GPUs come with the nodes of the target; `gpus: 1` takes one of a node"
_COMMAND = "write what runs as `command: python train.py`"
_ENV = "write variables as `env: {NAME: VALUE}`"
_NODES = "write the number of nodes as `nodes: 2`"
_TIMEOUT = "write how long it may take as `timeout: 2h`"
_IMAGE = "write `container: {image: REGISTRY/NAME:TAG}`"
_CODE = "the job file's own folder is copied; for another: `code: {path: FOLDER}`"
_ORDER = "write it under target: `target: {in_order: [FIRST, SECOND], patience: 30m}`"
_INPUTS = "name what it reads as `inputs: {data: MOUNT:PATH}`"
_TARGET = "write `target: NAME`, or `fairway submit JOB --target NAME`"

FOREIGN_KEYS = MappingProxyType(
    {
        **dict.fromkeys(("resources", "gpu", "accelerators", "num_gpus"), _GPUS),
        **dict.fromkeys(("script", "run", "commands", "cmd", "entrypoint", "args"), _COMMAND),
        **dict.fromkeys(("environment", "environment_variables", "envs", "variables"), _ENV),
        **dict.fromkeys(("num_nodes", "node_count", "instance_count", "instances"), _NODES),
        **dict.fromkeys(("time", "time_limit", "walltime"), _TIMEOUT),
        **dict.fromkeys(("image", "docker", "docker_image"), _IMAGE),
        **dict.fromkeys(("workdir", "working_dir", "src", "file_mounts"), _CODE),
        **dict.fromkeys(("patience", "in_order"), _ORDER),
        **dict.fromkeys(("mounts", "volumes"), _INPUTS),
        **dict.fromkeys(("compute", "partition", "queue", "pool"), _TARGET),
    }
)

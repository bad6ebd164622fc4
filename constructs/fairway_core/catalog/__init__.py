"""Facts about Azure as data: VM sizes, images, communication settings and limits.

Each table is a TOML file beside this one, with its source and date; each look-up reads its
file once and answers with a frozen dataclass, or raises UserError with the nearest name.

>>> vm_size("Standard_ND96isr_H100_v5").gpu.count
8
>>> image("ubuntu-hpc-2404").urn
'microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901'
>>> fabric_for(vm_size("Standard_ND96asr_v4")).environment["CUDA_DEVICE_ORDER"]
'PCI_BUS_ID'
>>> limit("placement_group_vms")
100
"""

from fairway_core.catalog.fabrics import Fabric, fabric_for, fabrics
from fairway_core.catalog.images import Image, Plan, default_image, image, images
from fairway_core.catalog.limits import kubernetes_ends, limit, reserved_ranges
from fairway_core.catalog.sizes import VmSize, vm_size, vm_sizes

__all__ = [
    "Fabric",
    "Image",
    "Plan",
    "VmSize",
    "default_image",
    "fabric_for",
    "fabrics",
    "image",
    "images",
    "kubernetes_ends",
    "limit",
    "reserved_ranges",
    "vm_size",
    "vm_sizes",
]

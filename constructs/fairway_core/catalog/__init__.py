"""Facts about Azure as data: VM sizes, images, communication settings and limits.

Each table is a TOML file beside this one, with its source and date; each look-up reads its file
once and returns a frozen dataclass, or raises UserError with the nearest name.

>>> vm_size("Standard_ND96isr_H100_v5").gpu.count
8
>>> image("ubuntu-hpc-2404").urn
'microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901'
>>> fabric_for(vm_size("Standard_ND96asr_v4")).environment["CUDA_DEVICE_ORDER"]
'PCI_BUS_ID'
>>> limit("placement_group_vms")
100
"""

from fairway_core.catalog.fabrics import Fabric as Fabric
from fairway_core.catalog.fabrics import fabric_for as fabric_for
from fairway_core.catalog.fabrics import fabrics as fabrics
from fairway_core.catalog.images import Image as Image
from fairway_core.catalog.images import Plan as Plan
from fairway_core.catalog.images import default_image as default_image
from fairway_core.catalog.images import image as image
from fairway_core.catalog.images import images as images
from fairway_core.catalog.limits import kubernetes_ends as kubernetes_ends
from fairway_core.catalog.limits import limit as limit
from fairway_core.catalog.limits import reserved_ranges as reserved_ranges
from fairway_core.catalog.sizes import VmSize as VmSize
from fairway_core.catalog.sizes import vm_size as vm_size
from fairway_core.catalog.sizes import vm_sizes as vm_sizes

"""Plain scale sets and single VMs: the local engine seen through a connection."""

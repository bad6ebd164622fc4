"""What MPI must be told where nodes are no machines: their ranks share this machine's cores."""

# None is bound to one, and one that waits lets others run. Open MPI's wheel looks for fabrics for
# a second where it is not told that there are none.
SHARED_CORES = {
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_pml": "ob1",
}

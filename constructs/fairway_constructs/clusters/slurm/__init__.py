"""Slurm on Azure: a scheduler, partitions of nodes that come and go, and their shared key.

`SlurmSharedState` outlives the clusters: the vault of the munge key, identities, the disk with the
scheduler's state. `SlurmScheduler` is the VM, and `SlurmLoginNode` one for users; a partition is a
`ScaleSetCluster` with `slurm=`.
"""

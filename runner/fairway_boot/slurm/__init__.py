"""Grows and shrinks the scale sets of a Slurm cluster, and makes instances its nodes.

`fairway_core.archives` names the modules that each kind of VM boots with. `python3 -m
fairway_boot.slurm.NAME` runs one; their settings are one JSON file, see `settings`.

    scheduler   power           started by slurmctld to create and delete nodes; each minute, it
                                repairs what was lost or left over
                claim_service   gives a booting instance its node's name
                munge           creates the key once and keeps it in the vault
    node        node            fetches the key, claims a name, starts slurmd with it
                eviction        drains the node before Azure takes it away
                people          tokens and secrets for users' jobs
"""

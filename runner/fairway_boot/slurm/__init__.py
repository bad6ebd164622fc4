"""Grows and shrinks the scale sets of a Slurm cluster, and makes instances its nodes.

`fairway_core.archives` names the modules that each kind of VM boots with.
`python3 -m fairway_boot.slurm.NAME` runs one; their settings are one JSON file, see `settings`.

    scheduler   power           what slurmctld calls, to have nodes and not; each minute, it puts
                                right what was lost, left over or is to stay
                claim_service   gives a booting instance its node's name
                munge           makes the key once and keeps it in the vault
    node        node            fetches the key, claims a name, tells slurmd of it
                eviction        leaves the node in order before Azure takes it away
                people          tokens and secrets for people's jobs
"""

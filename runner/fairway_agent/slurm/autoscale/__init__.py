"""What grows and shrinks the scale sets of a Slurm cluster, and makes instances its nodes.

A VM boots with these programs in its custom data, with little else of the agent; which modules
these are says `fairway_core.archives`. `python3 -m fairway_agent.slurm.autoscale.NAME` runs one.
Settings are one JSON file; see `settings`.

    scheduler   power           what slurmctld calls, to have nodes and not
                claim_service   gives a booting instance its node's name
                reconcile       each minute: what was lost, left over or is to stay
                munge_key       makes the key once and keeps it in the vault
    node        node            fetches the key, claims a name, tells slurmd of it
                eviction        leaves the node in order before Azure takes it away
"""

"""Programs of schedulers and nodes, of Python's standard library alone.

On a VM this folder is the package `fairway_slurm` below /usr/local/lib/fairway, and
`python3 -m fairway_slurm.NAME` runs a program of it: so its modules import each other by
relative names only. What they ask Azure with is `fairway_agent.azure`, which lies beside it.
Settings are one JSON file; see `settings`.

    scheduler   resume, suspend, resume_fail   what slurmctld calls, to have nodes and not
                claim_service                  gives a booting instance its node's name
                reconcile                      each minute: what was lost, left over or is to stay
                munge_key                      makes the key once and keeps it in the vault
    node        node                           fetches the key, claims a name, tells slurmd of it
                eviction                       leaves the node in order before Azure takes it away
"""

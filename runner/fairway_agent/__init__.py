"""Programs that run where jobs run: on this machine, on the hosts of a cluster, on the nodes of a
pool.

Uses only Python's standard library, from 3.10 on. Hosts and nodes get the package as a folder that
Python can run (see `main`); on this machine it is installed.
"""

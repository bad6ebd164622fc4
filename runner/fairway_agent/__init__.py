"""What runs where jobs run: on this machine, on the hosts of a cluster, on the nodes of a pool.

Python's standard library from 3.10 on, and nothing else. Hosts and nodes get the package as a
folder that Python can run (see `main`); on this machine it is installed.
"""

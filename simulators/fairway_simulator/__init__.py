"""Stand-ins on this machine for the services that jobs run on.

`fairway_simulator.batch` is an Azure Batch account on loopback. It runs real processes on simulated
nodes, so that a job can be tried without Azure and the client tested against faults.
"""

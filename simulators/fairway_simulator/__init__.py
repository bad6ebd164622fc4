"""Services that run on this machine in place of those that a job runs on.

`fairway_simulator.batch` is an Azure Batch account on loopback. It runs real processes on
simulated nodes, so a job can be tried without Azure and the client tested against faults.
"""

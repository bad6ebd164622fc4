"""An Azure Batch account on loopback, with nodes that run real processes.

>>> from pathlib import Path
>>> with BatchSimulator(folder=Path("/tmp/sim"), nodes=2) as service:  # doctest: +SKIP
...     print(service.endpoint, service.account, service.key)

Meant for tests, and for trying a job without Azure. Implements the data plane operations, version
2025-06-01, that a client needs to run jobs, with the behavior that the service documents.
`BatchSimulator.faults` makes requests fail on demand.
"""

from fairway_simulator.batch.agent.transfers import StorageAccess
from fairway_simulator.batch.simulator import BatchSimulator
from fairway_simulator.faults import Fault, Faults

__all__ = ["BatchSimulator", "Fault", "Faults", "StorageAccess"]

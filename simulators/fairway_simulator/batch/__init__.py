"""An Azure Batch account on loopback, with nodes that run real processes.

>>> from pathlib import Path
>>> with BatchSimulator(folder=Path("/tmp/sim"), nodes=2) as service:  # doctest: +SKIP
...     print(service.endpoint, service.account, service.key)

It is for tests, and for trying a job without Azure. Its operations are those of the data plane,
version 2025-06-01, as far as a client that runs jobs uses them, and behave as the service documents
them. `BatchSimulator.faults` makes it fail on demand.
"""

from fairway_simulator.batch.agent.transfers import StorageAccess
from fairway_simulator.batch.simulator import BatchSimulator
from fairway_simulator.faults import Fault, Faults

__all__ = ["BatchSimulator", "Fault", "Faults", "StorageAccess"]

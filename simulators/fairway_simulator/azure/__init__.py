"""A loopback stand-in for Azure Resource Manager, for plans without an Azure account.

It answers the requests with which the azurerm provider plans an environment's stacks, from its own
rules and from what a test has put into its store. Scale sets have instances that come, fail and go,
limited quotas and capacity, and operations that outlast an answer. With `rights`, as the stacks of
an environment assign them, everything else is forbidden; without, nothing is. Nothing leaves the
machine.

>>> with ControlPlane(folder) as plane:  # doctest: +SKIP
...     subprocess.run(["terraform", "plan"], env={**os.environ, **plane.environment()})
"""

from fairway_simulator.azure.control_plane import ControlPlane

__all__ = ["ControlPlane"]

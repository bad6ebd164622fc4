"""A loopback stand-in for Azure Resource Manager, for plans without an Azure account.

It answers what the azurerm provider asks to plan an environment's stacks, and with what a test has
put into its store. Scale sets have instances that come, fail and go, quotas and capacity that end,
and work that goes on after an answer. With `rights`, as the stacks of an environment assign them,
all else is forbidden; without, nothing is. Nothing leaves the machine.

>>> with ControlPlane(folder) as plane:  # doctest: +SKIP
...     subprocess.run(["terraform", "plan"], env={**os.environ, **plane.environment()})
"""

from fairway_simulator.azure.control_plane import ControlPlane

__all__ = ["ControlPlane"]

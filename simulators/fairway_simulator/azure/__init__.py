"""A loopback stand-in for Azure Resource Manager, for plans without an Azure account.

It keeps what is put, answers with it, and adds what each service would have added: enough
for the azurerm provider to plan and apply an environment's stacks. Scale sets have instances that
come, fail and go, quotas and capacity that end, and work that goes on after an answer. With
`rights`, as the stacks of an environment assign them, all else is forbidden; without, nothing is.
Nothing leaves the machine.

>>> with ControlPlane(folder) as plane:  # doctest: +SKIP
...     subprocess.run(["terraform", "apply"], env={**os.environ, **plane.environment()})
"""

from fairway_simulator.azure.control_plane import ControlPlane

__all__ = ["ControlPlane"]

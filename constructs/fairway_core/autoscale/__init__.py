"""Scaling of Azure Batch pools: named scenarios, and the formulas for them.

A scenario is what the user asks for; `scale_formula` writes it in Batch's formula language, which
Batch evaluates at an interval. `check_formula` checks a formula that a user wrote.

>>> shape = PoolShape(minimum=0, maximum=8, spot=True, mpi=True)
>>> print(scale_formula(Autoscale(scenario="weekend"), shape).splitlines()[-2])
$TargetLowPriorityNodes = total;
"""

from fairway_core.autoscale.formula import PoolShape as PoolShape
from fairway_core.autoscale.formula import check_formula as check_formula
from fairway_core.autoscale.formula import iso_duration as iso_duration
from fairway_core.autoscale.formula import scale_formula as scale_formula
from fairway_core.autoscale.scenario import Autoscale as Autoscale
from fairway_core.autoscale.scenario import ScenarioName as ScenarioName

"""Rules on the place of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway_core.catalog.regions import regions
from fairway_core.checks.check import Fault, Subject, check
from fairway_core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fairway_core.checks.check import Place
    from fairway_core.checks.subjects import EnvironmentSubject


def _location(subject: EnvironmentSubject) -> Iterator[Place]:
    yield ("location",), {"location": subject.environment.location}


@check("unknown-region", Severity.WARNING, Subject.ENVIRONMENT, at=_location)
def unknown_region(location: str) -> Iterator[Fault]:
    """A region that the catalogue does not know: a slip of the pen, or newer than Fairway.

    Wrong:
        location: southcentralusa

    Right:
        location: southcentralus
    """
    if location not in regions():
        from fairway_core.spelling import did_you_mean

        listed = "if Azure has it, ignore this: az account list-locations --output table"
        hint = did_you_mean(location, regions())
        yield Fault(f"no region `{location}` is known", f"{hint}\n{listed}" if hint else listed)

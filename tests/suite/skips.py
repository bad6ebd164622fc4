"""A test that is skipped in CI fails there, unless it does not apply to this engine or machine."""

import os
from collections.abc import Generator

import pytest

IN_CI = os.environ.get("CI") == "true"
# Valid reasons for a skip in CI: the test does not apply to this engine or this machine.
MAY_SKIP = (
    "a run on this machine is known here alone",
    "apt is what Debian and Ubuntu have",
    "no process of the run's waits there",
    "only a real control plane can be asked this",
    "only the stand-in can be told this",
    "refused there",
    "root may read everything",
    "this file system takes Unicode only",
    "this machine has Docker",
)
# Further reasons if CI is not root; `.ci/run` is.
ROOT_ONLY = (
    "accounts are made by root",
    "needs root",
    "nodes share this machine's processes: it takes root",
    "only root can be somebody else",
    "only root could give files to another",
    "slurmctld and slurmd are started as root here",
    "this machine lets nobody make a mount namespace",
)


def _skipped_for_good_reason(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns any other skip in CI into a failure, as all that tests need is installed there."""
    if not IN_CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    assert isinstance(report.longrepr, tuple)
    reason = report.longrepr[2].removeprefix("Skipped: ")
    if not reason.startswith(MAY_SKIP if os.geteuid() == 0 else MAY_SKIP + ROOT_ONLY):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Checks the reason of a skipped test."""
    report = yield
    _skipped_for_good_reason(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Checks the reason of a skipped module."""
    report = yield
    _skipped_for_good_reason(report)
    return report

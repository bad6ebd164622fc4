"""Time and memory of complete commands, two in turn, so that changes of load cancel out."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Command:
    """A program with its arguments, added environment and working directory."""

    arguments: Sequence[str | Path]
    environment: Mapping[str, str] | None = None
    directory: Path | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the program in its own session and discards its output."""
        # Modules are compiled once, as by pip during installation, and not at each start.
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return subprocess.Popen(
            [str(argument) for argument in self.arguments],
            env={**inherited, **(self.environment or {})},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
PYTHON = BIN / "python"


@dataclass(frozen=True)
class Pair:
    """Medians of one figure of two commands that ran in turn, and of their ratio per run."""

    ours: float
    reference: float
    ratio: float

    @classmethod
    def of(cls, figures: Sequence[tuple[float, float]]) -> Pair:
        """Returns the medians of the measured pairs, of which Fairway's figure is the first."""
        ours, reference = (median(each) for each in zip(*figures, strict=True))
        return cls(ours, reference, median(a / b for a, b in figures))


@dataclass(frozen=True)
class Benchmark:
    """A comparison; `limit` applies to the ratio, or to Fairway's figure in MiB: seconds would hold
    only on one idle machine."""

    name: str
    against: str
    limit: float
    measure: Callable[[Path], Pair]
    unit: str = "×"

    def result(self, pair: Pair) -> float:
        """Returns the figure to compare with the limit: Fairway's MiB, or the ratio."""
        return pair.ours if self.unit == "MiB" else pair.ratio


def side_by_side(
    figure: Callable[[Command], float], ours: Command, reference: Command, runs: int
) -> Pair:
    """Measures a figure of both commands in turn, after one warm-up of each."""
    figure(ours), figure(reference)
    return Pair.of([(figure(ours), figure(reference)) for _ in range(runs)])


def seconds(command: Command) -> float:
    """Returns the wall time of one run in seconds."""
    begin = time.perf_counter()
    code = command.start().wait()
    spent = time.perf_counter() - begin
    assert code == 0, f"{command.arguments} failed with {code}"
    return spent


def cpu_seconds(command: Command) -> float:
    """Returns the processor time of one run in seconds, including programs that it waited for.
    Other load on the machine changes it less than the wall time."""
    process = command.start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command.arguments} failed with {process.returncode}"
    return used.ru_utime + used.ru_stime


def peak_mebibytes(command: Command) -> float:
    """Returns the peak of the resident memory of all processes of one run, in MiB."""
    process = command.start()
    peak = os.sysconf("SC_PAGE_SIZE")  # of a program that ends before the first poll
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        time.sleep(0.005)
    assert process.returncode == 0, f"{command.arguments} failed with {process.returncode}"
    return peak / 2**20


def _resident(session: int) -> int:
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        try:
            if os.getsid(int(entry.name)) == session:
                total += int(Path(entry.path, "statm").read_text().split()[1]) * page
        except (OSError, IndexError):
            continue  # the process has ended
    return total

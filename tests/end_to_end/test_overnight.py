"""The example of an unattended run, as its README describes it."""

import shutil
import subprocess
import sys
from pathlib import Path

from program import Fairway

EXAMPLE = Path(__file__).parents[2] / "examples" / "overnight"


def test_overnight_example_fails_once_continues_and_notifies(fairway: Fairway) -> None:
    folder = fairway.folder / "overnight"
    shutil.copytree(EXAMPLE, folder)
    words = [sys.executable, str(folder / "listen.py"), "1", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listener:
        url = listener.stdout.readline().split()[-1]
        run = fairway.submit(folder / "job.yaml", "-s", f"notify.webhook={url}")
        assert listener.stdout.readline().startswith(f"{run} succeeded after ")
        assert listener.wait() == 0
    listed = fairway.within("list", "--tag", "nightly", "--columns", "metric:distance,note").stdout
    assert run in listed
    assert "fails once on purpose" in listed
    log = fairway.within("logs", run, "--grep", "fairway:|goes on").stdout.splitlines()
    assert log[0].startswith("fairway: attempt 2: the one before ended with exit code 1; the check")
    assert log[1] == "goes on from step 120"
    assert fairway.within("note", "overnight", "fails once, and gets there").returncode == 0
    assert fairway.show(run)["note"] == "fails once, and gets there"

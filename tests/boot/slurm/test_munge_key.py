"""The scheduler's program that replaces the munge key, with stand-ins for the programs it calls."""

from collections.abc import Callable
from pathlib import Path

import pytest
from programs import executable, finished

SCRIPT = "constructs/fairway_constructs/cloud_init/munge_key.sh"
NODES = """\
NodeName=nd-0 Arch=x86_64 NodeAddr=10.0.0.10 State=ALLOCATED+CLOUD ThreadsPerCore=1
NodeName=nd-1 NodeAddr=10.0.0.11 State=IDLE+CLOUD Reason=NodeAddr=a NodeAddr=10.9 State=POWERED_DOWN
NodeName=nd-2 NodeAddr=nd-2 NodeHostName=nd-2 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1
NodeName=nd-3 NodeAddr=10.0.0.13 NodeHostName=nd-3 State=IDLE+CLOUD+POWERING_DOWN ThreadsPerCore=1
"""

Run = Callable[[str], tuple[int, list[str], str]]


@pytest.fixture
def run(repository: Path, tmp_path: Path) -> Run:
    """Returns a function that runs the program while ssh fails for lines with a text, or
    `scontrol`. It returns the exit code, the calls and the errors."""

    def run(fails: str) -> tuple[int, list[str], str]:
        log, bin_ = tmp_path / "log", tmp_path / "bin"
        bin_.mkdir(exist_ok=True)
        (tmp_path / "settings").write_text("ADMIN=azureuser\n")
        (tmp_path / "nodes").write_text(NODES)
        programs = {
            "scontrol": f"case scontrol in {fails}) exit 1 ;; esac; cat {tmp_path / 'nodes'}",
            "munge": "echo MUNGE:signed",
            "python3": f'echo "key ${{!#}}" >>{log}',
            "runuser": f'read -r given; shift 3; line="${{*:6}}"; echo "$line" >>{log}\n'
            f'case "$line $given" in {fails}) exit 255 ;; esac',
        }
        for name, text in programs.items():
            executable(bin_ / name, f"#!/bin/bash\n{text}\n")
        done = finished(
            ["bash", str(repository / SCRIPT)],
            env={"PATH": f"{bin_}:/usr/bin:/bin", "FAIRWAY_SETTINGS": str(tmp_path / "settings")},
        )
        did = log.read_text().splitlines() if log.exists() else []
        return done.returncode, did, done.stderr

    return run


def test_munge_key_is_replaced_on_running_nodes_and_last_on_the_scheduler(run: Run) -> None:
    status, did, said = run("nothing")
    assert status == 0, said
    reads = "sudo -n systemctl start fairway-munge-key.service"
    assert sorted(did[:2]) == ["10.0.0.10 sudo -n true", "10.0.0.11 sudo -n true"]
    assert did[2] == "key --new"
    assert sorted(did[3:5]) == [f"10.0.0.10 {reads}", f"10.0.0.11 {reads}"]
    assert did[5] == "key --read"
    assert sorted(did[6:]) == ["10.0.0.10 sudo -n unmunge", "10.0.0.11 sudo -n unmunge"]
    assert "the scheduler and 2 nodes have the new key" in said


@pytest.mark.parametrize(
    ("fails", "changes", "says"),
    [
        ("scontrol", False, ("is slurmctld up?", "nothing was changed")),
        ("'10.0.0.11 sudo -n true '", False, ("not on nd-1", "nothing was changed")),
        (
            "'10.0.0.10 sudo -n unmunge MUNGE:signed'",
            True,
            ("not on nd-0", "repeat this within two minutes"),
        ),
    ],
)
def test_munge_key_program_says_who_is_unreachable_or_lacks_the_key(
    run: Run, fails: str, changes: bool, says: tuple[str, str]
) -> None:
    """Nothing changes but in the last case, in which the other nodes continue."""
    status, did, said = run(fails)
    assert status == 1
    keys = [line for line in did if line.startswith("key")]
    assert keys == ["key --new", "key --read"] * changes
    assert all(each in said for each in says)

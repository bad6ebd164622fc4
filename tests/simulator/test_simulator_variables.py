"""Environment file in which commands find simulators: several simulators share it."""

import os
from pathlib import Path

import pytest
from programs import finished

from fairway_simulator.command import published


def _sourced(file: Path, *names: str) -> list[str]:
    echo = "; ".join(f'echo "${name}"' for name in names)
    done = finished(["bash", "-c", f'source "$1"; {echo}', "bash", file], check=True)
    return done.stdout.splitlines()


def test_simulator_variables_file_exists_while_the_simulator_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sim.env"
    with published({"KEY": "a b'c"}, file, "SIM_PID"):
        assert file.stat().st_mode & 0o777 == 0o600
        assert _sourced(file, "KEY", "SIM_PID") == ["a b'c", str(os.getpid())]
        assert capsys.readouterr().out == """export KEY='a b'"'"'c'\n"""
    assert [*tmp_path.iterdir()] == []
    with published({"KEY": "value"}, None, "SIM_PID"):
        assert capsys.readouterr().out == "export KEY=value\n"
    with published({"A": "a"}, file):
        file.unlink()  # removed by the user meanwhile
    assert not file.exists()


def test_simulator_variables_of_two_simulators_are_removed_separately(tmp_path: Path) -> None:
    file = tmp_path / "sim.env"
    file.write_text("export MINE=1")
    with published({"A": "a"}, file):
        with published({"B": "b"}, file):
            assert _sourced(file, "MINE", "A", "B") == ["1", "a", "b"]
        assert _sourced(file, "MINE", "A", "B") == ["1", "a", ""]
    assert file.read_text() == "export MINE=1\n"


def test_simulator_variables_of_the_newer_of_two_alike_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "sim.env"
    first, second = published({"URL": "1"}, file), published({"URL": "2"}, file)
    first.__enter__()
    second.__enter__()
    assert file.read_text() == "export URL=2\n"
    first.__exit__(None, None, None)
    assert file.read_text() == "export URL=2\n"
    second.__exit__(None, None, None)
    assert not file.exists()

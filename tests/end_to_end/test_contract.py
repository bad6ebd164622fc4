"""The environment of a job's program: arguments, variables, and its contract with the engine."""

import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from program import Fairway
from programs import finished

PYTHON = shlex.quote(sys.executable)

# Each rank writes its arguments and environment to its own file.
REPORT = """
import json, os, sys
facts = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
path = os.path.join(sys.argv[1], "rank" + os.environ["OMPI_COMM_WORLD_RANK"] + ".json")
with open(path, "w") as file:
    json.dump(facts, file)
"""

NASTY = [
    *("it's", 'say "hi"', "two\nlines\n", "$(touch pwned)", "`touch pwned`", "${HOME} $0 $$"),
    *("a; touch pwned & echo | cat > pwned", "-n", "--help", "naïve ☃ 🚀", "*", "?[a-z]{a,b}", "~"),
    *("", " ", "\t", "a\\b\\n\\", "!history", "#no comment", "%s %d", "\x1b[31m", ":"),
    *("{{ name }}", "[1, 2]", "a=b", "\r"),
]


def reports(folder: Path, ranks: int) -> list[dict[str, Any]]:
    """Returns the reports of the ranks, whose number must be right."""
    assert len(list(folder.glob("rank*.json"))) == ranks
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A command that reports its arguments and its environment."""
    (tmp_path / "report.py").write_text(REPORT)
    return f"{PYTHON} {shlex.quote(str(tmp_path / 'report.py'))} {shlex.quote(str(tmp_path))}"


class TestWhatReachesTheProgram:
    """Quoting, the environment, and the contract between engine and launcher."""

    def test_contract_passes_arguments_and_variables_unchanged(
        self, fairway: Fairway, program: str
    ) -> None:
        job = fairway.job(
            program + " {{ params.one }} {{ params.all }} -- {{ params.all }}",
            params={"one": NASTY[0] + "\n" + NASTY[1], "all": NASTY},
            env={f"NASTY_{index}": text for index, text in enumerate(NASTY)},
            processes_per_node=2,
        )
        fairway.watch(job)
        for report in reports(fairway.folder, 2):
            assert report["argv"] == [f"{NASTY[0]}\n{NASTY[1]}", *NASTY, "--", *NASTY]
            # The value of an environment variable is a template, that of a parameter is not.
            arrived = [report["env"].get(f"NASTY_{n}") for n in range(len(NASTY))]
            assert arrived == [text.replace("{{ name }}", "job") for text in NASTY]
        assert not list(fairway.folder.rglob("pwned"))

    def test_contract_variables_are_set_for_every_rank(
        self, fairway: Fairway, program: str
    ) -> None:
        nodes, width = 3, 2
        job = fairway.job(
            program, nodes=nodes, processes_per_node=width, outputs={"model": {}, "Log_2": {}}
        )
        # Variables of an outer run are not passed to this run.
        outer = {"FAIRWAY_OUTPUT_OLD": "/old", "FAIRWAY_TASK": "7", "FAIRWAY_RUN": "outer"}
        run = fairway.ok("submit", job, "--watch", "--json", **outer)
        run_id = json.loads(run)["run_id"]
        folder = fairway.folder / ".fairway" / "runs" / run_id
        for report in reports(fairway.folder, nodes * width):
            prefix = "FAIRWAY_"
            env = {n.removeprefix(prefix): v for n, v in report["env"].items() if prefix in n[:8]}
            directories = {n: Path(v) for n, v in env.items() if Path(v).is_dir()}
            wanted = {"SHARED_DIR", "CHECKPOINT_DIR", "OUTPUT_MODEL", "OUTPUT_LOG_2"}
            assert wanted <= set(directories)
            assert all(path.is_relative_to(folder) for path in directories.values())
            known = {"RUN": run_id, "TASK": "0", "ATTEMPT": "0", "GRACE": "10", "NODES": "3"}
            known |= {"PROCESSES_PER_NODE": "2", "WORLD_SIZE": "6", "MAIN_HOST": "localhost"}
            known |= {"HOSTS": "localhost,localhost,localhost"}
            assert known.items() <= env.items()
            assert Path(env["HOSTFILE"]).read_text() == "localhost\n" * nodes
            assert env["EACH_NODE"]
            assert "MPI_ARGS" in env
            assert "OUTPUT_OLD" not in env
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", int(env["MAIN_PORT"])))

    def test_contract_checkpoint_folder_is_new_for_each_run_unless_given(
        self, fairway: Fairway
    ) -> None:
        more = (
            'cat "$FAIRWAY_CHECKPOINT_DIR/n" 2>/dev/null; echo more >>"$FAIRWAY_CHECKPOINT_DIR/n"'
        )
        job = fairway.job(more)
        assert "more" not in fairway.watch(job)
        assert "more" not in fairway.watch(job)
        given = ("-s", "checkpoint={directory: kept/here}")
        assert "more" not in fairway.watch(job, *given)
        assert "more" in fairway.watch(job, *given)
        assert (fairway.folder / "kept" / "here" / "n").read_text() == "more\nmore\n"

    def test_submit_works_without_home_and_imports_no_modules_of_the_job_folder(
        self, fairway: Fairway
    ) -> None:
        for name in ("json", "socket", "signal", "fairway_runner"):
            (fairway.folder / f"{name}.py").write_text("raise SystemExit('shadowed')")
        command = fairway.command("submit", fairway.job("echo up"), "--watch")
        run = finished(["env", "-u", "HOME", *command], cwd=fairway.folder)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "up" in run.stdout

    def test_submit_works_in_folders_with_spaces_and_quotes(self, fairway: Fairway) -> None:
        job_folder = fairway.folder / 'a job\'s "folder" $HOME'
        current = fairway.folder / "where 'I' am; *"
        job_folder.mkdir()
        current.mkdir()
        (job_folder / "mine.txt").write_text("found\n")
        job = fairway.job("cat mine.txt", processes_per_node=2)
        job = job.rename(job_folder / "job.yaml")
        run = fairway.ok("submit", job, "--watch", cwd=current)
        assert run.count("found\n") == 2

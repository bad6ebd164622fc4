"""Runs that are the same on every engine, each of which is started once for a worker's tests."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from program import Fairway, Pipe, Place
from programs import executable
from waiting import without_delays

from fairway_runner.runs.store import FINAL_STATES

HOSTILE = "-a b'\"$(touch owned) `x` \\ é\n; exit 9"


WORDS = "'a b' \"it's\" '$HOME' '*' ''"
# Prints each node's contract and arguments, and writes into each of its folders.
SHOW = """
import json, os, pathlib, sys
names = "RUN TASK ATTEMPT NODE_RANK NODES PROCESSES_PER_NODE WORLD_SIZE HOSTS MAIN_HOST MAIN_PORT"
own = {name: os.environ["FAIRWAY_" + name] for name in names.split()}
for name in ("SHARED_DIR", "CHECKPOINT_DIR", "SCRATCH_DIR", "OUTPUT_MODEL"):
    pathlib.Path(os.environ["FAIRWAY_" + name], "x" + own["NODE_RANK"]).touch()
own["words"], own["folder"] = [*sys.argv[1:], os.environ["TOLD"]], os.getcwd()
if own["NODE_RANK"] == "0":
    own["hostfile"] = pathlib.Path(os.environ["FAIRWAY_HOSTFILE"]).read_text().split()
print(json.dumps(own), flush=True)
"""


def facts_of(fairway: Fairway, run: str) -> dict[str, Any]:
    """Returns the facts from `show --json` of a run that has ended."""
    facts = fairway.show(run)
    assert facts["state"] in FINAL_STATES, facts
    return facts


def watched(
    fairway: Fairway, place: Place, command: str, *arguments: str, **fields: Any
) -> tuple[int, str, str]:
    """Runs a job with `submit --watch`, by the template `plain` unless another is named. Returns
    its exit code, its run's id and what was printed."""
    job = fairway.job(command, **{"template": "plain", **fields})
    done = fairway.within("submit", job, "--target", place.name, "--watch", "--json", *arguments)
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["exit_code"] == done.returncode, done.stderr
    return done.returncode, facts["run_id"], without_delays(done.stderr)


class TestOneTask:
    """A job without a sweep."""

    def test_run_output_is_followed_and_kept(self, fairway: Fairway, place: Place) -> None:
        code, run, log = watched(fairway, place, "echo to out; echo to err >&2")
        assert code == 0
        assert log == "to out\nto err\n"
        assert fairway.within("logs", run).stdout == log
        assert fairway.within("logs", run, "--tail", "1", "--grep", "to").stdout == "to err\n"
        facts = facts_of(fairway, run)
        assert (facts["target"], facts["state"]) == (place.name, "succeeded")
        [task] = facts["task_list"]
        assert (task["exit_code"], task["attempts"]) == (0, 1)
        assert task["seconds"] is not None

    def test_run_that_fails_ends_watch_and_wait_with_its_exit_code(
        self, fairway: Fairway, place: Place
    ) -> None:
        code, run, log = watched(fairway, place, "echo bad; exit 7")
        assert (code, log) == (7, "bad\n")
        assert fairway.within("wait", run).returncode == 7
        facts = facts_of(fairway, run)
        assert facts["state"] == "failed"
        assert facts["task_list"][0]["exit_code"] == 7

    @pytest.mark.one_engine("local")
    def test_run_accepts_a_timeout_of_100_years(self, fairway: Fairway, place: Place) -> None:
        """The kernel cannot be asked to wait longer than 24.8 days."""
        limits = {"timeout": "36500d", "checkpoint": {"grace": "30d"}, "retries": 1}
        code, run, log = watched(fairway, place, "echo done", **limits)
        assert (code, log) == (0, "done\n"), facts_of(fairway, run)

    def test_run_passes_contract_and_arguments_to_every_node(
        self, fairway: Fairway, place: Place
    ) -> None:
        nodes = min(3, place.nodes)
        (fairway.folder / "show.py").write_text(SHOW)
        job = {"nodes": nodes, "processes_per_node": 2, "outputs": {"model": {}}}
        command = f"export TOLD='two words'; $FAIRWAY_EACH_NODE python show.py {WORDS}"
        code, run, log = watched(fairway, place, command, **job)
        assert code == 0, log
        found = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        found.sort(key=lambda each: each["NODE_RANK"])
        assert [each["NODE_RANK"] for each in found] == [str(rank) for rank in range(nodes)]
        hosts = found[0]["HOSTS"].split(",")
        assert len(set(hosts)) == nodes
        assert found[0]["hostfile"] == hosts
        for each in found:
            assert each["words"] == ["a b", "it's", "$HOME", "*", "", "two words"]
            assert (each["RUN"], each["TASK"], each["ATTEMPT"]) == (run, "0", "0")
            counts = [each[name] for name in ("NODES", "PROCESSES_PER_NODE", "WORLD_SIZE")]
            assert counts == [str(nodes), "2", str(2 * nodes)]
            assert (each["HOSTS"].split(","), each["MAIN_HOST"]) == (hosts, hosts[0])
            assert 1024 < int(each["MAIN_PORT"]) < 65536
            assert each["MAIN_PORT"] != "6000", "which Batch keeps to itself"
        # The job's code is in the run's folder, whose path is the same on all nodes that share it.
        assert len({each["folder"] for each in found}) == 1

    def test_run_passes_params_with_special_characters_unchanged(
        self, fairway: Fairway, place: Place
    ) -> None:
        fields = {"params": {"text": HOSTILE}, "env": {"VALUE": HOSTILE}}
        code, _, log = watched(fairway, place, "printf %s {{ params.text }}", **fields)
        assert (code, log) == (0, HOSTILE)
        assert not (fairway.folder / "owned").exists()

    def test_run_keeps_outputs_according_to_when_pattern_and_exclude(
        self, fairway: Fairway, place: Place
    ) -> None:
        outputs = {
            "model": {"pattern": "model/*.npz", "when": "success"},
            "trace": {"when": "always"},
            "core": {"when": "failure"},
            "plots": {},
            "part": {
                "pattern": ["part/*.npz", "part/deep/**"],
                "exclude": ["*.tmp", "part/deep/cache/*"],
            },
        }
        filled = [name for name in outputs if name != "plots"]
        writes = "; ".join(f'echo {n} > "$FAIRWAY_OUTPUT_{n.upper()}/a.npz"' for n in filled)
        writes += '; cd "$FAIRWAY_OUTPUT_PART"; mkdir -p deep/cache; touch b.txt deep/b.txt '
        writes += "deep/.tmp deep/c.tmp deep/cache/d"
        for ending, kept in (("exit 3", {"core", "trace"}), ("true", {"model", "trace"})):
            command = f"echo {ending}; {writes}; {ending}"
            _, run, _ = watched(fairway, place, command, outputs=outputs)
            fetched = fairway.within("fetch", run, "--to", run, "--json")
            assert fetched.returncode == 0, fetched.stderr
            lacking = [{"run_id": run, "task": "0", "output": "plots", "was_empty": True}]
            assert json.loads(fetched.stdout)["lacking"] == (lacking if ending == "true" else [])
            files = set(json.loads(fetched.stdout)["files"])
            part = {"0/part/a.npz", "0/part/deep/b.txt"} if ending == "true" else set()
            assert files == {"0/log.txt"} | part | {f"0/{name}/a.npz" for name in kept}
            for name in kept:
                assert (fairway.folder / run / "0" / name / "a.npz").read_text() == f"{name}\n"

    def test_rerun_uses_the_code_of_the_first_submission(
        self, fairway: Fairway, place: Place
    ) -> None:
        (fairway.folder / "pkg").mkdir()
        (fairway.folder / "pkg" / "words.txt").write_text("first\n")
        executable(fairway.folder / "tool.sh", "cat pkg/words.txt")
        code, run, log = watched(fairway, place, "./tool.sh")
        assert (code, log) == (0, "first\n")
        (fairway.folder / "pkg" / "words.txt").write_text("second\n")
        again = fairway.ok("rerun", run)
        new = again.split()[0]
        assert new != run
        assert fairway.within("wait", new).returncode == 0
        assert fairway.within("logs", new).stdout == "first\n"
        changed = fairway.ok("rerun", run, "-s", "command=./tool.sh; echo more", "--json")
        facts = json.loads(changed)
        assert facts["changes"] == {"command": ["./tool.sh", "./tool.sh; echo more"]}
        assert facts["target"] == place.name
        assert fairway.within("wait", facts["run_id"]).returncode == 0
        assert fairway.within("logs", facts["run_id"]).stdout == "first\nmore\n"

    def test_run_with_a_failing_setup_fails_with_its_exit_code(
        self, fairway: Fairway, place: Place
    ) -> None:
        code, run, _ = watched(fairway, place, "echo never", setup="echo no >&2; exit 5")
        assert code == 5
        assert "never" not in fairway.within("logs", run).stdout
        facts = facts_of(fairway, run)
        assert (facts["state"], facts["reason"]) == ("failed", "the setup failed with exit code 5")

    def test_run_over_its_timeout_ends_with_exit_code_124(
        self, fairway: Fairway, place: Place
    ) -> None:
        limits = {"timeout": "2s", "checkpoint": {"grace": "1s"}}
        code, run, _ = watched(fairway, place, "trap '' USR1; sleep 300", **limits)
        assert code == 124
        facts = facts_of(fairway, run)
        assert facts["task_list"][0]["timed_out"]
        assert facts["reason"] == "it was over its timeout of 2.0s"

    @pytest.mark.parametrize(
        ("limit", "reason"),
        [
            ({"max_duration": "1.5s"}, "it was over its max_duration of 1.5s"),
            ({"max_cost": 1.5}, "it was over its max_cost of 1.50 USD"),
        ],
        ids=["time", "cost"],
    )
    @pytest.mark.one_engine("local")
    def test_run_over_max_duration_or_max_cost_ends_with_exit_code_124(
        self, fairway: Fairway, place: Place, limit: dict[str, Any], reason: str
    ) -> None:
        """Even if its tasks have attempts left and others have not started yet."""
        project = json.loads(place.project or '{"targets": [{"name": "local"}]}')
        project["targets"][0]["price"] = 3600  # a dollar a second
        (fairway.folder / "fairway.yaml").write_text(json.dumps(project))
        sweep = {"max_parallel": 1, "points": [{"grid": {"x": [1, 2]}}]}
        fields = {**limit, "retries": 3, "checkpoint": {"grace": "1s"}}
        job = fairway.job("sleep 30{{ params.x }}", template="plain", sweep=sweep, **fields)
        done = fairway.within("submit", job, "--target", place.name, "--watch", "--json")
        assert done.returncode == 124, done.stderr
        facts = facts_of(fairway, json.loads(done.stdout)["run_id"])
        assert (facts["state"], facts["limit"], facts["reason"]) == ("failed", *limit, reason)
        assert facts["task_states"] == {"failed": 1, "cancelled": 1}
        assert [task["attempts"] for task in facts["task_list"]] == [1, 0]

    def test_run_retries_a_failed_task_until_it_succeeds(
        self, fairway: Fairway, place: Place
    ) -> None:
        command = 'echo attempt $FAIRWAY_ATTEMPT; test "$FAIRWAY_ATTEMPT" = 2'
        code, run, log = watched(fairway, place, command, retries=2)
        assert code == 0
        why = "the one before ended with exit code 1"
        second = f"fairway: attempt 2: {why}\nattempt 1\n"
        assert log == f"attempt 0\n{second}fairway: attempt 3: {why}\nattempt 2\n"
        assert fairway.within("logs", run, "--attempt", "2").stdout == second
        refused = fairway.within("logs", run, "--attempt", "4")
        assert (refused.returncode, "its attempts are 1 to 3" in refused.stderr) == (2, True)
        assert facts_of(fairway, run)["task_list"][0]["attempts"] == 3

    def test_cancel_ends_all_processes_of_the_run(
        self, fairway: Fairway, place: Place, pipe: Pipe
    ) -> None:
        held = f"exec 9>{pipe.path}; echo up >&9; sleep 300 & wait"
        run = fairway.submit(fairway.job(held, template="plain"), "--target", place.name)
        pipe.lines(1)
        cancelled = fairway.within("cancel", run)
        assert (cancelled.returncode, cancelled.stdout) == (0, f"{run} cancelled\n")
        assert fairway.within("wait", run).returncode == 130
        pipe.rest()  # returns when no process of the job is left

    @pytest.mark.one_engine("local")
    def test_cancel_of_one_task_keeps_the_others_running(
        self, fairway: Fairway, place: Place, pipe: Pipe
    ) -> None:
        """Cancels a running task, which is not retried, and a waiting one; a retry runs both."""
        first = '[ "$FAIRWAY_TASK$FAIRWAY_ATTEMPT" = 00 ]'
        held = f"if {first}; then exec 9>{pipe.path}; echo up >&9; sleep 300 & wait; fi"
        sweep = {"max_parallel": 1, "points": [{"repeat": 3}]}
        job = fairway.job(held, template="plain", sweep=sweep, retries=2)
        run = fairway.submit(job, "--target", place.name)
        pipe.lines(1)
        refused = fairway.within("cancel", run, "--task", "3")
        assert (refused.returncode, f"{run} has no task 3" in refused.stderr) == (2, True)
        ended = fairway.within("cancel", run, "--task", "2")
        assert (ended.returncode, ended.stdout) == (0, f"{run} task 2 cancelled\n"), ended.stderr
        done = fairway.within("cancel", run, "--task", "0", "--json")
        [fact] = json.loads(done.stdout)
        assert (fact["task"], fact["task_state"]) == ("0", "cancelled"), done.stderr
        pipe.rest()  # returns when no process of the task is left
        assert fairway.within("wait", run).returncode == 130
        facts = facts_of(fairway, run)
        found = [(each["state"], each["attempts"]) for each in facts["task_list"]]
        assert found == [("cancelled", 1), ("succeeded", 1), ("cancelled", 0)]
        assert facts["task_states"] == {"cancelled": 2, "succeeded": 1}
        again = fairway.within("cancel", run, "--task", "1")
        assert (again.returncode, again.stdout) == (0, f"{run} task 1 succeeded\n")
        assert fairway.within("retry", run).returncode == 0
        assert fairway.within("wait", run).returncode == 0
        facts = facts_of(fairway, run)
        assert [each["attempts"] for each in facts["task_list"]] == [2, 1, 1]

    @pytest.mark.one_engine("local")
    def test_retry_of_a_cancelled_run_continues_from_its_checkpoint(
        self, fairway: Fairway, place: Place, pipe: Pipe
    ) -> None:
        command = (
            'state="$FAIRWAY_CHECKPOINT_DIR/state"\n'
            'if [ -e "$state" ]; then cat "$state"; exit; fi\n'
            f"trap 'echo saved > \"$state\"; exit 143' TERM; exec 9>{pipe.path}; echo up >&9\n"
            "while :; do sleep 0.1; done"
        )
        job = fairway.job(command, template="plain", checkpoint={"grace": "20s"})
        run = fairway.submit(job, "--target", place.name)
        pipe.lines(1)
        assert fairway.within("cancel", run).returncode == 0
        fairway.ok("retry", run)
        assert fairway.within("wait", run).returncode == 0
        assert fairway.within("logs", run).stdout.endswith("saved\n")
        assert facts_of(fairway, run)["task_list"][0]["attempts"] == 2


class TestManyTasks:
    """A sweep."""

    SWEEP: ClassVar = {"max_parallel": 2, "points": [{"grid": {"x": [1, 2, 3, 4]}}]}

    def test_sweep_makes_a_task_for_each_point_and_reports_the_best(
        self, fairway: Fairway, place: Place
    ) -> None:
        fields = {"metrics": {"loss": "loss=([0-9.]+)"}, "finally": {"command": "echo last"}}
        command = "echo loss={{ params.x }}.5"
        code, run, _ = watched(fairway, place, command, sweep=self.SWEEP, **fields)
        assert code == 0
        facts = facts_of(fairway, run)
        assert [task["params"] for task in facts["task_list"][:4]] == [
            {"x": n} for n in range(1, 5)
        ]
        assert facts["task_states"] == {"succeeded": 5}
        best = json.loads(fairway.within("best", run, "--min", "--json").stdout)
        assert (best["task"], best["value"]) == (0, 1.5)
        logs = fairway.within("logs", run).stdout
        assert "[2] loss=3.5\n" in logs
        assert "[finally] last\n" in logs
        page = fairway.within("report", run, "-o", "page.html")
        assert page.returncode == 0, page.stderr
        assert "loss" in (fairway.folder / "page.html").read_text()

    @pytest.mark.one_engine("local")
    def test_sweep_finally_task_reads_the_outputs_of_all_tasks(
        self, fairway: Fairway, place: Place, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        fixed = tmp_path_factory.mktemp("fixed") / "yes"
        each = "echo {{ params.x }} | tee $FAIRWAY_OUTPUT_PART/n $FAIRWAY_OUTPUT_WHY/n;"
        merge = "cd $FAIRWAY_TASKS_DIR; echo task $FAIRWAY_TASK; ls -d */* | tr '\\n' ' '\n"
        merge += "cat */part/n > $FAIRWAY_OUTPUT_SUM/all"
        command = f"{each} test {{{{ params.x }}}} != 2 || test -e {fixed}"
        fields = {
            "outputs": {"part": {}, "why": {"when": "failure"}},
            "sweep": {"points": [{"grid": {"x": [1, 2, 3]}}]},
            "finally": {"command": merge, "outputs": {"sum": {}}},
        }
        code, run, _ = watched(fairway, place, command, **fields)
        assert code == 1
        last = facts_of(fairway, run)["task_list"][-1]
        assert (last["task"], last["state"]) == ("finally", "succeeded")
        said = fairway.within("logs", run, "--task", "finally").stdout
        assert said.split() == ["task", "finally", "0/part", "1/why", "2/part"]
        assert fairway.within("fetch", run, "--to", "some", "--task", "finally").returncode == 0
        assert (fairway.folder / "some/finally/sum/all").read_text() == "1\n3\n"
        fairway.refused("fetch", run, "--task", "3", says="its tasks are 0 to 2, and finally")
        fixed.write_text("")
        fairway.ok("retry", run, "--failed")
        assert fairway.within("wait", run).returncode == 0
        assert facts_of(fairway, run)["task_list"][-1]["attempts"] == 2
        assert fairway.within("fetch", run, "--to", "all").returncode == 0
        assert (fairway.folder / "all/finally/sum/all").read_text() == "1\n2\n3\n"
        kept = {path.name for path in (fairway.folder / "all").iterdir()}
        assert kept == {"0", "1", "2", "finally"}

    def test_sweep_retry_repeats_failed_tasks_only(
        self, fairway: Fairway, place: Place, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        fixed = tmp_path_factory.mktemp("fixed") / "yes"
        command = f"echo {{{{ params.x }}}}; test {{{{ params.x }}}} != 3 || test -e {fixed}"
        code, run, _ = watched(fairway, place, command, sweep=self.SWEEP)
        assert code == 1
        facts = facts_of(fairway, run)
        assert facts["state"] == "failed"
        assert facts["task_states"] == {"succeeded": 3, "failed": 1}
        ended = facts["ended"]
        fixed.write_text("")
        again = fairway.ok("retry", run, "--failed")
        assert "1 task" in again
        assert fairway.within("wait", run).returncode == 0
        facts = facts_of(fairway, run)
        assert [task["attempts"] for task in facts["task_list"]] == [1, 1, 2, 1]
        assert facts["started"] >= ended, "it is that of the retry"


class TestTheTarget:
    """Requests to the target itself, and runs on several of its nodes."""

    @pytest.mark.one_engine("local")
    def test_target_runs_are_tagged_listed_and_cleaned(
        self, fairway: Fairway, place: Place
    ) -> None:
        _, run, _ = watched(fairway, place, "true")
        tagged = fairway.within("tag", run, "kept", "--json")
        assert json.loads(tagged.stdout)["tags"] == ["kept"], tagged.stderr
        listed = json.loads(fairway.within("list", "--tag", "kept", "--json").stdout)
        assert [each["run_id"] for each in listed] == [run]
        listed = json.loads(fairway.within("list", "--target", place.name, "--json").stdout)
        assert (run, "succeeded") in [(each["run_id"], each["state"]) for each in listed]
        fairway.ok("clean", run, "--yes")
        listed = json.loads(fairway.within("list", "--target", place.name, "--json").stdout)
        assert run not in [each["run_id"] for each in listed]

    @pytest.mark.one_engine("ssh")
    def test_target_runs_are_found_retried_and_cleaned_from_another_machine(
        self, fairway: Fairway, place: Place, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        if place.name == "local":
            pytest.skip("a run on this machine is known here alone")
        words = ("--tag", "baseline", "--note", "the first")
        command = 'echo here; echo 1 >"$FAIRWAY_OUTPUT_MODEL/m"; test $FAIRWAY_ATTEMPT = 1'
        fields = {"tags": ["vision"], "outputs": {"model": {}}}
        code, run, _ = watched(fairway, place, command, *words, **fields)
        assert code == 1
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        (elsewhere / "fairway.yaml").write_text(place.project)
        other = {"name": "other", "command": "true", "template": "plain"}
        (elsewhere / "job.yaml").write_text(json.dumps(other))
        words = ("submit", "job.yaml", "--target", place.name, "--run-id", run)
        taken = fairway.within(*words, cwd=elsewhere)
        assert (taken.returncode, "[taken-run-id]" in taken.stderr) == (2, True), taken.stderr
        assert not (elsewhere / ".fairway" / "runs" / run).exists()

        def found() -> dict[str, Any]:
            listed = fairway.ok("list", "--target", place.name, "--json", cwd=elsewhere)
            return {each["run_id"]: each for each in json.loads(listed)}

        facts = found()[run]
        assert (facts["tags"], facts["note"]) == (["vision", "baseline"], "the first")
        assert fairway.ok("logs", run, cwd=elsewhere) == "here\n"
        fairway.ok("retry", run, cwd=elsewhere)
        assert fairway.within("wait", run, cwd=elsewhere).returncode == 0
        fairway.ok("fetch", run, "--to", "got", cwd=elsewhere)
        assert (elsewhere / "got" / "0" / "model" / "m").read_text() == "1\n"
        fairway.ok("clean", run, "--yes", cwd=elsewhere)
        assert run not in found()

    @pytest.fixture
    def mpi_place(self, place: Place) -> Place:
        """The target, if it has MPI."""
        if not place.has_mpi:
            pytest.skip("needs root: each node has a host name of its own")
        return place

    def test_mpi_ranks_of_two_nodes_communicate(self, fairway: Fairway, mpi_place: Place) -> None:
        command = (
            'python -c "from mpi4py import MPI; w = MPI.COMM_WORLD; '
            'print(w.allreduce(w.rank), w.size, flush=True)"'
        )
        fields = {"template": "openmpi", "nodes": 2, "processes_per_node": 2}
        code, run, log = watched(fairway, mpi_place, command, **fields)
        assert code == 0, log
        # mpirun sometimes prints harmless warnings.
        assert fairway.within("logs", run).stdout.splitlines().count("6 4") == 4

    @pytest.mark.one_engine("ssh")
    def test_logs_of_several_ranks_are_labelled_until_the_end_of_a_cancelled_run(
        self, fairway: Fairway, place: Place, pipe: Pipe
    ) -> None:
        """Labels are the default, also for lines printed during the grace period of a cancel."""
        command = (
            "rank=$FAIRWAY_NODE_RANK\n"
            # Once: a scheduler that signals a whole step may signal a process twice.
            "trap 'trap : TERM; echo saved $rank; exit 143' TERM\n"
            "echo up $rank >&2; test $rank = 0 || echo loss=1.5\n"
            f"exec 9>{pipe.path}; echo up >&9\n"
            "while :; do sleep 0.1; done"
        )
        fields = {"metrics": {"loss": "^loss=([0-9.]+)$"}, "checkpoint": {"grace": "60s"}}
        job = fairway.job(command, template="every-node", nodes=2, **fields)
        run = fairway.submit(job, "--target", place.name, "-s", "options={}")
        pipe.lines(2)
        fairway.ok("cancel", run)
        pipe.rest()  # returns when no rank is left
        assert fairway.within("wait", run).returncode == 130
        # The shell also reports how its sleep ended.
        own = ("--grep", "^(up|loss|saved)")
        printed = fairway.within("logs", run, *own).stdout.splitlines()
        of_main = [line for line in printed if line.startswith("[0] ")]
        of_other = [line for line in printed if line.startswith("[1] ")]
        assert of_main == ["[0] up 0", "[0] saved 0"], printed
        chosen = fairway.within("logs", run, "--rank", "1", *own).stdout.splitlines()
        assert of_other == [f"[1] {line}" for line in chosen], printed
        assert chosen == ["up 1", "loss=1.5", "saved 1"]
        [task] = facts_of(fairway, run)["task_list"]
        assert (task["state"], task["metrics"]) == ("cancelled", {"loss": 1.5})

    @pytest.mark.one_engine("ssh")
    def test_mpi_starts_beside_the_folder_of_a_killed_mpirun(
        self, fairway: Fairway, mpi_place: Place
    ) -> None:
        """mpirun names its folder for its process id, which a later mpirun may have again."""
        made = 'echo $$ >number; mkdir -p "${TMPDIR:-/tmp}/ompi.$$/pmix.vm.tool"'
        gone = 'rm -r "${TMPDIR:-/tmp}/ompi.$(cat number)"'
        command = f"bash -c '{made}; exec mpirun -n 1 true'; code=$?; {gone} && exit $code"
        code, _, log = watched(fairway, mpi_place, command)
        assert code == 0, log

    @pytest.mark.one_engine("ssh")
    def test_mpi_keeps_its_temporary_files_in_a_folder_of_the_attempt(
        self, fairway: Fairway, mpi_place: Place
    ) -> None:
        """On each node this folder is removed with the attempt."""
        command = "echo at=$PMIX_SERVER_TMPDIR"
        code, run, log = watched(fairway, mpi_place, command, template="openmpi", nodes=2)
        assert code == 0, log
        printed = fairway.within("logs", run).stdout.splitlines()
        found = {Path(line[3:]).parent for line in printed if line.startswith("at=")}
        assert len(found) == 1, printed
        [own] = found
        assert "fairway" in own.as_posix()
        assert not own.exists()

    @pytest.mark.one_engine("ssh")
    def test_mpi_run_ends_with_the_exit_code_of_its_failing_rank(
        self, fairway: Fairway, mpi_place: Place
    ) -> None:
        fails = "test $OMPI_COMM_WORLD_RANK != 2 || { echo rank 2 says no; exit 11; }"
        # After MPI_Init: mpirun may hang if a rank ends while its daemons connect to each other.
        command = f'python -c "from mpi4py import MPI"; {fails}; sleep 600'
        fields = {"template": "openmpi", "nodes": 2, "processes_per_node": 2}
        code, run, log = watched(fairway, mpi_place, command, **fields)
        assert code == 11, log
        assert "rank 2 says no" in fairway.within("logs", run).stdout

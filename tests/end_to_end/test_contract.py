"""What a job's program finds, wherever the user and the job's file are."""

from program import Fairway
from programs import finished


class TestWhatReachesTheProgram:
    """The environment, and the folders of the job and of the user."""

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

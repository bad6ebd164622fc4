"""The program that labels the output of a node's ranks, executed without launchers."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairway_agent.task_logs import split_label

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[2] / "job_templates" / "_label_ranks.py.j2"

# Start of a rank as in the templates: `join N RANK` opens pipe N of the rank's node.
JOIN = """join() { exec >"$RANK_PIPES/$1" 2>&1; printf '\\0%s %s\\n' "$RANK_PIPES" "$2"; }
"""


def start(
    script: str, folder: Path, *, count: int = 2, out: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Starts the program with a script and `count` pipes."""
    words = ["-IS", "-c", PROGRAM.read_text(), "fairway-waits", str(count)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, *words, "bash", "-c", JOIN + script], env=environment, stdout=out
    )


def labelled(script: str, folder: Path, code: int = 0, *, count: int = 2) -> bytes:
    """Runs a script that exits with the code, and returns the output. No file may be left."""
    with start(script, folder, count=count) as program:
        out, _ = program.communicate(timeout=300)
    assert program.returncode == code
    assert list(folder.iterdir()) == []
    return out


def behind(rank: str, folder: Path) -> str:
    """Returns a script whose rank 0 outlives it; rank 1 starts once rank 0 has its pipe."""
    joined = folder / "joined"
    os.mkfifo(joined)
    return f"(join 0 0; : >'{joined}'; {rank}) & read -r <'{joined}'; rm '{joined}'; join 1 1"


def whole(out: bytes) -> Sequence[tuple[int | None, bytes]]:
    """Returns the lines, each with the rank in its label."""
    return [split_label(line) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("prints", "shown"),
    [
        ("echo one; echo two >&2", "@one\n@two\n"),
        # Writes that end within lines, and a last line without a newline.
        ("printf los; printf 's=1\\nacc'; printf =2", "@loss=1\n@acc=2\n"),
        ("printf '\\n\\n'", "@\n@\n"),
        # Bytes that are not text, and a line with the label of another rank.
        ("printf '\\377\\000x\\n[0]<stdout>: y\\n'", "@\xff\0x\n@[0]<stdout>: y\n"),
        # Bytes that look like the start of another rank.
        (
            "printf '\\0007\\nx\\n\\000/tmp/fairway-ranks-x 7\\n'",
            "@\0007\n@x\n@\0/tmp/fairway-ranks-x 7\n",
        ),
        # Longer than the buffer of a pipe.
        ("printf '%0200000d\\n' 1", f"@{1:0200000d}\n"),
        ("printf '\\rbar 1\\rbar 2\\n'; echo end", "@\rbar 1\rbar 2\n@end\n"),
        ("printf 'dos\\r\\nend\\r\\n'", "@dos\r\n@end\r\n"),
        ("", ""),
    ],
)
def test_rank_labels_begin_each_line(tmp_path: Path, prints: str, shown: str) -> None:
    out = labelled(f"(join 1 13; {prints})", tmp_path)
    assert out.decode("latin-1") == shown.replace("@", "[13]<stdout>: ")


def test_rank_labels_keep_lines_complete_also_of_a_restarted_rank(tmp_path: Path) -> None:
    rank = "for ((i = 0; i < 400; i++)); do printf los; printf 's=%d' $i; echo; done"
    script = f"for r in 0 1 2 3; do (join $r $r; {rank}) & done; wait"
    found = whole(labelled(script, tmp_path, count=4))
    assert len(found) == 1600
    for rank in range(4):
        own = [text for number, text in found if number == rank]
        assert own == [b"loss=%d" % number for number in range(400)]
    script = "(join 0 4; printf 'to be cont'); (join 0 5; echo begun)"
    out = labelled(script, tmp_path)
    assert whole(out)[-1] == (5, b"begun")
    assert whole(out)[0] == (4, b"to be cont")


def test_rank_labels_show_progress_bars_at_once_without_mixing_ranks(tmp_path: Path) -> None:
    for name in ("zero", "one"):
        os.mkfifo(tmp_path / name)
    zero = f"printf 'bar 1\\rbar 2'; read -r <'{tmp_path}/zero'; printf '\\rbar 3\\n'"
    one = f"read -r <'{tmp_path}/one'; echo mine"
    with start(f"(join 0 0; {zero}) & (join 1 1; {one}) & wait", tmp_path) as program:
        assert program.stdout is not None
        for end, go, shown in (
            (b"\r", "one", b"[0]<stdout>: bar 1\r"),
            (b"mine\n", "zero", b"\n[1]<stdout>: mine\n"),
            (b"3\n", "", b"[0]<stdout>: bar 2\rbar 3\n"),
        ):
            seen = b""
            while not seen.endswith(end):
                seen += program.stdout.read(1)
            assert seen == shown
            if go:
                (tmp_path / go).write_text("\n")
        assert program.wait(300) == 0


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_rank_labels_exit_with_the_code_of_the_command(
    tmp_path: Path, script: str, code: int
) -> None:
    assert labelled(f"(join 0 0; echo last); {script}", tmp_path, code) == b"[0]<stdout>: last\n"


def test_rank_labels_wait_for_no_leftover_process_and_lose_no_output(tmp_path: Path) -> None:
    out = labelled(f"{behind('exec sleep 600', tmp_path)}; echo $!", tmp_path)
    [(rank, left)] = whole(out)
    os.kill(int(left), signal.SIGKILL)
    assert rank == 1
    # Leftovers that fill their pipe faster than it is read, and end once it has no reader.
    yes = f"yes {'y' * 1000}"
    script = f"{behind(f'{yes} & {yes} & {yes} & exec {yes}', tmp_path)}; echo mine"
    lines: list[bytes] = []
    with start(script, tmp_path) as program:
        assert program.stdout is not None
        try:
            for line in program.stdout:
                rank, text = split_label(line)
                if rank == 1:
                    lines.append(text.strip())
            assert program.wait(300) == 0
        finally:
            program.kill()
    assert lines == [b"mine"]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # as ssh does with shared streams
    with start("join 0 0; seq 40000", tmp_path, out=writing) as program:
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            select.select([stream], [], [])
            out = stream.read()
        assert program.wait(300) == 0
    assert [text for _, text in whole(out)] == [b"%d" % n for n in range(1, 40001)]


def test_rank_labels_forward_signals_and_end_no_job_on_a_full_disk(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        program = start("join 0 0; echo lost; exit 3", tmp_path, out=full.fileno())
    assert program.wait(300) == 3
    assert list(tmp_path.iterdir()) == []
    trap = "trap 'kill $!; echo saved; exit 3' TERM"
    with start(f"{trap}; join 0 0; sleep 600 & echo up; wait", tmp_path) as program:
        assert program.stdout.readline() == b"[0]<stdout>: up\n"
        program.terminate()
        assert program.communicate(timeout=300)[0] == b"[0]<stdout>: saved\n"
    assert program.returncode == 3


@pytest.mark.parametrize("step", ["os.mkfifo(path, 0o600)", "folder = tempfile.mkdtemp("])
def test_rank_labels_without_a_pipe_run_the_command_unlabelled(tmp_path: Path, step: str) -> None:
    program = PROGRAM.read_text()
    assert step in program
    program = program.replace(step, f"raise OSError; {step}")
    words = [sys.executable, "-IS", "-c", program, "fairway-waits", "1", "bash", "-c"]
    script = "echo ${RANK_PIPES-none}; (while echo x; do :; done) | true; echo ${PIPESTATUS[0]}"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([*words, script], env=environment, capture_output=True, timeout=300)
    assert (done.stdout, done.returncode, list(tmp_path.iterdir())) == (b"none\n141\n", 0, [])

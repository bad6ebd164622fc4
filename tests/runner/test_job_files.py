"""Job files with random damage: loading one gives a job or findings, never another error."""

import random
from pathlib import Path

import pytest

from fairway_core.documents import FieldError
from fairway_core.findings import UserError, format_finding
from fairway_core.target import Target
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.templates import find_template

PIECES = [
    *("{{", "}}", "{%", "%}", "{#", ":", ": ", "- ", "[", "]", "{", "}", "|", ">", "&a ", "*a"),
    *("!", "!!int ", "'", '"', "\\", "\\0", "\\ud800", "\n", "\n  ", "\t", "#", "%", "~"),
    *("<<", "? ", "---\n", "...\n", "%YAML 1.1\n---\n", "0x", "1e999", ".inf", "-", "\0", "\x1b"),
    *("\ufeff", "\u2028", "\x85", "🚀", "params", "command", "nodes", "null", "true"),
    *("directory", "template"),
]


def damaged(text: str, chance: random.Random) -> bytes:
    """Returns the text with a few pieces inserted, removed, doubled or shuffled."""
    for _ in range(chance.randint(1, 4)):
        at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        end = min(end, at + 12)
        match chance.randrange(5):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[end:]
            case 2:
                text = text[:end] + text[at:]
            case 3:
                text = text[:at] + chance.choice(PIECES) + text[end:]
            case _:
                lines = text.split("\n")
                chance.shuffle(lines)
                text = "\n".join(lines)
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if data and chance.random() < 0.1:
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


@pytest.mark.integration
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(each, marks=pytest.mark.nightly) for each in (2, 3))]
)
def test_job_file_with_random_damage_gives_a_job_or_printable_findings(
    repository: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    good = (repository / "examples" / "digits" / "job.yaml").read_text()
    good += "checkpoint: {directory: kept}\nenv: {A: '{{ params.lr }}'}\n"
    path = tmp_path / "job.yaml"
    jobs = 0
    for _ in range(150):
        path.write_bytes(damaged(good, chance))
        assignments = [chance.choice(["nodes=", "params.x=", "env.A="]) + chance.choice(PIECES)]
        try:
            load_job(path, assignments if chance.random() < 0.3 else []).resolve(Target.local())
            jobs += 1
        except UserError as error:
            said = "".join(f"{format_finding(finding)}\n" for finding in error.findings)
        else:
            said = "fine"
        assert said
        assert all(character.isprintable() or character in "\n\t" for character in said)
        said.encode()
    assert 5 < jobs < 145, "some damage is harmless, and some is not"


def test_job_file_settings_override_in_order_and_counts_may_be_templates(
    repository: Path, tmp_path: Path
) -> None:
    file = repository / "examples" / "digits" / "job.yaml"
    job = load_job(file, ["nodes=2", "params.epochs=2", "nodes=3"]).resolve(Target.local())
    assert (job.nodes, job.processes_per_node, job.world_size) == (3, 4, 12)
    assert job.command == "python train.py --epochs 2 --lr 0.1"
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: '{{ target.name }}'\nnodes: '{{ params.n + 1 }}'\nparams: {n: 2}\n"
        "command: run {{ nodes }}\n"
    )
    job = load_job(path).resolve(Target.local())
    assert (job.name, job.nodes) == ("local", 3)


@pytest.mark.parametrize(
    ("template", "hint"),
    [
        ("mpirun", "use `openmpi`, `mpich` or `intelmpi`"),
        ("slurm", "`slurm` is a kind of target, not a template: fairway submit JOB --target NAME"),
        ("sbatch", "submit to a target with Slurm: fairway targets list"),
        ("pytorch", "use `torchrun`"),
        ("python", "use `template: plain`, which runs the command as it is"),
        ("openmp", "did you mean `openmpi`?"),
        ("xyz", "list them with: fairway templates"),
        ("own.sh.j2", "did you mean `mine.sh.j2`?"),
    ],
)
def test_template_that_is_unknown_hints_at_an_existing_one(
    tmp_path: Path, template: str, hint: str
) -> None:
    (tmp_path / "mine.sh.j2").touch()
    with pytest.raises(FieldError) as caught:
        find_template(template, tmp_path)
    assert caught.value.hint == hint


def test_template_in_the_job_folder_overrides_the_bundled_one(tmp_path: Path) -> None:
    (own := tmp_path / "job_templates" / "openmpi.sh.j2").parent.mkdir()
    own.touch()
    assert find_template("openmpi", tmp_path) == own


def test_template_of_the_project_is_found_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fairway.yaml").touch()
    (own := tmp_path / "job_templates" / "fork.sh.j2").parent.mkdir()
    own.touch()
    (below := tmp_path / "team" / "jobs").mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_template("fork", below) == own
    (teams := below.parent / "job_templates" / "fork.sh.j2").parent.mkdir()
    teams.touch()
    assert find_template("fork", Path()) == teams

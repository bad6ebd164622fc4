"""Templates: their list, the options that front matter declares, and those that a job sets."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from endings import ends, refused
from running import RunFairway

from fairway_core.findings import Finding, UserError
from fairway_core.target import Target
from fairway_runner.jobs.job_fields import Scalar
from fairway_runner.jobs.job_file import load_job
from fairway_runner.jobs.launcher import render_launcher
from fairway_runner.jobs.templates import Option, front_matter
from fairway_runner.runs.log_lines import LABELS

pytestmark = pytest.mark.integration

FRONT = """{#
description: Mine.
options:
  count: {type: int, default: 3, help: "How many."}
  rate: {type: float, default: 0.5, help: "How fast."}
  text: {type: text, default: "", help: "What."}
  flag: {type: bool, default: false, help: "Whether."}
  mode: {type: choice, choices: [fast, safe], default: safe, help: "Which."}
#}
{{ options.count }} {{ options.rate }} {{ options.text }} {{ options.flag }} {{ options.mode }}
"""


FROM_PARAMS = "options: {count: '{{ params.n }}', rate: '{{ params.r }}', flag: '{{ true }}'}\n"


def script(folder: Path, template: str, *overrides: str) -> str:
    """Renders the script of two processes on this machine, with overrides."""
    job = folder / "job.yaml"
    job.write_text(f"name: x\ntemplate: {template}\ncommand: 'true'\nprocesses_per_node: 2\n")
    job_file = load_job(job, overrides)
    return render_launcher(job_file, job_file.resolve(Target.local()), Target.local())


@pytest.mark.parametrize(
    ("templates", "override", "tagged", "labels"),
    [
        ("openmpi horovod", (), True, True),  # labelled by Open MPI 5 only
        ("openmpi horovod hpcx", ("options.label_ranks=true",), True, False),
        ("openmpi horovod", ("options.label_ranks=false",), False, False),
        ("openmpi horovod", ("processes_per_node=1",), False, False),
        ("torchrun deepspeed tensorflow", (), False, True),
        ("torchrun deepspeed tensorflow", ("options.label_ranks=false",), False, False),
        ("torchrun deepspeed tensorflow", ("processes_per_node=1",), False, False),
        # These would break lines written in parts, or have one line per node.
        ("hpcx every-node nccl-tests mpich intelmpi mvapich", (), False, False),
    ],
)
def test_template_labels_ranks_if_its_launcher_can_and_the_job_allows_it(
    tmp_path: Path, templates: str, override: tuple[str, ...], *, tagged: bool, labels: bool
) -> None:
    """`tagged`: Open MPI adds labels; `labels`: the script asks for its version or adds them."""
    for template in templates.split():
        text = script(tmp_path, template, *override)
        assert ("--tag-output" in text, bool(LABELS.search(text))) == (tagged, labels), template


def test_template_options_are_set_on_the_command_line(tmp_path: Path) -> None:
    overrides = ("options.count=9", "options.mode=fast", "options.flag=true")
    assert render(tmp_path, "", *overrides) == "9 0.5 '' true fast\n"
    [finding] = findings(tmp_path, "", "options.text=1.10")
    assert finding.hint.endswith("-s 'options.text=\"1.10\"'")
    assert "1.10" in render(tmp_path, "", 'options.text="1.10"')


def render(folder: Path, options: str, *overrides: str, front: str = FRONT) -> str:
    """Renders the template with a job's options."""
    (folder / "own.sh.j2").write_text(front)
    job = folder / "job.yaml"
    job.write_text(f"name: x\ntemplate: own.sh.j2\ncommand: 'true'\n{options}")
    job_file = load_job(job, overrides)
    return render_launcher(job_file, job_file.resolve(Target.local()), Target.local())


def findings(folder: Path, options: str, *overrides: str, front: str = FRONT) -> list[Finding]:
    """Returns the findings about a job's options."""
    with pytest.raises(UserError) as caught:
        render(folder, options, *overrides, front=front)
    return list(caught.value.findings)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("", "3 0.5 '' false safe\n"),
        ("options: {text: yes}\n", "3 0.5 yes false safe\n"),  # text in YAML 1.2
        ("options: {count: -4, rate: 2, text: a b, flag: true}\n", "-4 2.0 'a b' true safe\n"),
        ('options: {text: "$(id)\'"}\n', "3 0.5 '$(id)'\"'\"'' false safe\n"),
        # Templates in the job file render text, which is parsed by the option's type.
        (f"params: {{n: 7, r: 1e-3}}\n{FROM_PARAMS}", "7 0.001 '' true safe\n"),
    ],
)
def test_template_options_have_values_or_their_defaults(
    tmp_path: Path, options: str, text: str
) -> None:
    assert render(tmp_path, options) == text


@pytest.mark.parametrize(
    ("line", "fault", "hint"),
    [
        ("coutn: 1", "", "did you mean `count`?"),
        ("xyz: 1", "", "one of: count, flag, mode, rate, text"),
        ("count: 1.5", "a whole number, found the number 1.5", ""),
        ("rate: fast", "a number, found the text `fast`", ""),
        ("text: 8", "text, found the number 8", 'put it in quotes: "8"'),
        ("text: 01", "text, found the number 1", 'put it in quotes: "01"'),
        ("mode: save", "one of `fast`, `safe`, found the text `save`", "did you mean `safe`?"),
    ],
)
def test_template_option_that_is_wrong_is_reported_at_its_line(
    tmp_path: Path, line: str, fault: str, hint: str
) -> None:
    """An empty `fault` stands for an undeclared option."""
    name, value = line.split(": ")
    said = ("unknown-option", f"the template `own.sh.j2` has no option `{name}`")
    if fault:
        said = ("bad-option", f"`options.{name}`: expected {fault}")
    [finding] = findings(tmp_path, f"options:\n  {line}\n")
    assert (finding.id, finding.message, finding.hint) == (*said, hint)
    place = finding.location
    assert place.text.strip() == line
    assert place.text[place.column - 1 :].startswith(value if fault else line)


def test_template_options_that_are_unknown_wrong_or_missing_are_all_reported(
    tmp_path: Path,
) -> None:
    found = findings(tmp_path, "options: {coutn: 1, rate: x, mode: y}\n")
    assert [finding.path for finding in found] == ["options.coutn", "options.rate", "options.mode"]
    [finding] = findings(tmp_path, "options: {a: 1}\n", front="{# description: Mine. #}\n")
    assert finding.hint == "the template `own.sh.j2` has no options: remove it"
    [finding] = findings(tmp_path, "options: {count: [1]}\n")
    assert finding.path == "options.count"
    [finding] = findings(tmp_path, "options: fast\n")
    assert "expected a mapping" in finding.message
    [finding] = findings(tmp_path, "", front=FRONT.replace("options.mode", "options.modus"))
    assert finding.message == "unknown name `options.modus`: did you mean `options.mode`?"
    front = "{#\ndescription: M.\noptions: {file: {type: text, help: Which file.}}\n#}\n"
    front += "{{ options.file }}\n"
    [finding] = findings(tmp_path, "", front=front)
    assert finding.id == "missing-option"
    assert finding.message == "the template `own.sh.j2` needs the option `file`: Which file."
    assert finding.hint == "add it under `options:`, text"
    assert render(tmp_path, "options: {file: a}\n", front=front) == "a\n"


@pytest.mark.parametrize(
    ("declared", "path", "says"),
    [
        ("{type: int, default: x, help: h}", "default", "the default must be a whole number"),
        ("{type: choice, default: a, help: h}", "type", "the type and the choices do not fit"),
        ("{type: text, choices: [a], help: h}", "type", "the type and the choices do not fit"),
        ("{type: choice, choices: [a], default: b, help: h}", "default", "must be one of `a`"),
        ("{type: number, help: h}", "type", "expected one of"),
        ("{type: int}", "help", "is missing"),
        ("{type: int, help: h, defualt: 3}", "defualt", "unknown key"),
    ],
)
def test_template_with_a_wrong_option_declaration_is_refused_at_its_line(
    declared: str, path: str, says: str
) -> None:
    source = "{#\ndescription: M.\noptions:\n  size: " + declared + "\n#}\n"
    finding = refused(lambda: front_matter(Path("own.sh.j2"), source))
    assert says in finding.message
    assert finding.path == f"options.size.{path}"
    assert (finding.location.file, finding.location.line) == ("own.sh.j2", 4)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("int", "12", 12),
        ("int", "1.0", None),
        ("int", 1.0, None),
        ("float", "1e-5", 1e-5),
        ("float", 3, 3.0),
        ("float", True, None),
        ("bool", "false", False),
        ("bool", "0", None),
        ("bool", 0, None),
        ("text", "", ""),
        ("text", False, None),
    ],
)
def test_template_option_accepts_values_of_its_type(
    kind: str, given: Scalar, value: Scalar | None
) -> None:
    accepted = Option.model_validate({"type": kind, "help": "h"}).accept(given)
    assert accepted == value
    assert type(accepted) is type(value)


LONG = "x" * 131_001


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"env": {"A": "x" * 131_000, "B": "x"}}, ["env.A"]),
        ({"env": {"A": "é" * 65_500}}, ["env.A"]),
        ({"params": {"a": LONG, "b": "x" * 131_000}}, ["params.a"]),
        ({"params": {"a": ["x", LONG]}, "env": {"A": "x" * 131_000}}, ["env.A", "params.a.1"]),
        ({"env": {f"A{n}": "x" * 130_000 for n in range(6)}}, ["env"]),
        ({"env": {"A": "x"}, "command": "{{ 'x' * 1_000_000 }}\n{{ 'x' * 500_000 }}"}, ["command"]),
    ],
)
def test_template_values_too_long_for_a_program_are_refused_at_their_line(
    tmp_path: Path, fields: dict[str, Any], paths: list[str]
) -> None:
    file = tmp_path / "job.yaml"
    job = {"name": "x", "template": "plain", "command": "true", **fields}
    file.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in job.items()))
    job_file = load_job(file)
    with pytest.raises(UserError) as caught:
        render_launcher(job_file, job_file.resolve(Target.local()), Target.local())
    assert [(each.id, each.path) for each in caught.value.findings] == [
        ("too-long", path) for path in paths
    ]
    for each in caught.value.findings:
        assert each.location.text.startswith(each.path.partition(".")[0])


OWN = """{#
description: "Mine, and nobody else's."
needs: [make]
options: {level: {type: int, help: "How loud."}}
example: {command: make train}
#}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two templates of its own, one of them broken."""
    own = tmp_path / "job_templates"
    own.mkdir()
    (own / "loud.sh.j2").write_text(OWN)
    (own / "openmpi.sh.j2").write_text("{# description: My own Open MPI. #}\n")
    (own / "broken.sh.j2").write_text("no front matter\n")
    (own / "_shared.sh.j2").write_text("")
    return tmp_path


@pytest.fixture
def templates(folder: Path, fairway: RunFairway) -> RunFairway:
    """`fairway templates` in that folder."""
    return partial(fairway, folder, "templates")


def test_templates_command_lists_all_templates_by_folder(
    folder: Path, templates: RunFairway, repository: Path
) -> None:
    code, printed, errors = templates()
    assert (code, errors) == (0, "")
    own, _, others = printed.partition(f"{repository}/job_templates\n")
    assert own.startswith(f"{folder}/job_templates\n")
    assert "  loud        Mine, and nobody else's.\n" in own
    assert "  openmpi     My own Open MPI.\n" in own
    assert "  broken      cannot be used: " in own
    assert "the template has no description" in own
    assert "_shared" not in printed
    assert "  torchrun    torchrun: one agent on every node" in others
    assert "openmpi " not in others
    assert others.endswith("\nmore of one: fairway templates NAME\n")
    listed = {each["name"]: each for each in json.loads(templates("--json")[1])}
    assert listed["openmpi"]["folder"] == str(folder / "job_templates")
    assert listed["plain"]["folder"] == str(repository / "job_templates")
    assert listed["loud"]["description"] == "Mine, and nobody else's."


def test_templates_command_explains_one_template(folder: Path, templates: RunFairway) -> None:
    explained = (
        "Mine, and nobody else's.\n\n"
        f"file     {folder}/job_templates/loud.sh.j2\n"
        "needs    make on the main host's PATH\n\n"
        "  level  (int, required)\n"
        "      How loud.\n\n"
        "A job that uses it:\n\n"
        "  name: example\n"
        "  template: loud\n"
        "  command: make train\n"
        '  options: {level: "<int>"}\n'
    )
    assert templates("loud") == (0, explained, "")
    facts = json.loads(templates("torchrun", "--json")[1])
    assert facts["needs"] == ["torchrun"]
    rendezvous = facts["options"]["rendezvous"]
    assert rendezvous.pop("help")
    assert rendezvous == {"type": "choice", "default": "c10d", "choices": ["c10d", "static"]}
    assert "options: {rendezvous: c10d, min_nodes: 0" in facts["job"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("torchrum", "error: there is no template `torchrum` [unknown-template]\n  did you mean"),
        ("broken", "the template has no description"),
        ("../loud", "outside of the job's folder"),
    ],
)
def test_templates_command_refuses_an_unknown_or_broken_template(
    templates: RunFairway, name: str, says: str
) -> None:
    ends(templates(name), 2, says, printed="")

"""Jinja as Fairway uses it: quoting for the shell, and faults with their line."""

import os
import resource
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment
from jinja2.sandbox import SandboxedEnvironment

from fairway_agent import process_limits
from fairway_agent.process_limits import used_memory
from fairway_core.target import Target
from fairway_runner.jobs import templating
from fairway_runner.jobs.job import Job
from fairway_runner.jobs.templating import (
    Names,
    TemplateFault,
    compile_file,
    compile_text,
    render,
    shell_environment,
    text_environment,
)


def shell(source: str, **context: object) -> str:
    return render(compile_text(shell_environment(), source), context)


def test_template_quotes_values_once_and_names_hide_methods() -> None:
    text = "".join(map(chr, range(1, 128))) + "é☃🚀"
    script = shell("printf %s {{ x }}", x=text)
    assert subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE).stdout == text.encode()
    assert shell("{{ x | raw }}", x="a b") == "a b"
    assert shell("{{ x | raw }}", x=True) == "true"
    assert shell("{{ x | quote | quote }}", x="a b") == "'a b'"
    assert shell("bash -c {{ 'echo ' ~ (x | quote) }}", x="it's").count("echo") == 1
    template = compile_text(text_environment(), "{{ x }} {{ y }}\n")
    assert render(template, {"x": "it's", "y": True}) == "it's true\n"
    params = Names("params", {"items": 1, "get": 2, "0": 3})
    text = "{{ params.items }} {{ params['get'] }} {{ params['0'] }}"
    assert shell(text, params=params) == "1 2 3"
    with pytest.raises(TemplateFault, match=r"unknown name `params.keys`"):
        shell("{{ params.keys }}", params=params)
    assert shell("{{ params.lr | default('none') }}", params=params) == "none"
    assert shell("{% if params.lr is defined %}a{% endif %}", params=params) == ""


POWERS = "{% set ns = namespace(a=2) %}{% for n in range(9) %}{% set ns.a = ns.a ** 999 %}"
POWERS += "{% endfor %}"


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("a\n{% for %}", 2, "this is not a Jinja template"),
        ("{{ lr }}", 1, "unknown name `lr`: did you mean `params.lr`?"),
        ("\n\n{{ params.ir }}", 3, "unknown name `params.ir`: did you mean `params.lr`?"),
        ("{{ params.lr.x }}", 1, "has no attribute 'x'"),
        ("{{ ''.format.__globals__ }}", 1, "not allowed"),
        ("{{ params.__class__ }}", 1, "unknown name `params.__class__`"),
        ("{{ lipsum.__globals__ }}", 1, "not allowed"),
        ("{{ range(10**9) | list }}", 1, "the expression fails"),
        ("{{ 'a' + 1 }}", 1, "the expression fails"),
        ("{{ 2 ** 99999999 }}", 1, "the exponent is above 1,000"),
        (POWERS, 1, "over 1,000 bits"),  # no signal interrupts this computation
        ("{% include 'x' %}", 1, "the expression fails"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", 1, "recursion"),
        ("{{ " + "(" * 500 + ")" * 500 + " }}", 1, ""),
        ("{% if 1 %}" * 120 + "{% endif %}" * 120, 1, "too complex"),
    ],
)
def test_template_fault_has_its_line(source: str, line: int, message: str) -> None:
    with pytest.raises(TemplateFault) as caught:
        shell(source, params=Names("params", {"lr": 0.1}))
    assert caught.value.line == line
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'a=(1 2); echo "${#a[@]}"',
        "s=ab#\necho ${#s}\necho two\necho ${s%#}",
        "${#a} #}",
        "{# and no end",
        "awk '{#print\n}'",
        "#} {#",
    ],
)
@pytest.mark.parametrize("environment", [shell_environment(), text_environment()])
def test_template_in_a_job_keeps_shell_length_syntax_as_text(
    environment: SandboxedEnvironment, text: str
) -> None:
    assert render(compile_text(environment, text + " {{ x }}"), {"x": 1}) == text + " 1"
    assert render(compile_text(environment, "{% raw %}{# a #}{%- endraw %}"), {}) == "{# a #}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\n{# b #}", 2),
        ("${#a}\n\n{# {{ b }}\n#}", 3),
        ("{% raw %}{# a #}{% endraw %}\n{#- b -#}", 2),
    ],
)
@pytest.mark.parametrize("environment", [shell_environment(), text_environment()])
def test_template_comment_in_a_job_is_refused_at_its_line(
    environment: SandboxedEnvironment, source: str, line: int
) -> None:
    with pytest.raises(TemplateFault) as caught:
        compile_text(environment, source)
    assert caught.value.line == line
    assert "`#`" in caught.value.hint


def test_template_comment_in_a_template_file_is_left_out(tmp_path: Path) -> None:
    assert render(compile_text(shell_environment((tmp_path,)), "a{# b #}c"), {}) == "ac"


def test_template_import_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, part = tmp_path / "own", tmp_path / "own" / "part"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made: list[str] = []
    generate = Environment._generate

    def noted(self: Environment, source: Any, name: Any, *rest: Any, **more: Any) -> str:
        made.append(name)
        return generate(self, source, name, *rest, **more)

    monkeypatch.setattr(Environment, "_generate", noted)

    def text() -> str:
        shell_environment.cache_clear()
        environment = shell_environment((own,))
        return render(environment.from_string('{% import "part" as p %}{{ p.a() }}'), {})

    part.write_text("{% macro a() %}{{ 'it is' | raw }}{% endmacro %}")
    assert [text(), text(), made.count("part")] == ["'it is'", "'it is'", 1]
    (folder,) = (each for each in tmp_path.iterdir() if each != own)
    assert folder.stat().st_mode & 0o777 == 0o700
    part.write_text("{% macro a() %}{{ 'new' }}{% endmacro %}")
    assert [text(), made.count("part")] == ["new", 2]
    # If the bytecode cannot be kept anywhere, the part is compiled each time.
    monkeypatch.setattr(tempfile, "tempdir", str(part))
    assert [text(), text(), made.count("part")] == ["new", "new", 4]


def test_template_bytecode_of_equal_files_in_several_folders_is_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code sent to a server lies in a new folder each time. A fault still names the actual file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for number in range(3):
        file = tmp_path / f"code-{number}" / "own.sh.j2"
        file.parent.mkdir()
        file.write_text("{{ 1 // 0 }}")
        with pytest.raises(TemplateFault) as caught:
            render(compile_file(shell_environment((file.parent,)), file.name), {})
        assert caught.value.file == str(file)
    (folder,) = (each for each in tmp_path.iterdir() if not each.name.startswith("code-"))
    assert len(list(folder.iterdir())) == 1


def test_template_bytecode_that_is_oldest_is_removed_above_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(templating, "_MOST_COMPILED", 2)
    (own := tmp_path / "own").mkdir()
    kept: list[set[str]] = []
    for number in range(4):
        (own / f"{number}.sh.j2").write_text("true")
        compile_file(shell_environment((own,)), f"{number}.sh.j2")
        (folder,) = (each for each in tmp_path.iterdir() if each != own)
        (folder / "of another program").touch()
        files = {each.name for each in folder.glob("fairway-*")}
        for file in files:  # makes each older than the next ones
            before = (folder / file).stat().st_mtime - 60
            os.utime(folder / file, (before, before))
        kept.append(files)
    assert [len(files) for files in kept] == [1, 2, 2, 2]
    assert not kept[3] & kept[1]
    assert (folder / "of another program").exists()


def test_template_bytecode_is_not_kept_in_the_folder_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python chooses the current folder for temporary files if no other is writable."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.sh.j2").write_text("true")
    assert render(compile_file(shell_environment((tmp_path,)), "own.sh.j2"), {}) == "true"
    assert [each.name for each in tmp_path.iterdir()] == ["own.sh.j2"]


@pytest.mark.parametrize("source", ["docker ps --format '{{.Names}}'", "print('{%s}' % 1)"])
def test_template_with_marks_of_another_language_hints_at_raw(source: str) -> None:
    with pytest.raises(TemplateFault) as caught:
        shell(source)
    assert "{% raw %}" in caught.value.hint
    assert shell(f"{{% raw %}}{source}{{% endraw %}}") == source


@pytest.mark.parametrize(
    "source",
    [
        "{{ model.__class__ }}",
        "{{ model._copy_and_set_values }}",
        "{{ macros.__class__ }}",
        # Methods that run code from a text, or read any file.
        "{{ model.parse_raw('N.', proto='pickle', allow_pickle=true) }}",
        "{{ [model] | map(attribute='parse_file') | list }}",
        "{{ model['model_validate'] }}",
        "{{ target.__class__ }}",
        "{{ target.model_validate }}",
    ],
)
def test_template_cannot_access_internals_of_models_and_macros(source: str) -> None:
    macros = compile_text(shell_environment(), "{% macro a() %}{% endmacro %}").module
    with pytest.raises(TemplateFault, match="not allowed"):
        shell(source, model=Job(name="a", command="b"), macros=macros, target=Target.local())


@pytest.mark.parametrize(
    "slow",
    [
        "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
        "{% for part in text | slice(10 ** 9) %}{% endfor %}",
        "{{ 'x' | slice(10 ** 9) | list }}",  # a constant, evaluated at compile time
    ],
)
def test_template_over_the_time_limit_is_stopped_at_its_line(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "CPU_LIMIT", 0.1)
    with pytest.raises(TemplateFault, match=r"stopped after 0\.1 s of processor time") as caught:
        shell(f"first\n\n{slow}", text="x")
    assert caught.value.line == 3


@pytest.mark.skipif(used_memory() is None, reason="the system does not say what a process has")
@pytest.mark.parametrize(
    "large",
    [
        "{% for n in range(60) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "{% for n in range(60) %}{% set ns.b = ns.b + ns.b %}{% endfor %}",
        "{{ 'x' | center(10 ** 10) }}",
    ],
)
def test_template_over_the_memory_limit_is_stopped_at_its_line(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templating, "_MEMORY", 1 << 25)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(TemplateFault, match="MiB of memory") as caught:
        shell(f"{{% set ns = namespace(a='x', b=[1]) %}}\n\n{large}")
    assert caught.value.line == 3
    assert resource.getrlimit(resource.RLIMIT_DATA) == before

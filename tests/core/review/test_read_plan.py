"""Reading plans, and refusing files that are not plans."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from endings import refused

from fairway_core.findings import UserError
from fairway_core.review.plan import read_plan, stack_of
from fairway_core.review.review import review

CROSS = "cross-stack-reference-input-demo-network"


@pytest.mark.parametrize(
    ("path", "stack"),
    [
        ("demo-data.json", "demo-data"),
        ("out/plan-demo-data.json", "demo-data"),
        ("demo-data.plan.json", "demo-data"),
        ("demo-data.tfplan.json", "demo-data"),
        ("out/demo-data/plan.json", "demo-data"),
        ("out/demo-data/tfplan.json", "demo-data"),
    ],
)
def test_read_plan_names_stack_after_file_or_folder(path: str, stack: str) -> None:
    assert stack_of(path) == stack


def test_read_plan_takes_stack_name_from_argument(make_plan: Any) -> None:
    assert read_plan(f"demo-data={make_plan('x')}").stack == "demo-data"
    assert read_plan(make_plan("a=b")).stack == "a=b", "a file is looked for first"


def _diagnostic(summary: str, address: str = f"data.terraform_remote_state.{CROSS}") -> str:
    diagnostic = {"severity": "error", "summary": summary, "address": address}
    return json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": diagnostic})


def test_read_plan_of_error_log_returns_awaited_stacks(tmp_path: Path) -> None:
    file = tmp_path / "demo-compute.json"

    def log(*of: str) -> str:
        version = json.dumps({"@level": "info", "type": "version"})
        file.write_text(f"{version}\n{_diagnostic(*of)}\n")
        return str(file)

    plan = read_plan(log("Unable to find remote state"))
    assert (plan.stack, plan.waits_for) == ("demo-compute", ("demo-network",))
    assert plan.changes == []
    assert read_plan(log("Unsupported attribute")).waits_for == ("demo-network",)
    with pytest.raises(UserError, match="terraform plan failed: Unsupported attribute"):
        read_plan(log("Unsupported attribute", "azurerm_subnet.a"))
    with pytest.raises(UserError, match="terraform plan failed: Invalid value"):
        read_plan(log("Invalid value"))


@pytest.mark.parametrize(
    "reference",
    [
        f"${{data.terraform_remote_state.{CROSS}.outputs.zone}}",
        f'${{data.terraform_remote_state.{CROSS}.outputs["zone"]}}',
    ],
)
def test_read_plan_waits_for_stack_with_missing_output(make_plan: Any, reference: str) -> None:
    """A deployed stack may lack an output: Terraform then reports "Unsupported attribute"."""
    parts = _errored([CROSS])
    parts["prior_state"]["values"]["root_module"]["resources"][0]["values"] = {"outputs": {"a": 1}}
    parts["configuration"]["root_module"]["resources"].append(
        {"type": "azurerm_x", "name": "x", "expressions": {"a": {"constant_value": reference}}}
    )
    assert read_plan(make_plan("waits", **parts)).waits_for == ("demo-network",)
    outputs = parts["prior_state"]["values"]["root_module"]["resources"][0]["values"]["outputs"]
    outputs["zone"] = "z"
    assert read_plan(make_plan("has", **parts)).waits_for == ()


def _errored(prior: list[str]) -> dict[str, Any]:
    kind = "terraform_remote_state"
    return {
        "errored": True,
        "configuration": {
            "root_module": {"resources": [{"mode": "data", "type": kind, "name": CROSS}]}
        },
        "prior_state": {
            "values": {"root_module": {"resources": [{"type": kind, "name": n} for n in prior]}}
        },
    }


def test_read_plan_of_errored_plan_waits_for_stack_without_state(make_plan: Any) -> None:
    assert read_plan(make_plan("a", **_errored([]))).waits_for == ("demo-network",)
    failed = read_plan(make_plan("b", **_errored([CROSS])))
    assert failed.waits_for == ()
    assert failed.errored
    whole = {**_errored([]), "errored": False}
    assert read_plan(make_plan("c", **whole)).waits_for == ()


def _bad(**change: Any) -> dict[str, Any]:
    return {"address": "a.b", "type": "a", "change": {"actions": ["create"], **change}}


GOOD = {"format_version": "1.2", "planned_values": {}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("plan: x", "not JSON"),
        ("[" * 100_000, "levels deep"),
        (f'{{"format_version": "1.2", "a": {"[" * 900}{"]" * 900}}}', "levels deep"),
        ('{"a": "}", "b": ' * 900 + "1" + "}" * 900, "levels deep"),
        ('{"format_version": "1.2", "resource_changes": [], "a": NaN}', "not JSON"),
        ('{"format_version": "1.2", "resource_changes": [], "a": 1e400}', "not JSON"),
        ('{"format_version": "1.2", "resource_changes": [], "a": -Infinity}', "not JSON"),
        ("[]", "not a plan"),
        ("null", "not a plan"),
        ("1", "not a plan"),
        ("{}", "not a plan"),
        ('{"format_version": "1.2"}', "not a plan"),
        ('{"format_version": "1.0", "values": {}}', "a state"),
        ({**GOOD, "format_version": "2.0"}, "format 2.0"),
        ({**GOOD, "format_version": ["1"]}, "format"),
        ({**GOOD, "resource_changes": {}}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [1]}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [{"address": "a", "type": "b"}]}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [{"address": 1, "type": "b"}]}, "`resource_changes`"),
        ({**GOOD, "resource_drift": [{"address": "a", "type": "b"}]}, "`resource_drift`"),
        ({**GOOD, "output_changes": {"a": []}}, "`output_changes`"),
        ({**GOOD, "resource_changes": [_bad(actions="create")]}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [_bad(actions=[["create"]])]}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [_bad(after="x")]}, "`resource_changes`"),
        ({**GOOD, "resource_changes": [_bad(replace_paths=["x"])]}, "`resource_changes`"),
        ("PK\x03\x04", "Terraform's own plan file"),
    ],
)
def test_read_plan_refuses_a_file_that_is_not_a_plan(
    tmp_path: Path, content: Any, said: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    finding = refused(lambda: read_plan(str(file)))
    assert said in finding.message
    assert str(file) in finding.message
    assert "terraform show -json" in finding.hint


def test_read_plan_accepts_brackets_in_strings_and_null_parts(make_plan: Any) -> None:
    texts = {f"a{n}": "[" * 500 + '\\"{' for n in range(3)}
    assert len(read_plan(make_plan("x", ("a.b", "create", None, texts))).changes) == 1
    parts = {"resource_changes": None, "resource_drift": None, "output_changes": None}
    plan = read_plan(make_plan("a", **parts))
    assert (plan.changes, plan.drift, plan.output_changes) == ([], [], {})
    assert review([plan]).stacks[0].changes == ()
    change = ("azurerm_managed_disk.a", "delete create", {}, {}, {"replace_paths": None})
    (lost,) = review([read_plan(make_plan("y", change))]).unapproved_losses
    assert lost.address == "azurerm_managed_disk.a"


def test_read_plan_reads_a_pipe(make_plan: Any, tmp_path: Path) -> None:
    """As in `fairway review demo-data=<(terraform show -json tfplan)`."""
    content = Path(make_plan("x", ("a.b", "create", None, {}))).read_bytes()
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    try:
        assert len(read_plan(f"x=/dev/fd/{reading}").changes) == 1
    finally:
        os.close(reading)


def test_read_plan_refuses_missing_unreadable_and_huge_files(tmp_path: Path) -> None:
    (huge := tmp_path / "huge.json").touch()
    os.truncate(huge, (1 << 30) + 1)
    for path, said in (
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "directory"),
        ("x=/dev/zero", "this is a device, not a file"),
        (huge, "larger than 1 GiB"),
    ):
        with pytest.raises(UserError, match=said):
            read_plan(str(path))


TWICE = '"resource_changes":[{}],"resource_changes":[]'
ACTIONS = '"output_changes":{"a":{"actions":[],"action\\u0073":[]}}'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'{{"format_version":"1.2",{TWICE}}}', "resource_changes"),
        (f'{{"format_version":"1.2",{ACTIONS}}}', "actions"),
        ('{"@level":"info"}\n{"@level":"error","@level":"info"}', "@level"),
    ],
)
def test_read_plan_refuses_duplicate_keys(tmp_path: Path, text: str, key: str) -> None:
    """Parsers disagree on which duplicate counts, and Terraform writes none."""
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        read_plan(str(file))
    assert f"`{key}` appears twice in one object" in str(caught.value)

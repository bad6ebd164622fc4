"""Tags and regions of an environment: values that Azure would refuse are refused at their line."""

from pathlib import Path

import pytest
from environment_files import KEY, checked, fault, load

from fairway_core.catalog.limits import regions
from fairway_core.catalog.tables import table
from fairway_core.findings import Finding, Severity

REST = f"""
access: {{ssh_keys: [{KEY}]}}
clusters: {{box: {{engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}}}
"""


def _fault(folder: Path, tags: dict[str, str], more: str = "") -> Finding:
    lines = "".join(f'  "{name}": "{value}"\n' for name, value in tags.items())
    return fault(folder, f"name: lab\nlocation: westeurope\n{more}tags:\n{lines}{REST}")


@pytest.mark.parametrize(
    ("tags", "message", "hint"),
    [
        ({"a": "", "cost/centre": "7"}, "not allow `/` in the name", "use a `-`"),
        ({"a": "", "<b>": "7"}, "not allow `< >` in the name", "use a `-`"),
        ({"a": "", "Microsoft-a": "7"}, "begins like Azure's own", "azure"),
        ({"a": "", "windowsill": "7"}, "begins like Azure's own", "windows"),
        ({"a": "", "A": "7"}, "Azure treats `A` and `a` as one tag", "keep one"),
        ({"a": "", "Environment": "7"}, "sets the tag `environment` itself", "remove it"),
        ({"a": "", "managed-by": "me"}, "sets the tag `managed-by` itself", "remove it"),
        ({"a": "", "": "7"}, "a tag without a name", "owner"),
        ({"a": "", " ": "7"}, "a tag without a name", "owner"),
        ({"a": "", "b": "x" * 257}, "`b` has 257 characters", "up to 256"),
        ({"a": "", "b\\n": "7"}, "a control character", "leave it out"),
    ],
)
def test_tags_that_azure_refuses_are_refused_at_their_line(
    tmp_path: Path, tags: dict[str, str], message: str, hint: str
) -> None:
    finding = _fault(tmp_path, tags)
    assert message in finding.message
    assert hint in finding.hint
    assert finding.position[0] == 5


def test_tags_hint_quotes_a_number_as_written(tmp_path: Path) -> None:
    text = f"name: lab\nlocation: westeurope\ntags: {{version: 1.10}}\n{REST}"
    finding = fault(tmp_path, text)
    assert (finding.path, '"1.10"' in finding.hint) == ("tags.version", True)


OPEN = "network: {private_endpoints: false}\n"
NO_ZONES = "network: {dns: {zones: none}}\n"


@pytest.mark.parametrize(("more", "most"), [("", 13), (OPEN, 46), (NO_ZONES, 46)])
def test_tags_beyond_number_or_name_length_limits_are_refused(
    tmp_path: Path, more: str, most: int
) -> None:
    finding = _fault(tmp_path, {f"tag{index}": "x" for index in range(most + 1)}, more)
    assert f"{most + 1} tags" in finding.message
    assert f"keep {most}" in finding.hint
    assert finding.path == "tags"
    finding = _fault(tmp_path, {"n" * 129: "x"}, more)
    assert "has 129 characters" in finding.message
    assert len(finding.message) < 100
    assert "128" in finding.hint


@pytest.mark.parametrize("name", ["cost:center", "cost center", "1st", "kostenstelle-ä", "a+b"])
def test_tags_invalid_for_dns_zones_are_refused_unless_no_zones_are_made(
    tmp_path: Path, name: str
) -> None:
    finding = _fault(tmp_path, {"owner": "me", name: "x"})
    assert finding.path == f"tags.{name}"
    assert finding.position[0] == 5
    text = f'name: lab\nlocation: westeurope\n{NO_ZONES}tags:\n  "{name}": x\n{REST}'
    assert load(tmp_path, text).tags == {name: "x"}


def test_tags_within_azure_limits_are_accepted(tmp_path: Path) -> None:
    tags = {"owner": "it's me: <a@b.c> 100 %", "n" * 128: "x" * 256, "kosten_stelle-1.a": ""}
    tags |= {f"tag{index}": "" for index in range(10)}
    lines = "".join(f'  "{name}": "{value}"\n' for name, value in tags.items())
    text = f"name: lab\nlocation: westeurope\ntags:\n{lines}{REST}"
    assert load(tmp_path, text).tags == tags


def test_region_that_is_unknown_warns_and_suggests_the_nearest(tmp_path: Path) -> None:
    found = checked(tmp_path, f"name: lab\nlocation: westeurop\n{REST}")
    (finding,) = [each for each in found if each.id == "unknown-region"]
    assert finding.severity is Severity.WARNING
    assert "did you mean `westeurope`?" in finding.hint
    assert finding.position[0] == 2


def test_region_names_are_lower_case_unique_and_sourced() -> None:
    assert len(regions()) > 50
    assert all(name.isalnum() and name == name.lower() for name in regions())
    rows = table("regions")
    assert rows["source"]
    assert rows["date"].year >= 2026
    assert len(rows["names"]) == len(set(rows["names"]))

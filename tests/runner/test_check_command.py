"""`fairway check` and `fairway sizes`."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fairway_cli.main import app
from fairway_constructs.cloud_init import slurm
from fairway_core.catalog import vm_sizes
from fairway_core.findings import UserError


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def lab(repository: Path, tmp_path: Path) -> Any:
    """Writes the demo environment with some text replaced and returns the file."""
    text = (repository / "stacks/environments/demo.yaml").read_text()

    def write(**replaced: str) -> Path:
        result = text
        for old, new in replaced.items():
            assert old in result
            result = result.replace(old, new)
        file = tmp_path / "lab.yaml"
        file.write_text(result)
        return file

    return write


class TestCheck:
    def test_check_lists_outbound_names_only_with_a_firewall(self, repository: Path) -> None:
        done = _run("check", "demo", "--strict", "--ignore", "placeholder")
        assert (done.exit_code, done.output) == (0, "demo: nothing found\n")
        done = _run("check", repository / "tests/stacks/sections/hub.yaml")
        assert done.exit_code == 0
        lines = [line.split(None, 2) for line in done.output.splitlines()]
        assert ["OUTBOUND", "NAME", "PORT  FOR"] in lines
        scheduler = "the Slurm scheduler starts and deletes nodes"
        assert ["management.azure.com", "443", scheduler] in lines

    def test_check_warnings_have_lines_and_fail_only_with_strict(self, lab: Any) -> None:
        file = lab(**{"owner: you@example.com": "project: vision", "LxzWu nobody": "LxzWu me"})
        done = _run("check", file)
        assert done.exit_code == 0
        assert "[no-owner]" in done.output
        assert "1 warning" in done.output
        assert _run("check", file, "--strict").exit_code == 1
        assert _run("check", file, "--strict", "--ignore", "no-owner").exit_code == 0
        file = lab()
        file.write_text(file.read_text().replace(", placeholder]", "]"))
        findings = json.loads(_run("check", file, "--json").output)
        lines = file.read_text().splitlines()
        assert [(each["id"], each["path"], each["severity"]) for each in findings] == [
            ("placeholder", "tags.owner", "warning"),
            ("placeholder", "access.ssh_keys.0", "warning"),
        ]
        assert "you@example.com" in lines[findings[0]["line"] - 1]
        assert "nobody" in lines[findings[1]["line"] - 1]

    def test_check_reports_too_many_partitions_for_a_scheduler(
        self, lab: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm, "LONGEST_PACKED", 10_000)
        size = "size: Standard_ND96isr_H100_v5, nodes: {min: 0, max: 100}, mounts: [data]"
        many = "".join(f"  gpu{number}: {{engine: slurm, {size}}}\n" for number in range(4))
        file = lab(**{"clusters:\n": f"clusters:\n{many}"})
        done = _run("check", file, "--json")
        assert done.exit_code == 2
        (found,) = [each for each in json.loads(done.output) if each["severity"] == "error"]
        assert (found["id"], found["path"]) == ("too-many-partitions", "clusters")
        line = file.read_text().splitlines().index("clusters:") + 1
        assert found["line"] == line

    def test_check_error_shows_its_line_even_in_an_invalid_file(self, lab: Any) -> None:
        done = _run("check", lab(isr_H100="is_H100"))
        assert done.exit_code == 2
        for said in ("lab.yaml:", "^^^^", "Standard_ND96isr_H100_v5` has it", "1 error"):
            assert said in done.output
        done = _run("check", "no/such.yaml")
        assert (done.exit_code, "no such file" in done.output) == (2, True)

    def test_check_json_and_sarif_output_contains_the_findings(
        self, lab: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = lab(owner="project", isr_H100="is_H100")
        file = file.rename(file.with_name("two words.yaml"))
        done = _run("check", file, "--json", "--ignore", "placeholder")
        findings = json.loads(done.output)
        found = {each["id"]: each["severity"] for each in findings}
        assert found == {"no-owner": "warning", "no-infiniband": "error"}
        assert _run("check", "demo", "--json", "--ignore", "placeholder").output == "[]\n"
        monkeypatch.chdir(file.parent)
        done = _run("check", file, "--sarif", "--ignore", "placeholder")
        assert done.exit_code == 2
        (run,) = json.loads(done.output)["runs"]
        rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
        assert set(rules) == {"no-owner", "no-infiniband"}
        assert all(rule["shortDescription"]["text"] for rule in rules.values())
        (error,) = [each for each in run["results"] if each["level"] == "error"]
        assert error["ruleId"] == "no-infiniband"
        (place,) = error["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "two%20words.yaml"
        region = place["physicalLocation"]["region"]
        line = file.read_text().splitlines()[region["startLine"] - 1]
        assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "pair"
        both = _run("check", file, "--sarif", "--json")
        assert "cannot be combined" in str(both.exception)

    def test_check_ignore_of_an_unknown_check_is_refused(self) -> None:
        done = _run("check", "demo", "--ignore", "no-ownr")
        assert isinstance(done.exception, UserError)
        (finding,) = done.exception.findings
        assert (finding.id, finding.hint) == ("unknown-check", "did you mean `no-owner`?")


class TestSizes:
    def test_sizes_lists_all_sizes_and_refuses_an_unknown_gpu(self) -> None:
        done = _run("sizes")
        assert done.exit_code == 0
        assert all(name in done.output for name in vm_sizes())
        assert "8 × H100 80 GB" in done.output
        sizes = {size["name"]: size for size in json.loads(_run("sizes", "--json").output)}
        assert list(sizes) == list(vm_sizes())
        nd = sizes["Standard_ND96isr_H100_v5"]
        assert (nd["gpus"], nd["gpu"], nd["infiniband_gbps"], nd["rdma"]) == (8, "H100", 400, True)
        assert sizes["Standard_NC24rs_v3"]["status"] == "retired"
        assert sizes["Standard_NC24rs_v3"]["successor"]
        done = _run("sizes", "--gpu", "H10")
        assert isinstance(done.exception, UserError)
        assert done.exception.findings[0].id == "unknown-gpu"
        none_near = _run("sizes", "--gpu", "zz").exception
        assert isinstance(none_near, UserError)
        assert "V100" in none_near.findings[0].hint

    @pytest.mark.parametrize("name", ["H100", "h100"])
    def test_sizes_are_filtered_by_gpu_and_rdma(self, name: str) -> None:
        names = [s["name"] for s in json.loads(_run("sizes", "--gpu", name, "--json").output)]
        assert "Standard_ND96is_H100_v5" in names
        assert not [each for each in names if "A100" in each]
        rdma = json.loads(_run("sizes", "--gpu", name, "--rdma", "--json").output)
        assert {size["name"] for size in rdma} < set(names)
        assert all(size["infiniband_adapters"] for size in rdma)

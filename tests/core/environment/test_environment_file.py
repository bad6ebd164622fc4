"""Contents of an environment file beyond its fields: variables, defaults, anchors."""

from pathlib import Path

import pytest

from fairway_core.environment import Environment, LoadedEnvironment, read_environment
from fairway_core.environment.selection import environment_file, known_environments
from fairway_core.findings import Finding, UserError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu demo"
HEAD = f"name: lab\nlocation: westeurope\naccess: {{ssh_keys: [{KEY}]}}\n"
BOX = "clusters: {box: {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}}\n"


def _load(tmp_path: Path, text: str, **environ: str) -> LoadedEnvironment:
    file = tmp_path / "lab.yaml"
    file.write_text(HEAD + text)
    return read_environment(file, environ=environ)


def _faults(tmp_path: Path, text: str, **environ: str) -> tuple[Finding, ...]:
    with pytest.raises(UserError) as caught:
        _load(tmp_path, text, **environ)
    assert caught.value.exit_code == 2
    return caught.value.findings


def _line(finding: Finding) -> str:
    assert finding.location is not None
    return finding.location.text.strip()


class TestVariables:
    def test_variable_as_entire_value_is_converted_to_field_type(self, tmp_path: Path) -> None:
        text = "zone: ${env:ZONE}\nprotect: ${env:ON}\nnetwork: {address_space: '${env:RANGE}'}\n"
        given = {"ON": "false", "RANGE": "10.1.0.0/16"}
        environment = _load(tmp_path, text + BOX, ZONE="2", **given).environment
        assert (environment.zone, environment.protect) == (2, False)
        assert str(environment.network.address_space) == "10.1.0.0/16"
        assert _load(tmp_path, text + BOX, ZONE="none", **given).environment.zone_number is None

    @pytest.mark.parametrize("value", ["7", "true", "null", "[a]", "", "a: b", "'"])
    def test_variable_in_text_field_stays_text(self, tmp_path: Path, value: str) -> None:
        loaded = _load(tmp_path, "tags: {owner: '<${env:X}>'}\n" + BOX, X=value)
        assert loaded.environment.tags == {"owner": f"<{value}>"}
        loaded = _load(tmp_path, "tags:\n  owner: ${env:X}\n" + BOX, X=value)
        assert loaded.environment.tags == {"owner": value}

    def test_variable_default_replaces_unset_variable(self, tmp_path: Path) -> None:
        text = "tags:\n  a: ${env:A:-nobody}\n  b: ${env:B:-}\n  c: ${env:A}-${env:B:-2}\n"
        tags = _load(tmp_path, text + BOX, A="1").environment.tags
        assert tags == {"a": "1", "b": "", "c": "1-2"}

    def test_variable_that_is_unset_is_reported_at_its_line(self, tmp_path: Path) -> None:
        text = "zone: ${env:ZONE}\ntags:\n  owner: ${env:OWNER}\n" + BOX
        first, second = _faults(tmp_path, text)
        assert (first.id, first.path) == ("unset-variable", "zone")
        assert _line(first) == "zone: ${env:ZONE}"
        assert "OWNER" in second.message
        assert "export OWNER=" in second.hint
        assert _line(second) == "owner: ${env:OWNER}"

    @pytest.mark.parametrize(
        "text", ["${env:}", "${env:1A}", "${env:A B}", "${env:A", "${env:A-b}"]
    )
    def test_variable_with_invalid_name_is_refused(self, tmp_path: Path, text: str) -> None:
        (fault,) = _faults(tmp_path, f"tags: {{owner: '{text}'}}\n" + BOX, A="1")
        assert fault.id == "bad-variable"

    def test_variable_with_wrong_value_is_reported_at_the_line_using_it(
        self, tmp_path: Path
    ) -> None:
        (fault,) = _faults(tmp_path, "zone: ${env:ZONE}\n" + BOX, ZONE="four")
        assert "four" in fault.message
        assert _line(fault) == "zone: ${env:ZONE}"

    def test_variable_value_cannot_add_structure_variables_or_keys(self, tmp_path: Path) -> None:
        loaded = _load(tmp_path, "tags:\n  owner: ${env:A}\n" + BOX, A="${env:B}", B="secret")
        assert loaded.environment.tags == {"owner": "${env:B}"}
        (fault,) = _faults(tmp_path, "clusters: ${env:A}\n", A="{box: {}}")
        assert fault.path == "clusters"
        text = "network: {private_endpoints: false}\ntags: {'${env:A}': x}\n"
        loaded = _load(tmp_path, text + BOX, A="owner")
        assert loaded.environment.tags == {"${env:A}": "x"}


TWO = """defaults:
  cluster:
    engine: ssh
    size: Standard_ND96isr_H100_v5
    mounts: [data]
  filesystem:
    kind: nfs_server
    disks: {count: 8, gib: 512}
filesystems:
  data: {path: /data}
  more: {path: /more, disks: {count: 2}}
clusters:
  one: {nodes: 2}
  two: {nodes: 1, size: Standard_NC40ads_H100_v5, mounts: []}
"""


class TestDefaults:
    def test_defaults_are_merged_into_items_for_omitted_fields(self, tmp_path: Path) -> None:
        environment = _load(tmp_path, TWO).environment
        one, two = environment.clusters["one"], environment.clusters["two"]
        assert (one.engine, one.size, one.mounts) == ("ssh", "Standard_ND96isr_H100_v5", ("data",))
        assert (two.size, two.mounts) == ("Standard_NC40ads_H100_v5", ())
        files = environment.filesystems
        assert (files["data"].disks.count, files["data"].disks.gib) == (8, 512)
        assert (files["more"].disks.count, files["more"].disks.gib) == (2, 512)
        set_here = ["defaults.filesystem.disks.count=5"]
        loaded = read_environment(tmp_path / "lab.yaml", overrides=set_here, environ={})
        assert loaded.environment.filesystems["data"].disks.count == 5

    def test_defaults_apply_to_an_empty_item(self, tmp_path: Path) -> None:
        text = "defaults: {cluster: {engine: ssh, nodes: 1, size: Standard_NC40ads_H100_v5}}\n"
        environment = _load(tmp_path, text + "clusters:\n  a:\n  b: {}\n").environment
        assert environment.clusters["a"] == environment.clusters["b"]

    def test_defaults_with_wrong_value_are_reported_once_at_their_line(
        self, tmp_path: Path
    ) -> None:
        (fault,) = _faults(tmp_path, TWO.replace("gib: 512", "gib: many"))
        assert "many" in fault.message
        assert _line(fault) == "disks: {count: 8, gib: many}"

    def test_defaults_with_unknown_key_suggest_the_nearest(self, tmp_path: Path) -> None:
        (fault,) = _faults(tmp_path, TWO.replace("engine: ssh", "engin: ssh"))
        assert (fault.id, fault.path) == ("unknown-key", "defaults.cluster.engin")
        assert fault.hint == "did you mean `engine`?"
        fault, *_ = _faults(tmp_path, TWO.replace("  cluster:", "  clusters:"))
        assert (fault.id, fault.hint) == ("unknown-key", "did you mean `cluster`?")

    def test_defaults_apply_only_to_kinds_with_that_field(self, tmp_path: Path) -> None:
        text = (
            "defaults: {cluster: {size: Standard_ND96asr_v4, mpi: false, mounts: [data]}}\n"
            "filesystems: {data: {kind: nfs_server, path: /data}}\n"
            "clusters:\n"
            "  pool: {engine: batch, nodes: {min: 0, max: 4}}\n"
            "  pair: {engine: ssh, nodes: 2}\n"
        )
        clusters = _load(tmp_path, text).environment.clusters
        assert getattr(clusters["pool"], "mpi") is False  # noqa: B009 - not every kind has this field
        assert not hasattr(clusters["pair"], "mpi")

    def test_defaults_convert_variables_to_field_type(self, tmp_path: Path) -> None:
        text = TWO.replace("count: 8", "count: '${env:DISKS}'").replace(
            "    engine: ssh", "    engine: ssh\n    image: ${env:IMAGE:-ubuntu-hpc-2204}"
        )
        environment = _load(tmp_path, text, DISKS="3").environment
        assert environment.filesystems["data"].disks.count == 3
        assert environment.clusters["one"].image == "ubuntu-hpc-2204"


def test_x_keys_hold_anchors_only_at_top_level(tmp_path: Path) -> None:
    text = (
        "x-node: &node {engine: ssh, size: Standard_NC40ads_H100_v5, nodes: 1}\n"
        "clusters: {a: *node, b: {<<: *node, image: ubuntu-hpc-2204}}\n"
    )
    clusters = _load(tmp_path, text).environment.clusters
    assert clusters["b"].image == "ubuntu-hpc-2204"
    assert clusters["a"].size == clusters["b"].size
    (fault,) = _faults(tmp_path, "network: {x-a: 1}\n" + BOX)
    assert fault.id == "unknown-key"


class TestSelection:
    def test_environment_file_is_chosen_by_path_name_variable_or_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
    ) -> None:
        assert environment_file("demo").samefile(repository / "stacks/environments/demo.yaml")
        file = tmp_path / "mine.yaml"
        file.write_text(HEAD + BOX)
        assert environment_file(str(file)) == file
        assert environment_file("no/such.yaml") == Path("no/such.yaml")
        with pytest.raises(UserError) as caught:
            environment_file("dmo")
        assert caught.value.findings[0].hint == "did you mean `demo`?"
        monkeypatch.delenv("FAIRWAY_ENVIRONMENT", raising=False)
        monkeypatch.chdir(repository)
        assert environment_file().stem == "demo"
        monkeypatch.setenv("FAIRWAY_ENVIRONMENT", "elsewhere.yaml")
        assert environment_file() == Path("elsewhere.yaml")

    @pytest.mark.parametrize("name", known_environments())
    def test_environment_files_shipped_are_all_valid(self, name: str) -> None:
        assert isinstance(read_environment(environment_file(name)).environment, Environment)

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
    def test_a_whole_value_becomes_what_the_field_is(self, tmp_path: Path) -> None:
        text = "zone: ${env:ZONE}\nprotect: ${env:ON}\nnetwork: {address_space: '${env:RANGE}'}\n"
        given = {"ON": "false", "RANGE": "10.1.0.0/16"}
        environment = _load(tmp_path, text + BOX, ZONE="2", **given).environment
        assert (environment.zone, environment.protect) == (2, False)
        assert str(environment.network.address_space) == "10.1.0.0/16"
        assert _load(tmp_path, text + BOX, ZONE="none", **given).environment.zone_number is None

    @pytest.mark.parametrize("value", ["7", "true", "null", "[a]", "", "a: b", "'"])
    def test_a_field_of_text_stays_text(self, tmp_path: Path, value: str) -> None:
        loaded = _load(tmp_path, "tags: {owner: '<${env:X}>'}\n" + BOX, X=value)
        assert loaded.environment.tags == {"owner": f"<{value}>"}
        loaded = _load(tmp_path, "tags:\n  owner: ${env:X}\n" + BOX, X=value)
        assert loaded.environment.tags == {"owner": value}

    def test_a_default_stands_in_for_what_is_not_set(self, tmp_path: Path) -> None:
        text = "tags:\n  a: ${env:A:-nobody}\n  b: ${env:B:-}\n  c: ${env:A}-${env:B:-2}\n"
        tags = _load(tmp_path, text + BOX, A="1").environment.tags
        assert tags == {"a": "1", "b": "", "c": "1-2"}

    def test_environment_file_names_each_unset_variable_at_its_line(self, tmp_path: Path) -> None:
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
    def test_environment_file_refuses_an_invalid_variable_name(
        self, tmp_path: Path, text: str
    ) -> None:
        (fault,) = _faults(tmp_path, f"tags: {{owner: '{text}'}}\n" + BOX, A="1")
        assert fault.id == "bad-variable"

    def test_a_wrong_value_is_shown_at_the_line_that_takes_it(self, tmp_path: Path) -> None:
        (fault,) = _faults(tmp_path, "zone: ${env:ZONE}\n" + BOX, ZONE="four")
        assert "four" in fault.message
        assert _line(fault) == "zone: ${env:ZONE}"

    def test_a_variable_cannot_bring_in_structure_further_variables_or_keys(
        self, tmp_path: Path
    ) -> None:
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
    def test_items_have_what_they_do_not_set_in_merged_mappings(self, tmp_path: Path) -> None:
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

    def test_an_item_may_say_nothing_at_all(self, tmp_path: Path) -> None:
        text = "defaults: {cluster: {engine: ssh, nodes: 1, size: Standard_NC40ads_H100_v5}}\n"
        environment = _load(tmp_path, text + "clusters:\n  a:\n  b: {}\n").environment
        assert environment.clusters["a"] == environment.clusters["b"]

    def test_a_wrong_default_is_shown_once_at_its_own_line(self, tmp_path: Path) -> None:
        (fault,) = _faults(tmp_path, TWO.replace("gib: 512", "gib: many"))
        assert "many" in fault.message
        assert _line(fault) == "disks: {count: 8, gib: many}"

    def test_a_key_that_nothing_knows_is_refused_with_the_near_one(self, tmp_path: Path) -> None:
        (fault,) = _faults(tmp_path, TWO.replace("engine: ssh", "engin: ssh"))
        assert (fault.id, fault.path) == ("unknown-key", "defaults.cluster.engin")
        assert fault.hint == "did you mean `engine`?"
        fault, *_ = _faults(tmp_path, TWO.replace("  cluster:", "  clusters:"))
        assert (fault.id, fault.hint) == ("unknown-key", "did you mean `cluster`?")

    def test_a_field_reaches_only_the_kinds_that_know_it(self, tmp_path: Path) -> None:
        text = (
            "defaults: {cluster: {size: Standard_ND96asr_v4, mpi: false, mounts: [data]}}\n"
            "filesystems: {data: {kind: nfs_server, path: /data}}\n"
            "clusters:\n"
            "  pool: {engine: batch, nodes: {min: 0, max: 4}}\n"
            "  pair: {engine: ssh, nodes: 2}\n"
        )
        clusters = _load(tmp_path, text).environment.clusters
        assert getattr(clusters["pool"], "mpi") is False  # noqa: B009 - not every kind has it
        assert not hasattr(clusters["pair"], "mpi")

    def test_variables_in_defaults_become_what_the_field_is(self, tmp_path: Path) -> None:
        text = TWO.replace("count: 8", "count: '${env:DISKS}'").replace(
            "    engine: ssh", "    engine: ssh\n    image: ${env:IMAGE:-ubuntu-hpc-2204}"
        )
        environment = _load(tmp_path, text, DISKS="3").environment
        assert environment.filesystems["data"].disks.count == 3
        assert environment.clusters["one"].image == "ubuntu-hpc-2204"


def test_keys_with_x_hold_anchors_and_nothing_else_only_at_the_top(tmp_path: Path) -> None:
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
    def test_environment_is_chosen_by_file_name_variable_or_default(
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
    def test_every_environment_of_ours_can_be_read(self, name: str) -> None:
        assert isinstance(read_environment(environment_file(name)).environment, Environment)

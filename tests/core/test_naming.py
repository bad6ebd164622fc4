"""Names: one rule, within Azure's limits, and an error if no name is possible."""

import re

import pytest
from endings import refused
from hypothesis import given
from hypothesis import strategies as st
from properties import tried

from fairway_core.catalog.tables import table
from fairway_core.findings import UserError
from fairway_core.naming import SUFFIX_LENGTH, Naming, check_name, check_pattern, unique_suffix

KINDS = table("names")["names"]["kind"]


ENVIRONMENTS = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]", fullmatch=True)
PARTS = st.from_regex(r"[a-z][a-z0-9-]{0,18}[a-z0-9]", fullmatch=True)


@tried
@given(st.sampled_from(sorted(KINDS)), ENVIRONMENTS, PARTS, st.integers(0, 100))
def test_name_from_any_environment_fits_every_kind(
    kind: str, environment: str, part: str, number: int
) -> None:
    row, suffix = KINDS[kind], "${s}" if KINDS[kind].get("unique", False) else ""
    parts = () if suffix else (part, str(number))
    name = Naming().name(kind, environment, *parts, suffix=suffix)
    assert name == Naming().name(kind, environment, *parts, suffix=suffix)
    length = len(name.removesuffix(suffix)) + (SUFFIX_LENGTH if suffix else 0)
    assert row["shortest"] <= length <= row["longest"]
    if not suffix:
        assert Naming().name(kind, environment, part, str(number + 1)) != name


USUAL = Naming()
REGION = Naming("{type}-{environment}-{region}-{name}", "{type}-{environment}-corp-{name}")
SIGNS = Naming(*["Corp.ML_{type}_{environment}_{name}"] * 2)


@pytest.mark.parametrize(
    ("naming", "kind", "part", "name"),
    [
        (USUAL, "resource_group", "network", "h100-rg-network"),
        (USUAL, "virtual_network", "", "h100-vnet"),
        (USUAL, "linux_virtual_machine_scale_set", "nd", "h100-vmss-nd"),
        (USUAL, "managed_disk", "data 0", "h100-disk-data-0"),
        (USUAL, "computer_name_prefix", "nd", "h100-nd"),
        # Hyphens are dropped if Azure accepts none.
        (USUAL, "storage_account", "", "h100st${s}"),
        (REGION, "subnet", "compute", "snet-h100-westeurope-compute"),
        (REGION, "virtual_network", "", "vnet-h100-westeurope"),
        (REGION, "batch_pool", "spot", "h100-westeurope-spot"),
        (REGION, "storage_account", "", "sth100corp${s}"),
        (REGION, "key_vault", "", "kv-h100-corp${s}"),
        # Capitals and signs are kept if Azure accepts them.
        (SIGNS, "subnet", "compute", "Corp.ML_snet_h100_compute"),
        (SIGNS, "virtual_network", "", "Corp.ML_vnet_h100"),
        (SIGNS, "kubernetes_cluster", "", "Corp-ML_aks_h100"),
        (SIGNS, "linux_virtual_machine", "nd", "Corp-ML-vm-h100-nd"),
        (SIGNS, "key_vault", "", "Corp-ML-kv-h100${s}"),
        (SIGNS, "container_registry", "", "CorpMLcrh100${s}"),
        (SIGNS, "storage_account", "", "corpmlsth100${s}"),
        (SIGNS, "storage_share", "home", "corp-ml-h100-home"),
        (SIGNS, "computer_name_prefix", "nd", "corp-ml-h100-nd"),
    ],
)
def test_name_follows_pattern_within_characters_azure_accepts(
    naming: Naming, kind: str, part: str, name: str
) -> None:
    suffix = "${s}" if "$" in name else ""
    assert naming.name(kind, "h100", *part.split(), region="westeurope", suffix=suffix) == name
    assert USUAL.name("storage_account", "my-lab", suffix="${s}") == "mylabst${s}"
    check_pattern("Corp.ML_{type}_{environment}_{name}")


def test_name_that_is_unique_requires_suffix_counted_in_length() -> None:
    with pytest.raises(ValueError, match="needs a suffix"):
        Naming().name("storage_account", "h100")
    assert Naming().name("storage_account", "a" * 14, suffix="${s}")
    with pytest.raises(UserError, match="has 25 characters"):
        Naming().name("storage_account", "a" * 15, suffix="${s}")


def test_unique_suffix_differs_by_environment_and_subscription() -> None:
    one = unique_suffix("local.a", "h100")
    assert one.startswith("${")
    assert one.endswith("}")
    assert f"0, {SUFFIX_LENGTH}" in one
    assert len({one, unique_suffix("local.b", "h100"), unique_suffix("local.a", "h200")}) == 3


def test_name_that_is_too_long_is_refused_with_azure_limit() -> None:
    finding = refused(lambda: Naming().name("linux_virtual_machine", "h100", "x" * 80))
    assert finding.id == "name-too-long"
    assert "Azure takes 1 to 64" in finding.hint


def test_name_of_unknown_kind_suggests_the_nearest() -> None:
    unknown = refused(lambda: Naming().name("storage_acount", "h100"), "unknown resource kind")
    assert "storage_account" in unknown.hint


def test_naming_table_is_consistent() -> None:
    for kind, row in KINDS.items():
        assert 1 <= row["shortest"] <= row["longest"], kind
        assert re.fullmatch(r"[a-z]*", row["abbreviation"]), kind


IN_BETWEEN = "letters and digits, and hyphens in between"


@pytest.mark.parametrize(
    ("kind", "name", "id_", "said"),
    [
        ("storage_account", "", "name-too-short", "has 0 characters"),
        ("storage_account", "a", "name-too-short", "has 1 character\n"),
        ("storage_account", "Contoso", "bad-name", "Azure takes lower-case letters and digits"),
        ("storage_account", "con-toso", "bad-name", ""),
        ("storage_account", "contosö", "bad-name", ""),
        ("storage_container", "-datax", "bad-name", ""),
        ("storage_container", "data-", "bad-name", ""),
        ("storage_container", "da_ta", "bad-name", ""),
        ("container_registry", "Corp-Data", "bad-name", "Azure takes letters and digits"),
        ("linux_virtual_machine", "Corp_VM", "bad-name", f"Azure takes {IN_BETWEEN}"),
        ("managed_disk", "Corp.1", "bad-name", IN_BETWEEN.replace(" in", " and underscores in")),
    ],
)
def test_check_name_refuses_invalid_names_and_lists_the_characters_of_the_kind(
    kind: str, name: str, id_: str, said: str
) -> None:
    check_name("storage_account", "contosodata01")
    check_name("managed_disk", "Corp_Disk-1")
    finding = refused(lambda: check_name(kind, name), kind.replace("_", " "))
    assert finding.id == id_
    assert said in f"{finding.message}\n{finding.hint}"


def test_naming_default_pattern_fits_longest_environment_name() -> None:
    assert list(Naming().faults("x" * 12, "germanywestcentral")) == []


@tried
@given(st.sampled_from(sorted(KINDS)), ENVIRONMENTS, st.sampled_from(["eastus", "southcentralus"]))
def test_naming_pattern_without_faults_fits_every_kind(
    kind: str, environment: str, region: str
) -> None:
    naming = Naming("{type}-{region}-{environment}-{name}", "{type}{environment}-{name}")
    assert list(naming.faults(environment, region)) == []
    row, suffix = KINDS[kind], "${s}" if KINDS[kind].get("unique", False) else ""
    parts = ("x" * room,) if (room := row.get("room", 24)) else ()
    naming.name(kind, environment, *parts, region=region, suffix=suffix)


def test_naming_pattern_that_is_too_long_names_the_kind() -> None:
    naming = Naming(unique="{type}-{environment}-{region}-{name}")
    field, message, hint = next(naming.faults("h100", "southcentralus"))
    assert field == "unique"
    assert "28 characters for a storage account" in message
    assert "Azure takes 24" in hint


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{type}-{environment}", "add {name}"),
        ("{type}-{name}", "add {environment}"),
        ("{nam}-{type}-{environment}", "did you mean `name`"),
        ("{zone}-{type}-{environment}-{name}", "one of: environment, name, region, type"),
        ("{type}+{environment}+{name}", "underscores and periods"),
        ("_{type}-{environment}-{name}", "first a letter"),
        ("{type}-{environment}-{name}.", "last a letter or digit"),
        ("{Type}-{environment}-{name}", "did you mean `type`"),
        ("7{type}-{environment}-{name}", "first a letter"),
        ("{type}-{environment}-{name", "letters, digits"),
        ("${type}-{environment}-{name}", "letters, digits"),
        ("", "add {type} and {environment} and {name}"),
        ("{type}-{environment}-{name}" + "x" * 200, "at most 200 characters"),
    ],
)
def test_naming_pattern_that_is_invalid_is_refused(pattern: str, said: str) -> None:
    finding = refused(lambda: check_pattern(pattern))
    assert finding.id == "bad-pattern"
    assert said in (finding.hint or "")

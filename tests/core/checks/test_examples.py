"""Every check is registered, explained, and tripped by its own wrong example and by no other."""

import copy
import datetime
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pages
import pytest
from ruamel.yaml import YAML
from targets import target_of

from fairway_core.checks import (
    Check,
    CheckContext,
    Subject,
    all_checks,
    check_environment,
    check_job,
    check_plan,
    check_stack,
)
from fairway_core.checks.check import REGISTERED
from fairway_core.checks.runner import modules_of
from fairway_core.environment import Environment
from fairway_core.findings import Finding, format_finding

TODAY = datetime.date(2026, 11, 21)

# The base of all examples, which trips no check. An example of Slurm or Kubernetes also gets a
# cluster of that engine, and each cluster gets defaults for what it omits.
BASE = """
name: demo
location: southcentralus
tags: {owner: research@example.com}
access: {ssh_keys: [ssh-ed25519 AAAA demo], allowed: [203.0.113.0/24]}
budget: {monthly: 50000, emails: [team@example.com]}
filesystems:
  data:
    kind: nfs_server
    size: Standard_D32s_v6
    disks: {count: 4, gib: 1024, iops: 5000, mbps: 500}
    path: /data
clusters:
  pair: {engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}
"""

_OF_ENGINES = {"slurm": {}, "kubernetes": {"upgrades": {}}}
_CLUSTER = {"size": "Standard_HB176rs_v4", "nodes": 2, "mounts": ["data"]}

# The target of the example jobs.
_SPOT = target_of(
    "slurm", vm_size="Standard_ND96isr_H100_v5", nodes={"min": 0, "max": 16}, spot=True
)


def _yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {k: _merged(base.get(k), over.get(k, base.get(k))) for k in {**base, **over}}
    return copy.deepcopy(over)


def _findings(check: Check, example: str) -> list[Finding]:
    """Returns the findings of all checks of the subject in the example, merged into the base."""
    fragment = _yaml(example)
    match check.subject:
        case Subject.ENVIRONMENT:
            return check_environment(_environment(fragment), today=TODAY)
        case Subject.TERRAFORM:
            return check_stack(_stack(fragment, check), _context(check))
        case Subject.PLAN:
            changes = [
                {"address": address, "type": address.partition(".")[0], "change": change}
                for address, change in fragment.items()
                if not address.startswith("output.")
            ]
            outputs = {
                address.removeprefix("output."): change
                for address, change in fragment.items()
                if address.startswith("output.")
            }
            return check_plan({"resource_changes": changes, "output_changes": outputs})
        case Subject.JOB:
            # `no-sharp` is about nodes that lack a feature, so it needs such nodes.
            size = "Standard_ND96asr_v4" if check.id == "no-sharp" else _SPOT.vm_size
            target = _SPOT.model_copy(update={"vm_size": size})
            return check_job({"name": "train", "command": "true", **fragment}, target)


def _environment(fragment: Any) -> Environment:
    whole = _merged(_yaml(BASE), fragment)
    for engine, section in _OF_ENGINES.items():
        clusters = whole["clusters"]
        if engine in fragment and all(each["engine"] != engine for each in clusters.values()):
            clusters[engine] = {"engine": engine}
        if any(each["engine"] == engine for each in clusters.values()):
            whole[engine] = {**section, **(whole.get(engine) or {})}
    for name, each in whole["clusters"].items():
        image = {"job_image": "train:1"} if each["engine"] == "kubernetes" else {}
        whole["clusters"][name] = {**_CLUSTER, **image, **each}
    return Environment.model_validate(whole)


def _context(check: Check) -> CheckContext:
    environment = Environment.model_validate(_yaml(BASE))
    context = CheckContext.from_environment(environment)
    # Only one check is about protection: other examples need not set it.
    return CheckContext(protect=check.id == "unprotected-data", allowed=context.allowed)


def _stack(fragment: Any, check: Check) -> Any:
    """Returns the example's resources and outputs, keyed by address, in the form of a stack."""
    stack: dict[str, Any] = {"resource": {}, "output": {}}
    tags = {"environment": "demo", "managed-by": "fairway"} if check.id != "untagged" else {}
    for address, values in fragment.items():
        type_, _, name = address.partition(".")
        if type_ == "output":
            stack["output"][name] = values
        else:
            named = stack["resource"].setdefault(type_, {})
            named[name] = {**values, "tags": values.get("tags", tags)}
    return stack


def _rule_modules() -> list[ModuleType]:
    return [
        importlib.import_module(module) for subject in Subject for module in modules_of(subject)
    ]


def test_checks_register_every_public_rule_and_list_every_module(repository: Path) -> None:
    rules = {check.rule for check in all_checks()}
    for module in _rule_modules():
        public = [
            member
            for name, member in inspect.getmembers(module, inspect.isfunction)
            if member.__module__ == module.__name__ and not name.startswith("_")
        ]
        assert public, module.__name__
        assert set(public) <= rules, module.__name__
    core = repository / "constructs/fairway_core"
    listed = {module for subject in Subject for module in modules_of(subject)}
    files = {*core.glob("checks/*/[!_]*.py"), *core.glob("environment/clusters/*/checks.py")}
    paths = {file.relative_to(core.parent).with_suffix("") for file in files}
    assert listed - {"fairway_core.checks.job"} == {
        ".".join(path.parts) for path in paths if path.name != "stack"
    }


def test_checks_have_rule_name_as_id_and_one_sentence_summary() -> None:
    for id_, check in REGISTERED.items():
        assert id_ == check.id
        assert id_.replace("-", "_") == check.rule.__name__
        assert check.summary.endswith(".")
        assert len(check.summary) < 100


def test_checks_messages_of_wrong_example_report_only_that_check() -> None:
    held = []

    def answer(id_: str) -> tuple[int, str]:
        held.append(id_)
        check = REGISTERED[id_]
        found = _findings(check, check.explanation.wrong)
        assert {each.id for each in found} == {id_}
        for each in found:
            assert each.severity == check.severity
            assert each.path or check.subject is Subject.PLAN
            assert each.message
            assert each.hint
        return 0, "\n".join(map(format_finding, found))

    pages.hold("checks", answer)
    assert held == [check.id for check in all_checks()]


def test_checks_right_example_trips_no_check() -> None:
    for check in all_checks():
        assert _findings(check, check.explanation.right) == [], check.id


def test_checks_ignored_by_id_report_nothing() -> None:
    for check in all_checks(Subject.ENVIRONMENT):
        fragment = _yaml(check.explanation.wrong)
        environment = _environment(fragment)
        assert check_environment(environment, ignore=[check.id], today=TODAY) == []


def test_checks_with_duplicate_id_are_refused() -> None:
    from fairway_core.checks.check import check

    first = all_checks()[0]
    with pytest.raises(ValueError, match=first.id):
        check(first.id, first.severity, first.subject, select=first.select)(first.rule)

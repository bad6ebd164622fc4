"""Monitoring: data of machines reaches the workspace, and each alert has an existing signal."""

import json
import re
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from programs import executable

import fairway_constructs as az
from fairway_core.catalog import default_image, vm_size

Synthesize = Callable[[Callable[[az.Stack], object]], dict[str, Any]]


def _monitoring(stack: az.Stack) -> az.Monitoring:
    return az.Monitoring(stack, emails=["team@example.com", "b.c@example.com"], retention_days=90)


@pytest.fixture(scope="module")
def everything(synthesize: Synthesize) -> dict[str, Any]:
    """Returns the resources of a stack in which everything is monitored."""

    def build(stack: az.Stack) -> None:
        monitoring = _monitoring(stack)
        monitoring.collect_metrics(stack, "pair", resource_id="/scale-set")
        existing = (
            "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/g"
            "/providers/Microsoft.Storage/storageAccounts/labdata"
        )
        for service in (
            az.Vault(stack),
            az.Storage.from_id(stack, "storage", existing),
            az.BatchAccount(stack),
        ):
            service.diagnostic_settings(monitoring)
        alerts = az.Alerts(stack, monitoring=monitoring)
        alerts.batch_account("/batch", kept=3)
        alerts.file_server_down("data", "/vm")
        alerts.file_servers_full("/srv/fairway/")
        alerts.gpus_idle()

    resources: dict[str, Any] = synthesize(build)["resource"]
    return resources


def test_monitoring_workspace_receives_data_of_machines_and_services(
    everything: dict[str, Any],
) -> None:
    workspace = everything["azurerm_log_analytics_workspace"]["workspace"]
    assert workspace["local_authentication_enabled"] is False
    assert workspace["retention_in_days"] == 90
    rule = everything["azurerm_monitor_data_collection_rule"]["machines"]
    (flow,) = rule["data_flow"]
    (destination,) = rule["destinations"]["log_analytics"]
    assert flow["destinations"] == [destination["name"]]
    made = "${azurerm_log_analytics_workspace.workspace.id}"
    assert destination["workspace_resource_id"] == made
    sources = [*rule["data_sources"]["performance_counter"], *rule["data_sources"]["syslog"]]
    assert {stream for source in sources for stream in source["streams"]} == set(flow["streams"])
    watched = everything["azurerm_monitor_data_collection_rule_association"]["pair-is-watched"]
    assert watched["target_resource_id"] == "/scale-set"
    used = "${azurerm_monitor_data_collection_rule.machines.id}"
    assert watched["data_collection_rule_id"] == used
    vault, storage, batch = (
        everything["azurerm_monitor_diagnostic_setting"][f"{name}-is-recorded"]
        for name in ("vault", "storage", "batch")
    )
    assert vault["enabled_log"] == [{"category_group": "allLogs"}]
    assert storage["enabled_log"] == [{"category": "StorageDelete"}]
    assert storage["target_resource_id"].endswith("/blobServices/default")
    assert "enabled_metric" not in vault
    assert batch["enabled_metric"] == [{"category": "AllMetrics"}]


def test_alerts_have_their_signals_and_use_the_action_group(
    everything: dict[str, Any],
) -> None:
    own = everything["azurerm_monitor_action_group"]["alerts"]
    assert len(own["short_name"]) <= 12
    assert {each["name"]: each["email_address"] for each in own["email_receiver"]} == {
        "team-example-com": "team@example.com",
        "b-c-example-com": "b.c@example.com",
    }
    group = "${azurerm_monitor_action_group.alerts.id}"
    metrics = everything["azurerm_monitor_metric_alert"]
    signals = set()
    for alert in metrics.values():
        assert alert["action"] == [{"action_group_id": group}]
        assert alert["description"]
        (each,) = alert["criteria"]
        least = each["metric_name"] == "IdleNodeCount"  # others are idle for minutes only
        assert each["aggregation"] == ("Minimum" if least else "Average")
        signal = (each["metric_name"], each["operator"], each["threshold"])
        signals.add((*signal, alert["severity"], alert["window_size"]))
    # Azure's severities: 1 is an error, 2 a warning, and 3 informational.
    assert signals == {
        ("UnusableNodeCount", "GreaterThan", 0, 1, "PT15M"),
        ("StartTaskFailedNodeCount", "GreaterThan", 0, 1, "PT15M"),
        ("PreemptedNodeCount", "GreaterThan", 0, 3, "PT5M"),
        ("IdleNodeCount", "GreaterThan", 3, 2, "PT1H"),
        ("VmAvailabilityMetric", "LessThan", 1, 1, "PT5M"),
    }
    queries = everything["azurerm_monitor_scheduled_query_rules_alert_v2"]
    percents = {}
    for name, alert in queries.items():
        assert alert["action"] == {"action_groups": [group]}
        assert alert["scopes"] == ["${azurerm_log_analytics_workspace.workspace.id}"]
        (criteria,) = alert["criteria"]
        last = criteria["query"].splitlines()[-1]
        assert criteria["metric_measure_column"] in last
        assert all(dimension["name"] in last for dimension in criteria["dimension"])
        percents[name] = (criteria["operator"], criteria["threshold"], alert["window_duration"])
    assert percents == {
        "file-server-full-alert": ("GreaterThan", 85, "PT15M"),
        "gpus-idle-alert": ("LessThanOrEqual", 5, "PT1H"),
    }


def test_alerts_query_only_collected_counters_and_syslog(everything: dict[str, Any]) -> None:
    sources = everything["azurerm_monitor_data_collection_rule"]["machines"]["data_sources"]
    alerts = everything["azurerm_monitor_scheduled_query_rules_alert_v2"]
    full = alerts["file-server-full-alert"]["criteria"][0]["query"]
    object_name = re.search(r'ObjectName == "([^"]+)"', full)
    counter = re.search(r'CounterName == "([^"]+)"', full)
    assert object_name
    assert counter
    (counters,) = sources["performance_counter"]
    assert f"{object_name[1]}(*)\\{counter[1]}" in counters["counter_specifiers"]
    idle = alerts["gpus-idle-alert"]["criteria"][0]["query"]
    facility = re.search(r'Facility == "([^"]+)"', idle)
    assert facility
    own = [each for each in sources["syslog"] if facility[1] in each["facility_names"]]
    assert [("Info" in each["log_levels"]) for each in own] == [True]


class TestGpuMetrics:
    """Figures that a node logs about its GPUs."""

    def _run(self, repository: Path, tmp_path: Path, smi: str) -> tuple[int, str]:
        """Runs the script with a fake nvidia-smi; returns its exit code and logger's arguments."""
        script = repository / "constructs/fairway_constructs/cloud_init/gpu_metrics.sh"
        for name, body in {"nvidia-smi": smi, "logger": f'echo "$@" >{tmp_path}/log'}.items():
            executable(tmp_path / name, body)
        done = subprocess.run(
            ["bash", str(script)],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            check=False,
            capture_output=True,
        )
        log = tmp_path / "log"
        return done.returncode, log.read_text() if log.exists() else ""

    SUMS = "--tag fairway-gpu --priority local0.info gpus=2 busiest=90 mean=45 memory=24\n"

    @pytest.mark.parametrize(
        ("smi", "status", "said"),
        [
            ("printf '0, 100, 81559\\n90, 40000, 81559\\n'", 0, SUMS),
            ("exit 9", 9, ""),
            ("echo '[N/A], 1, 2'", 0, ""),
        ],
    )
    def test_gpu_metrics_log_one_line_for_all_gpus_or_none_without_numbers(
        self, repository: Path, tmp_path: Path, smi: str, status: int, said: str
    ) -> None:
        assert self._run(repository, tmp_path, smi) == (status, said)

    def test_gpu_metrics_line_is_parsed_by_the_idle_alert(
        self, repository: Path, tmp_path: Path, everything: dict[str, Any]
    ) -> None:
        _, log = self._run(repository, tmp_path, "echo 7, 1, 2")
        alert = everything["azurerm_monitor_scheduled_query_rules_alert_v2"]["gpus-idle-alert"]
        query = alert["criteria"][0]["query"]
        parse = re.search(r"parse SyslogMessage with (.*)", query)
        assert parse
        # KQL's parse: quoted text is literal, Name:type is a value, * is the rest.
        pattern = ""
        for text, name, rest in re.findall(r'"([^"]*)"|(\w+):\w+|(\*)', parse[1]):
            pattern += re.escape(text) if text else rf"(?P<{name}>\S+)" if name else rest and ".*"
        message = log.partition("local0.info ")[2].strip()
        found = re.fullmatch(pattern, message)
        assert found
        assert (found["Gpus"], found["Busiest"]) == ("1", "7")
        assert 'ProcessName == "fairway-gpu"' in query
        assert "--tag fairway-gpu" in log


@pytest.mark.parametrize(
    ("size", "monitored"),
    [
        ("ND96isr_H100_v5", True),
        ("ND96isr_H100_v5", False),
        ("ND96isr_MI300X_v5", True),
        ("HB176rs_v4", True),
    ],
)
def test_monitoring_adds_agent_to_nodes_and_metrics_timer_to_nvidia_nodes(
    synthesize: Synthesize,
    cloud_config: Callable[[str], dict[str, Any]],
    check_cloud_config: Callable[[str], None],
    size: str,
    monitored: bool,
) -> None:
    sold = vm_size(f"Standard_{size}")
    subnet = az.SubnetRef("/subnet", IPv4Network("10.0.0.0/17"))
    spec: dict[str, Any] = {"size": sold, "image": default_image(sold), "subnet": subnet}

    def build(stack: az.Stack) -> None:
        identity = az.Identity(stack, "nodes")
        az.ScaleSetCluster(stack, "pair", nodes=2, identity=identity, monitored=monitored, **spec)

    kind = "azurerm_linux_virtual_machine_scale_set"
    (nodes,) = synthesize(build)["resource"][kind].values()
    text = cloud_config(nodes["custom_data"])["text"]
    says = monitored and "H100" in size
    assert ("fairway-gpu-metrics.timer" in text) is says
    if says:
        check_cloud_config(text)
    if not monitored:
        assert "extension" not in nodes
        return
    (agent,) = nodes["extension"]
    assert agent["type"] == "AzureMonitorLinuxAgent"
    identity = json.loads(agent["settings"])["authentication"]["managedIdentity"]
    own = "${azurerm_user_assigned_identity.nodes.id}"
    assert identity == {"identifier-name": "mi_res_id", "identifier-value": own}


def test_budget_covers_all_resource_groups_from_the_current_month(synthesize: Synthesize) -> None:
    def build(stack: az.Stack) -> None:
        az.Budget(
            stack,
            amount=50000,
            alerts=[50, 100],
            emails=["team@example.com"],
            resource_groups=["lab-rg-data", "lab-rg-compute"],
        )

    (budget,) = synthesize(build)["resource"]["azurerm_consumption_budget_subscription"].values()
    assert budget["subscription_id"] == (
        "/subscriptions/${data.azurerm_client_config.current.subscription_id}"
    )
    assert budget["amount"] == 50000
    assert budget["filter"]["dimension"] == [
        {"name": "ResourceGroupName", "values": ["lab-rg-data", "lab-rg-compute"]}
    ]
    assert [each["threshold"] for each in budget["notification"]] == [50, 100]
    # The current date is not written: the same file gives the same Terraform.
    assert not re.search(r"20\d\d", json.dumps(budget))
    assert "plantimestamp()" in budget["time_period"]["start_date"]
    assert budget["lifecycle"]["ignore_changes"] == ["time_period"]

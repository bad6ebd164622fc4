"""Slurm in the stacks: scheduler, partitions, permissions, and boot."""

import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from environment_files import KEY, load
from tests.stacks.documents import Stacks, Written, boot_data, files_at_boot, package_of, targets_of

from fairway_constructs.cloud_init import LONGEST_CUSTOM_DATA, slurm
from fairway_constructs.clusters import nodes
from fairway_core.findings import UserError
from fairway_stacks.boot_data import boot_findings

Run = Callable[..., tuple[int, list[str]]]

LAB = f"""\
name: lab
location: westeurope
access: {{ssh_keys: ["{KEY}"]}}
monitoring: {{emails: [a@example.com]}}
filesystems:
  data: {{kind: nfs_server, path: /data}}
  home: {{kind: azure_files, gib: 1024, path: /home}}
slurm: {{idle: 15m}}
clusters:
  nd:
    engine: slurm
    size: Standard_ND96isr_H100_v5
    nodes: {{min: 1, max: 8}}
    mounts: [data, home]
  spot: {{engine: slurm, size: Standard_HB176rs_v4, nodes: {{min: 0, max: 4}}, spot: true, mounts: [data]}}
  pair: {{engine: ssh, size: Standard_ND96isr_H100_v5, nodes: 2, mounts: [data]}}
  pool: {{engine: batch, size: Standard_ND96asr_v4, nodes: {{min: 0, max: 8}}}}
"""  # noqa: E501


@pytest.fixture
def stacks(written: Written) -> Stacks:
    """Returns the stacks of an environment with every engine."""
    return written(LAB)


def _scheduler(stacks: Stacks) -> dict[str, Any]:
    found: dict[str, Any] = stacks["compute"]["resource"]["azurerm_linux_virtual_machine"][
        "slurm-scheduler"
    ]
    return found


def _scale_set(stacks: Stacks, name: str) -> dict[str, Any]:
    sets = stacks["compute"]["resource"]["azurerm_linux_virtual_machine_scale_set"]
    found: dict[str, Any] = sets[f"cluster-{name}"]
    return found


class TestTerraform:
    """Resources of Slurm in Azure."""

    def test_slurm_scale_sets_leave_the_number_of_nodes_to_slurm(self, stacks: Stacks) -> None:
        for name in ("nd", "spot"):
            nodes = _scale_set(stacks, name)
            assert nodes["instances"] == 0
            assert nodes["lifecycle"] == {"ignore_changes": ["instances"]}
            assert nodes["single_placement_group"] is True
        assert _scale_set(stacks, "pair")["instances"] == 2
        assert "lifecycle" not in _scale_set(stacks, "pair")

    def test_slurm_target_names_scheduler_partition_and_shared_folder(self, stacks: Stacks) -> None:
        target = targets_of(stacks)["nd"]
        assert target.engine == "slurm"
        assert target.slurm is not None
        assert target.slurm.host == "${azurerm_network_interface.slurm-nic.private_ip_address}"
        assert (target.slurm.partition, target.slurm.shared) == ("nd", "/data/fairway")
        assert (target.nodes.min, target.nodes.max, target.spot) == (1, 8, False)

    def test_slurm_disk_and_vault_are_protected_and_closed_in_data_stack(
        self, stacks: Stacks
    ) -> None:
        data = stacks["data"]["resource"]
        vault = data["azurerm_key_vault"]["slurm-vault"]
        assert data["azurerm_managed_disk"]["slurm-disk"]["lifecycle"] == {"prevent_destroy": True}
        assert vault["lifecycle"] == {"prevent_destroy": True}
        assert {"slurm-disk-lock", "slurm-vault-lock"} <= data["azurerm_management_lock"].keys()
        attached = stacks["compute"]["resource"]["azurerm_virtual_machine_data_disk_attachment"]
        assert attached["slurm-attachment"]["lun"] == 0
        assert vault["public_network_access_enabled"] is False
        assert vault["network_acls"]["default_action"] == "Deny"
        assert "slurm-vault-endpoint" in data["azurerm_private_endpoint"]

    def test_slurm_roles_are_narrow_and_nodes_have_their_own_identity(self, stacks: Stacks) -> None:
        data = stacks["data"]["resource"]["azurerm_role_assignment"]
        for grant, role in (("scheduler-keep", "Officer"), ("nodes-read", "User")):
            found = data[f"slurm-{grant}_munge_key"]
            assert found["role_definition_name"] == f"Key Vault Secrets {role}"
            assert found["scope"] == "${azurerm_key_vault.slurm-vault.id}"
        assert "nodes-read_munge_key" not in data, "other nodes do not read the key"
        compute = stacks["compute"]["resource"]
        role = compute["azurerm_role_definition"]["slurm-role"]
        assert not [action for action in role["permissions"][0]["actions"] if "*" in action]
        assigned = compute["azurerm_role_assignment"]
        nd = "${azurerm_linux_virtual_machine_scale_set.cluster-nd.id}"
        assert assigned["slurm-scales-nd"]["scope"] == nd
        assert "slurm-scales-pair" not in assigned
        # For errors of node creation: operations belong to a location of the subscription.
        other = compute["azurerm_role_definition"]["slurm-operations-role"]
        reads = ["Microsoft.Compute/locations/operations/read"]
        assert other["permissions"] == [{"actions": reads}]
        assert assigned["slurm-reads-operations"]["scope"] == other["scope"]
        assert other["scope"].startswith("/subscriptions/")
        assert role["name"] != other["name"]
        (own,) = _scale_set(stacks, "nd")["identity"]["identity_ids"]
        assert _scale_set(stacks, "pair")["identity"]["identity_ids"] != [own]
        assert "slurm-nodes" in own

    def test_slurm_scheduler_has_roles_on_image_and_placement_group_of_nodes(
        self, written: Written
    ) -> None:
        groups = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/g/providers"
        image = f"{groups}/Microsoft.Compute/galleries/g/images/i/versions/1.0.0"
        near = f"{groups}/Microsoft.Compute/proximityPlacementGroups/p"
        more = f"    image_id: {image}\n    proximity_placement_group: {near}\n"
        text = LAB.replace("    mounts: [data, home]\n", f"    mounts: [data, home]\n{more}", 1)
        compute = written(text)["compute"]["resource"]
        assigned = compute["azurerm_role_assignment"]
        reads = assigned["slurm-reads-image-nd"]
        assert (reads["scope"], reads["role_definition_name"]) == (image, "Reader")
        places = assigned["slurm-places-nd"]
        assert places["scope"] == near
        assert places["role_definition_id"] == assigned["slurm-scales-nd"]["role_definition_id"]
        (permissions,) = compute["azurerm_role_definition"]["slurm-role"]["permissions"]
        assert "Microsoft.Compute/proximityPlacementGroups/write" in permissions["actions"]

    def test_slurm_environment_makes_no_unused_identity(self, written: Written) -> None:
        lines = [line for line in LAB.splitlines() if not line.startswith(("  pair:", "  pool:"))]
        alone = written("\n".join(lines) + "\n")["data"]["resource"]
        assert "nodes" not in alone["azurerm_user_assigned_identity"]
        principals = json.dumps(alone["azurerm_role_assignment"])
        assert "azurerm_user_assigned_identity.nodes." not in principals

    def test_slurm_resources_are_absent_without_partitions(self, written: Written) -> None:
        lines = [
            line
            for line in LAB.splitlines()
            if not line.startswith(("slurm:", "  nd:", "  spot:", "    "))
        ]
        assert "slurm" not in json.dumps(written("\n".join(lines) + "\n"))

    def test_slurm_partition_added_changes_no_other(self, written: Written) -> None:
        before = written(LAB)
        more = "  more: {engine: slurm, size: Standard_HB176rs_v4, nodes: 2, mounts: [data]}\n"
        after = written(LAB + more)
        for name in ("nd", "spot", "pair"):
            assert _scale_set(before, name) == _scale_set(after, name)
        assert before["data"] == after["data"]


class TestBoot:
    """Boot of the scheduler and the nodes."""

    def test_slurm_boot_data_fit_azure_limits_and_hold_no_secret(self, stacks: Stacks) -> None:
        for vm in (_scheduler(stacks), _scale_set(stacks, "nd"), _scale_set(stacks, "spot")):
            assert len(boot_data(vm)) < 0.9 * LONGEST_CUSTOM_DATA
            assert "StoragePass" not in boot_data(vm)
        assert "azurerm_key_vault_secret" not in json.dumps(stacks)

    def test_slurm_partitions_exceeding_boot_data_are_refused(
        self, written: Written, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm, "LONGEST_PACKED", 28_000)
        kind = "engine: slurm, size: Standard_HB176rs_v4, nodes: {min: 0, max: 4}, mounts: [data]"
        many = "".join(f"  more-{index}: {{{kind}}}\n" for index in range(50))
        with pytest.raises(UserError, match="are its 52 partitions") as told:
            written(LAB + many)
        (found,) = told.value.findings
        assert found.id == "too-many-partitions"
        size, most, of_partitions = map(int, re.findall(r"\d{4,}", found.message))
        assert size - most < of_partitions < size, "without them it would fit"

    def test_slurm_accounts_exceeding_boot_data_are_named_in_place_of_few_partitions(
        self, written: Written, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(slurm, "LONGEST_PACKED", 28_000)
        accounts = ", ".join(f"team{number}: {number + 1}" for number in range(300))
        with pytest.raises(UserError, match="are its accounts") as told:
            written(LAB.replace("{idle: 15m}", f"{{idle: 15m, accounts: {{{accounts}}}}}"))
        assert told.value.findings[0].hint == "name fewer of them"

    def test_slurm_check_estimates_boot_data_about_as_synthesis_makes_it(
        self, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A larger one would refuse deployable environments, a smaller one accept others."""
        for place, id_ in ((slurm, "too-many-partitions"), (nodes, "long-boot-data")):
            with monkeypatch.context() as patch:
                patch.setattr(place, "LONGEST_PACKED", 1000)
                with pytest.raises(UserError) as told:
                    written(f"{LAB}# {id_}\n")
                found = boot_findings(load(tmp_path, LAB))
            synthesis, estimate = [
                int(re.search(r"boots? with (\d+) bytes", each.message)[1])  # type: ignore[index]
                for each in (told.value.findings[0], found[0])
            ]
            assert {told.value.findings[0].id, found[0].id} == {id_}
            assert 0 <= synthesis - estimate < 200

    def test_slurm_scheduler_boots_with_its_files_and_programs(self, stacks: Stacks) -> None:
        files = files_at_boot(_scheduler(stacks))
        kept = files["/etc/apt/apt.conf.d/60fairway"]
        assert all(f'"^{name}' in kept for name in ("munge", "slurmctld", "slurmdbd", "mariadb"))
        conf = files["/etc/slurm/slurm.conf"]
        assert re.search(r"SlurmctldHost=lab-slurm-scheduler\(@@\d@@\)", conf)
        assert "SuspendTime=900\n" in conf
        assert "SuspendExcNodes=nd-0\n" in conf
        assert "NodeName=nd-[0-7] CPUs=96 Sockets=2 CoresPerSocket=48" in conf
        assert "NodeName=spot-[0-3] CPUs=176" in conf
        assert "Feature=hb176rs_v4,ib,spot State=CLOUD" in conf
        assert "Name=gpu Type=h100 File=/dev/nvidia7" in files["/etc/slurm/gres.conf"]
        settings = json.loads(files["/etc/fairway/slurm.json"])
        assert settings["scale_sets"]["nd"]["kept"] == 1
        assert settings["scale_sets"]["spot"]["id"].endswith(
            "/virtualMachineScaleSets/lab-vmss-spot"
        )
        with package_of(files) as tar:
            assert "fairway_boot/slurm/power.py" in tar.getnames()
        mounts = files["/etc/fairway/mounts"].split()
        assert {"/data", "/home"} <= set(mounts), "those of all partitions"

    def test_slurm_node_boots_with_partition_and_expected_devices(self, stacks: Stacks) -> None:
        files = files_at_boot(_scale_set(stacks, "nd"))
        settings = json.loads(files["/etc/fairway/slurm.json"])
        assert settings["partition"] == "nd"
        assert re.fullmatch(r"@@\d@@:6817", settings["scheduler"])
        check = files["/usr/local/lib/fairway/slurm/health-check"]
        assert "gpus=8\nvendor=nvidia\nadapters=8\nadapter_gbps=400\nmounts=(/data /home)" in check
        assert "/etc/slurm/slurm.conf" not in files, "nodes fetch it"
        assert "fairway-announce" not in json.dumps(files)

    def test_slurm_systemd_units_have_valid_sections_and_lines(self, stacks: Stacks) -> None:
        for vm in (_scheduler(stacks), _scale_set(stacks, "nd")):
            for path, text in files_at_boot(vm).items():
                if path.startswith("/etc/systemd/system/fairway-slurm"):
                    sections = re.findall(r"^\[(\w+)\]$", text, re.MULTILINE)
                    assert set(sections) <= {"Unit", "Service", "Install", "Timer"}
                    assert all(
                        re.fullmatch(r"\[\w+\]|#.*|[A-Z]\w+=.*|", line)
                        for line in text.splitlines()
                    )


class TestSchedulerScript:
    """The script that starts a scheduler, with stand-ins for the commands it calls."""

    @pytest.fixture
    def run(self, repository: Path, tmp_path: Path) -> Run:
        """Runs the script and returns its exit code and the commands that it ran."""
        folder = repository / "constructs" / "fairway_constructs" / "cloud_init"
        log, state, etc = tmp_path / "log", tmp_path / "state", tmp_path / "etc"

        def run(accounting: bool = True, key: bool = True) -> tuple[int, list[str]]:
            etc.mkdir(exist_ok=True)
            state.mkdir(exist_ok=True)
            (etc / "slurmdbd.conf").write_text("")
            (etc / "slurm.conf").write_text(
                "PartitionName=x Nodes=ALL\nNodeName=n-7 CPUs=1 State=UNKNOWN\n"
                "NodeName=nd-[8-11] CPUs=96 State=CLOUD\nNodeName=a-b-0 CPUs=4 State=CLOUD\n"
            )
            for name in ("hosts", "rules"):
                (tmp_path / name).touch()
            log.write_text("")
            (tmp_path / "settings").write_text(
                f"NAME=slurm\nDISKS=1\nEXPORT={state}\nACCOUNTING={'yes' if accounting else ''}\n"
            )
            wrapped = (
                "install chown chmod systemctl mariadb mariadb-install-db sacctmgr "
                "systemd-tmpfiles collect_disks find_new_disks make_or_grow_volume mount_volume"
            )
            program = "\n".join(
                [
                    f"source {folder / 'slurm_scheduler.sh'}",
                    f"FAIRWAY_VOLUME_SCRIPT={folder / 'nfs_server.sh'}",
                    f"FAIRWAY_SLURM_DISK={tmp_path / 'settings'}",
                    f"slurm_etc={etc} log={tmp_path / 'var'} hosts={tmp_path / 'hosts'}",
                    f"rules={tmp_path / 'rules'}",
                    'timeout() { shift; "$@"; }',
                    f'python3() {{ echo "$*" >>{log}; {"true" if key else "false"}; }}',
                    "original=$(declare -f load)",
                    'eval "first_${original}"',
                    "load() { first_load; stand_ins; }",
                    "stand_ins() {",
                    *(f'{name}() {{ echo "{name} $*" >>{log}; }}' for name in wrapped.split()),
                    # Messages of sacctmgr about existing entries, with exit code 1.
                    f'sacctmgr() {{ echo "sacctmgr $*" >>{log}; sacctmgr_says "$*"; }}',
                    'sacctmgr_says() { case $1 in *"add qos old") echo " Nothing new added." ;;',
                    '*"modify qos gone"*) echo " Nothing modified" ;; *) return 0; esac',
                    "return 1; }",
                    "}",
                    "main",
                ]
            )
            done = subprocess.run(["bash", "-euc", program], check=False, capture_output=True)
            return done.returncode, log.read_text().splitlines()

        return run

    def test_slurm_scheduler_boot_starts_services_in_order(self, run: Run, tmp_path: Path) -> None:
        status, ran = run()
        assert status == 0
        order = [
            "mount_volume ",
            "-B -m fairway_boot.slurm.munge",
            "systemctl start munge.service",
            "systemctl start mariadb.service",
            "mariadb ",
            "systemctl start slurmdbd.service",
            "systemctl start slurmctld.service fairway-slurm-claims.service",
            "systemctl start fairway-slurm-reconcile.timer",
        ]
        assert [line for line in ran if line in order] == order
        assert any(line.startswith("mariadb-install-db") for line in ran)
        # An existing database is not created again.
        (tmp_path / "state" / "mysql" / "mysql").mkdir(parents=True)
        assert not [line for line in run()[1] if line.startswith("mariadb-install-db")]

    def test_slurm_scheduler_boot_without_accounting_or_key_starts_less(self, run: Run) -> None:
        status, ran = run(accounting=False)
        assert status == 0
        assert not [line for line in ran if "mariadb" in line or "slurmdbd" in line]
        status, ran = run(key=False)
        assert status != 0
        assert not [line for line in ran if line.startswith("systemctl start")]

    def test_slurm_scheduler_boot_writes_unreachable_addresses_of_cloud_nodes(
        self, run: Run, tmp_path: Path
    ) -> None:
        hosts = tmp_path / "hosts"
        hosts.write_text("127.0.0.1 localhost\n255.255.255.255 old-0 # fairway\n")
        for _ in range(2):
            assert run()[0] == 0
            first, *nodes = hosts.read_text().splitlines()
            assert first == "127.0.0.1 localhost"
            names = [line.split()[1] for line in nodes]
            assert names == ["nd-8", "nd-9", "nd-10", "nd-11", "a-b-0"]
        with socket.socket() as there, pytest.raises(OSError, match="unreachable"):
            there.connect((nodes[0].split()[0], 6818))

    def test_slurm_scheduler_boot_creates_accounts_and_qos_before_slurmctld(
        self, run: Run, tmp_path: Path
    ) -> None:
        (tmp_path / "rules").write_text("add qos old\n\nmodify qos old set Priority=1 Preempt=\n")
        status, ran = run()
        assert status == 0, "what is already there is no fault"
        told = [line for line in ran if "--immediate" in line]
        assert told == [
            "sacctmgr --immediate add qos old",
            "sacctmgr --immediate modify qos old set Priority=1 Preempt=",
        ]
        starts = "systemctl start slurmctld.service fairway-slurm-claims.service"
        assert ran.index(told[-1]) < ran.index(starts)
        (tmp_path / "rules").write_text("modify qos gone set Priority=1\n")
        assert run()[0] == 1

"""Reviews: the effects of plans compared with a base, the lines on costs, and the comment on a pull
request."""

import copy
import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from fairway_core.cost.prices import Price, PriceTable
from fairway_core.findings import Severity, UserError
from fairway_core.review.changes import Action
from fairway_core.review.costs import CostChange, CostReview
from fairway_core.review.lines import Untrusted, attribute_lines, change_line, cost_lines
from fairway_core.review.markdown import code, markdown
from fairway_core.review.plan import read_plan
from fairway_core.review.review import Review, review
from fairway_core.review.serialization import review_to_json

DISK = "azurerm_managed_disk.data"
GROUP = "azurerm_resource_group.rg"
DAY = datetime.date(2026, 11, 21)


def _review(*files: str, base: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Review:
    return review([read_plan(f) for f in files], base=[read_plan(f) for f in base], allow=allow)


def _actions(found: Review) -> dict[str, str]:
    return {each.address: str(each.action) for stack in found.stacks for each in stack.changes}


@pytest.mark.parametrize(
    ("actions", "word"),
    [
        ("create", "create"),
        ("update", "change"),
        ("delete", "destroy"),
        ("delete create", "replace"),
        ("create delete", "replace"),
        ("create forget", "replace"),
        ("forget", "forget"),
        ("no-op", None),
        ("read", None),
    ],
)
def test_review_maps_plan_actions_to_changes(
    make_plan: Any, actions: str, word: str | None
) -> None:
    found = _review(make_plan("a", (GROUP, actions, {"name": "a"}, {"name": "b"})))
    assert _actions(found) == ({GROUP: word} if word else {})
    with pytest.raises(UserError, match="evict"):
        _review(make_plan("b", (GROUP, "evict")))


def test_review_lists_moves_and_imports(make_plan: Any, tmp_path: Path) -> None:
    file = make_plan("a", (GROUP, "no-op"), (DISK, "no-op", None, None, {"importing": {"id": "x"}}))
    plan = json.loads(Path(file).read_text())
    plan["resource_changes"][0]["previous_address"] = "azurerm_resource_group.old"
    Path(file).write_text(json.dumps(plan))
    found = _review(file)
    assert _actions(found) == {GROUP: "move", DISK: "import"}
    moved, imported = map(change_line, found.stacks[0].changes)
    assert moved == [Untrusted(GROUP), ", which was ", Untrusted("azurerm_resource_group.old")]
    assert imported == [Untrusted(DISK), ", which is ", Untrusted("x")]
    replaced = _review(make_plan("b", (DISK, "create forget", {"name": "a"}, {"name": "b"})))
    assert "; the old one stays in Azure" in change_line(replaced.stacks[0].changes[0])


def test_review_accepts_providers_with_and_without_registry(make_plan: Any) -> None:
    file = make_plan("a", (DISK, "delete", {"name": "a"}))
    long = _review(file)
    Path(file).write_text(Path(file).read_text().replace("registry.example.com/", ""))
    short = _review(file)
    assert long.digest == short.digest
    assert len(long.unapproved_losses) == len(short.unapproved_losses) == 1
    assert short.stacks[0].changes[0].provider == "hashicorp/azurerm"


class TestLoss:
    KINDS = ("managed_disk", "storage_account", "storage_container", "storage_share", "key_vault")
    KINDS = (*KINDS, "netapp_volume", "managed_lustre_file_system", "container_registry")

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("actions", ["delete", "delete create", "create delete"])
    def test_review_reports_loss_of_data_unless_allowed(
        self, make_plan: Any, kind: str, actions: str
    ) -> None:
        address = f"azurerm_{kind}.x"
        file = make_plan("a", (address, actions, {"name": "a"}, {"name": "b"}))
        found = _review(file)
        assert [change.address for change in found.unapproved_losses] == [address]
        assert found.stacks[0].findings[0].severity is Severity.ERROR
        allowed = _review(file, allow=(address,))
        assert allowed.unapproved_losses == ()
        assert [change.address for change in allowed.losses] == [address]
        assert "data-loss" not in {finding.id for finding in allowed.stacks[0].findings}
        assert "allowed" in markdown(allowed)

    def test_review_requires_allow_for_each_lost_address(self, samples: Path) -> None:
        one, two = (f"azurerm_managed_disk.data[{index}]" for index in range(2))
        file = str(samples / "move-disks.json")
        assert [c.address for c in _review(file, allow=(one,)).unapproved_losses] == [two]
        assert _review(file, allow=(one, two)).unapproved_losses == ()

    def test_review_requires_allow_for_a_deposed_and_the_current_disk_each(
        self, make_plan: Any
    ) -> None:
        file = make_plan("a", (DISK, "delete", {"name": "a"}), (DISK, "delete", {"name": "b"}))
        plan = json.loads(Path(file).read_text())
        plan["resource_changes"][0]["deposed"] = "1a2b3c4d"
        Path(file).write_text(json.dumps(plan))
        deposed = f"{DISK}:deposed-1a2b3c4d"
        for one, other in ((DISK, deposed), (deposed, DISK)):
            (loss,) = _review(file, allow=(one,)).unapproved_losses
            assert loss.address == other
        assert _review(file, allow=(DISK, deposed)).unapproved_losses == ()


NODES: list[Any] = [10**400, 1e308, -(10**30), True, "x", [], None]
ODD: list[Any] = [*NODES, -1, "\ud800", {}, [None], [[]], {"a": None}, [1]]


@pytest.mark.parametrize("instances", NODES)
def test_review_of_invalid_node_count_has_no_price(make_plan: Any, instances: Any) -> None:
    nodes = {"sku": "Standard_D4s_v6", "instances": instances, "location": "eastus"}
    change = ("azurerm_linux_virtual_machine_scale_set.nd", "create", None, nodes)
    prices = PriceTable("USD", {("eastus", "vm/Standard_D4s_v6"): Price(1.0, "ours", DAY)})
    found = review([read_plan(make_plan("a", change))], prices=prices)
    json.dumps(review_to_json(found), allow_nan=False)
    assert "created" in markdown(found)


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("role_assignment", "principal_id scope"),
        ("key_vault", "soft_delete_retention_days"),
        ("storage_management_policy", "rule"),
        ("storage_account", "account_replication_type blob_properties immutability_policy"),
        ("management_lock", "scope"),
        ("managed_disk", "disk_size_gb"),
        ("subnet", "address_prefixes id"),
        ("linux_virtual_machine_scale_set", "instances"),
        ("batch_pool", "fixed_scale"),
        ("storage_share", "quota"),
        ("netapp_volume", "data_protection_snapshot_policy"),
        ("container_registry", "retention_policy_in_days"),
        ("backup_protected_vm", "include_disk_luns protection_state"),
        ("linux_virtual_machine", "os_disk"),
    ],
)
def test_review_accepts_values_that_no_provider_writes(
    make_plan: Any, kind: str, keys: str, odd: Any
) -> None:
    """A plan file comes from someone else: it is reviewed whatever values it contains."""
    plain = {"id": "/s", "storage_account_id": "/a", "disk_size_gb": 64, "instances": 2}
    for key in keys.split():
        new = {**plain, key: odd}
        given = [("create", None, new), ("delete", new, None)]
        given += [("update", new, plain), ("update", plain, new)]
        changes = [(f"azurerm_{kind}.{number}", *each) for number, each in enumerate(given)]
        drift = json.loads(Path(make_plan("a", *changes)).read_text())["resource_changes"]
        found = _review(make_plan("a", *changes, resource_drift=drift))
        json.dumps(review_to_json(found), allow_nan=False)
        assert f"azurerm_{kind}.2" in markdown(found).encode().decode()


def test_review_reports_partial_plan(make_plan: Any) -> None:
    found = _review(make_plan("a", complete=False))
    assert [finding.id for finding in found.stacks[0].findings] == ["partial-plan"]
    assert _review(make_plan("b", complete=True)).stacks[0].findings == ()


class TestBase:
    def test_review_separates_changes_of_the_base(self, make_plan: Any) -> None:
        mine = (GROUP, "update", {"tags": {"a": "b"}}, {"tags": {"a": "c"}})
        old = ("azurerm_subnet.a", "create", None, {"name": "a"})
        gone = ("azurerm_subnet.b", "create", None, {"name": "b"})
        found = _review(
            "s=" + make_plan("head", mine, old), base=("s=" + make_plan("base", old, gone),)
        )
        (stack,) = found.stacks
        assert [each.address for each in stack.changes] == [GROUP]
        assert [each.address for each in stack.in_base] == ["azurerm_subnet.a"]
        assert [each.address for each in stack.only_in_base] == ["azurerm_subnet.b"]
        assert found.totals()[Action.CREATE] == 1

    def test_review_with_a_base_keeps_other_values_losses_and_the_digest(
        self, make_plan: Any
    ) -> None:
        head = make_plan("head", (GROUP, "create", None, {"name": "a"}))
        base = make_plan("base", (GROUP, "create", None, {"name": "b"}))
        (stack,) = _review(f"s={head}", base=(f"s={base}",)).stacks
        assert (len(stack.changes), stack.in_base) == (1, ())
        # The digest covers the plan, not the difference from the base.
        assert _review(f"s={head}", base=(f"s={head}",)).digest == _review(f"s={head}").digest
        file = "s=" + make_plan("loss", (DISK, "delete", {"name": "a"}))
        found = _review(file, base=(file,))
        assert found.stacks[0].changes == ()
        assert len(found.unapproved_losses) == 1


class TestDrift:
    def _drift(self, make_plan: Any, before: Any, after: Any, **more: Any) -> Any:
        change = {"actions": ["update"], "before": before, "after": after, **more}
        entry = {"address": GROUP, "type": "azurerm_resource_group", "change": change}
        return _review(make_plan("a", resource_drift=[entry])).stacks[0]

    def test_review_separates_drift_from_changes_and_losses(self, make_plan: Any) -> None:
        stack = self._drift(make_plan, {"tags": {"a": "b"}}, {"tags": {"a": "c"}})
        assert stack.changes == ()
        assert [each.address for each in stack.drift] == [GROUP]
        stack = self._drift(make_plan, {"name": "a"}, None, actions=["delete"])
        assert stack.drift[0].action is Action.DESTROY
        assert not stack.losses, "it is gone already"

    @pytest.mark.parametrize("sensitive", [False, True])
    def test_review_only_counts_drift_in_notation(self, make_plan: Any, sensitive: bool) -> None:
        """The agent's settings show such drift right after each deployment."""
        settings = (
            {"extension": [{"settings": text}]} for text in ('{"a": {"b": 1}}', '{"a":{"b":1}}')
        )
        mask = {"extension": True} if sensitive else {}
        for before, after in (settings, ({"tags": None}, {"tags": {}})):
            marks = {"before_sensitive": mask, "after_sensitive": mask}
            stack = self._drift(make_plan, before, after, **marks)
            assert (stack.drift, stack.format_only) == ((), 1)

    @pytest.mark.parametrize(("group", "is_drift"), [("/g", False), ("/other", True)])
    def test_review_ignores_drift_caused_by_an_association_in_the_plan(
        self, make_plan: Any, group: str, is_drift: bool
    ) -> None:
        """Each subnet's security group shows such drift right after each deployment."""
        kind = "azurerm_subnet_network_security_group_association"
        values = {"id": "/s", "subnet_id": "/s", "network_security_group_id": "/g"}
        before = {"id": "/s", "network_security_group_id": ""}
        after = {"id": "/s", "network_security_group_id": group}
        change = {"actions": ["update"], "before": before, "after": after}
        entry = {"address": "azurerm_subnet.s", "type": "azurerm_subnet", "change": change}
        ours = (f"{kind}.s", "no-op", values, values)
        (stack,) = _review(make_plan("a", ours, resource_drift=[entry])).stacks
        assert bool(stack.drift) is is_drift
        assert stack.format_only == (not is_drift)


class TestCost:
    PRICES = PriceTable("USD", {("eastus", "vm/Standard_HB176rs_v4"): Price(7.2, "test", DAY)})

    def _cost(self, file: str) -> Any:
        return review([read_plan(file)], prices=self.PRICES).cost

    def _set(self, nodes: int, **disk: Any) -> dict[str, Any]:
        os_disk = [disk or {"diff_disk_settings": [{"option": "Local"}]}]
        sku = "Standard_HB176rs_v4"
        return {"sku": sku, "instances": nodes, "location": "East US", "os_disk": os_disk}

    def test_review_cost_rises_with_number_of_nodes(self, make_plan: Any) -> None:
        address = "azurerm_linux_virtual_machine_scale_set.nd"
        cost = self._cost(make_plan("a", (address, "update", self._set(2), self._set(5))))
        (change,) = cost.changes
        assert (change.before, change.after) == (14.4, 36.0)
        assert cost.hourly == pytest.approx(21.6)
        assert cost.known == (1, 1)

    def test_review_cost_of_batch_pool_spans_limits_of_its_formula(self, make_plan: Any) -> None:
        from fairway_core.autoscale import Autoscale, PoolShape, scale_formula

        def pool(most: int) -> dict[str, Any]:
            shape = PoolShape(minimum=1, maximum=most, spot=False, mpi=True)
            formula = scale_formula(Autoscale(scenario="pending_tasks"), shape)
            scale = [{"formula": formula}]
            return {"vm_size": "STANDARD_HB176RS_V4", "auto_scale": scale, "location": "eastus"}

        address = "azurerm_batch_pool.nd"
        cost = self._cost(make_plan("a", (address, "update", pool(2), pool(5))))
        assert cost.hourly == pytest.approx(21.6)
        assert cost.hourly_at_minimum == 0
        cost = self._cost(make_plan("b", (address, "create", None, pool(5))))
        assert (cost.hourly, cost.hourly_at_minimum) == (36.0, 7.2)
        file = make_plan("c", (address, "create", None, pool(5)))
        comment = markdown(review([read_plan(file)], prices=self.PRICES))
        assert "+36.00 USD an hour" in comment
        assert "+7.20 USD an hour" in comment
        own = {**pool(5), "auto_scale": [{"formula": "$TargetDedicatedNodes = 3;"}]}
        assert self._cost(make_plan("d", (address, "create", None, own))).hourly is None
        other = {**own, "auto_scale": [{"formula": "$TargetDedicatedNodes = 300;"}]}
        for sides in ((own, other), (pool(5), own), (own, pool(5))):
            (change,) = self._cost(make_plan("e", (address, "update", *sides))).changes
            assert (change.difference, change.at_minimum, change.is_complete) == (None, None, False)
        tagged = {**own, "metadata": {"a": "b"}}
        assert self._cost(make_plan("f", (address, "update", own, tagged))).changes == ()

    def test_review_cost_of_kubernetes_pool_spans_limits_of_its_autoscaler(
        self, make_plan: Any
    ) -> None:
        address = "azurerm_kubernetes_cluster_node_pool.cluster-nd"

        def pool(least: int, most: int, **more: Any) -> dict[str, Any]:
            scale = {"auto_scaling_enabled": True, "min_count": least, "max_count": most}
            size = {"vm_size": "Standard_HB176rs_v4", "os_disk_type": "Ephemeral"}
            return {**size, **scale, "node_count": least, "location": "eastus", **more}

        cost = self._cost(make_plan("a", (address, "update", pool(1, 2), pool(1, 5))))
        assert (cost.hourly, cost.hourly_at_minimum) == (pytest.approx(21.6), 0)
        cost = self._cost(make_plan("b", (address, "create", None, pool(1, 5))))
        assert (cost.hourly, cost.hourly_at_minimum, cost.known) == (36.0, 7.2, (1, 1))
        fixed = pool(0, 0, auto_scaling_enabled=None, node_count=2)
        assert self._cost(make_plan("c", (address, "create", None, fixed))).hourly == 14.4
        managed = pool(1, 5, os_disk_type="Managed", os_disk_size_gb=128)
        cost = self._cost(make_plan("d", (address, "create", None, managed)))
        assert cost.known == (0, 1), "the price of its disks is not known here"

    def test_review_cost_of_kubernetes_includes_api_server_and_system_nodes(
        self, make_plan: Any
    ) -> None:
        address = "azurerm_kubernetes_cluster.kubernetes"
        rows = {"vm/Standard_HB176rs_v4": 7.2, "kubernetes/Standard": 0.1, "premium/P10": 0.02}
        prices = {("eastus", name): Price(each, "test", DAY) for name, each in rows.items()}

        def hourly(name: str, tier: str | None, nodes: int = 2) -> float | None:
            system = {"vm_size": "Standard_HB176rs_v4", "node_count": nodes}
            disks = {"os_disk_type": "Managed", "os_disk_size_gb": 128}
            pools = {"default_node_pool": [{**system, **disks}]}
            after = {"sku_tier": tier, "location": "eastus", **pools}
            plan = read_plan(make_plan(name, (address, "create", None, after)))
            found = review([plan], prices=PriceTable("USD", prices)).cost
            assert found is not None
            return found.hourly

        assert hourly("a", "Standard") == pytest.approx(2 * 7.22 + 0.1)
        assert hourly("b", "Free") == hourly("c", None) == pytest.approx(2 * 7.22)

    def test_review_cost_omits_unchanged_parts_with_unknown_price(self, make_plan: Any) -> None:
        address = "azurerm_linux_virtual_machine_scale_set.nd"
        disk = {"storage_account_type": "Premium_LRS", "disk_size_gb": 64}
        before, after = self._set(2, **disk), {**self._set(2, **disk), "tags": {"a": "b"}}
        assert self._cost(make_plan("a", (address, "update", before, after))).changes == ()
        cost = self._cost(make_plan("b", (address, "update", before, self._set(3, **disk))))
        assert cost.hourly == pytest.approx(7.2)
        assert cost.known == (0, 1), "a third disk costs something that is not known"

    @pytest.mark.parametrize(("actions", "more"), [("forget", 0), ("create forget", 7.2)])
    def test_review_cost_goes_on_for_what_stays_in_azure(
        self, make_plan: Any, actions: str, more: float
    ) -> None:
        after = self._set(1) if "create" in actions else None
        address = "azurerm_linux_virtual_machine_scale_set.nd"
        cost = self._cost(make_plan("a", (address, actions, self._set(2), after)))
        assert cost.hourly == pytest.approx(more)

    def test_review_cost_of_unknown_price_is_never_zero(self, make_plan: Any) -> None:
        gateway = ("azurerm_nat_gateway.a", "create", None, {"location": "eastus"})
        cost = self._cost(make_plan("a", gateway))
        assert cost.hourly is None
        facts = review_to_json(review([read_plan(make_plan("b", gateway))], prices=self.PRICES))[
            "cost"
        ]
        assert facts["hourly_difference"] is None
        assert facts["changes"][0]["hourly_after"] is None
        assert facts["changes"][0]["hourly_before"] == 0


class TestDigest:
    CHANGE = (GROUP, "update", {"a": 1, "key": "x", "etag": 1}, {"a": 2, "key": "y", "etag": 1})

    def _digest(self, make_plan: Any, *changes: Any, name: str = "s", **parts: Any) -> str:
        return _review(make_plan(name, *changes, **parts)).digest

    def test_review_digest_ignores_order_and_time_of_plans(self, make_plan: Any) -> None:
        other = ("azurerm_subnet.a", "create", None, {"name": "a"})
        one = self._digest(make_plan, self.CHANGE, other)
        assert one == self._digest(make_plan, other, self.CHANGE, timestamp="2026", errored=False)
        assert one.startswith("sha256:")

    def test_review_digest_differs_for_different_changes(self, make_plan: Any) -> None:
        changes = [
            self.CHANGE,
            ("azurerm_resource_group.other", *self.CHANGE[1:]),
            *((GROUP, how, *self.CHANGE[2:]) for how in ("delete create", "create delete")),
            (GROUP, "create forget", *self.CHANGE[2:]),
            *((GROUP, "no-op", None, None, {"importing": {"id": id_}}) for id_ in ("/a", "/b")),
            (GROUP, "update", {"a": 0, "key": "x"}, {"a": 2, "key": "y"}),
            (GROUP, "update", {"a": 1, "key": "x"}, {"a": 3, "key": "y"}),
            (GROUP, "update", {"a": 1, "key": "x"}, {"a": 2}, {"after_unknown": {"key": True}}),
        ]
        assert len({self._digest(make_plan, each) for each in changes}) == len(changes)

    def test_review_digest_covers_outputs_and_stacks_in_any_order(self, make_plan: Any) -> None:
        plain = self._digest(make_plan, self.CHANGE)
        output = {"x": {"actions": ["create"], "before": None, "after": "1"}}
        assert plain != self._digest(make_plan, self.CHANGE, output_changes=output)
        assert plain != self._digest(make_plan, self.CHANGE, name="other")
        assert plain != self._digest(make_plan, self.CHANGE, errored=True)
        one, two = make_plan("one", self.CHANGE), make_plan("two", self.CHANGE)
        assert _review(one, two).digest == _review(two, one).digest != _review(one).digest

    def test_review_digest_ignores_secrets_and_drift(self, make_plan: Any) -> None:
        mask = {"before_sensitive": {"key": True}, "after_sensitive": {"key": True}}
        one = copy.deepcopy((*self.CHANGE, mask))
        other = copy.deepcopy(one)
        other[3]["key"] = "z"
        assert self._digest(make_plan, one) == self._digest(make_plan, other)
        drift = [{"address": "a.b", "type": "a", "change": {"actions": ["delete"], "before": {}}}]
        assert self._digest(make_plan, one) == self._digest(make_plan, one, resource_drift=drift)


def test_review_hides_sensitive_outputs(make_plan: Any) -> None:
    output = {"actions": ["update"], "before": "old", "after": "hunter2", "after_sensitive": True}
    found = _review(make_plan("a", output_changes={"key": output}))
    assert "hunter2" not in json.dumps(review_to_json(found)) + markdown(found)
    assert found.stacks[0].outputs[0].name == "key"


def test_review_refuses_two_plans_of_one_stack(make_plan: Any) -> None:
    with pytest.raises(UserError, match="two plans are of the stack `s`"):
        _review("s=" + make_plan("a"), "s=" + make_plan("b"))


def _change(address: str, difference: float | None, *, is_complete: bool = False) -> CostChange:
    return CostChange(
        "compute", address, "VM", 0.0, difference, difference, difference, is_complete
    )


def _first(*changes: CostChange, most: int | None = None) -> str:
    line = next(cost_lines(CostReview("USD", changes, ()), most=most))
    return "".join(part.text if isinstance(part, Untrusted) else part for part in line)


def test_review_cost_lines_name_some_unpriced_changes_and_count_the_rest() -> None:
    for known in (None, 0.5):
        said = _first(_change("vm.files", None), _change("vm.b", known), _change("vm.c", known))
        assert "3 of 3 changes (vm.files, vm.b, vm.c)" in said
    priced = _change("vm.known", 1.0, is_complete=True)
    said = _first(priced, *(_change(f"vm.n{n}", None) for n in range(1, 1203)), most=2)
    assert "1202 of 1203 changes (vm.n1, vm.n2 and 1,200 more)" in said
    assert "vm.known" not in said


class TestMarkdown:
    def test_review_markdown_opens_changes_and_folds_new_or_long_lists(
        self, make_plan: Any
    ) -> None:
        changed = [
            (f"azurerm_subnet.a{n}", "update", {"name": "a"}, {"name": "b"}) for n in range(50)
        ]
        few = markdown(_review(make_plan("a", (GROUP, "create", None, {}), changed[0])))
        assert "<details open>\n<summary>1 changed" in few
        assert "<details>\n<summary>1 created" in few
        assert "\n\n\n" not in few
        many = markdown(_review(make_plan("b", *changed)))
        assert "<details>\n<summary>50 changed" in many
        base = [read_plan(f"c={make_plan('c', changed[0])}")]
        already = markdown(review(base, base=base))
        assert "<details>\n<summary>1 what the base" in already
        given_up = markdown(review([read_plan(f"c={make_plan('d')}")], base=base))
        assert "<details>\n<summary>1 what only the base" in given_up

    @pytest.mark.parametrize(("count", "said"), [(1, "1 resource "), (2, "2 resources ")])
    def test_review_markdown_counts_drift_without_another_value(
        self, make_plan: Any, count: int, said: str
    ) -> None:
        change = {"actions": ["update"], "before": {"tags": None}, "after": {"tags": {}}}
        drift = [
            {"address": f"{GROUP}{n}", "type": "azurerm_resource_group", "change": change}
            for n in range(count)
        ]
        (line,) = [
            each
            for each in markdown(_review(make_plan("a", resource_drift=drift))).splitlines()
            if "(not drift)" in each
        ]
        assert line.startswith(said)

    def test_review_markdown_marks_allowed_losses(self, make_plan: Any) -> None:
        plan = read_plan(make_plan("a", (DISK, "delete", {"name": "a"})))
        comment = markdown(review([plan], allow=[DISK]))
        assert f"- ✔️ allowed: <code>{DISK} would be deleted, and with it what it" in comment
        assert "--allow" not in comment
        assert "⛔" not in comment
        assert f"--allow {DISK}" in markdown(review([plan]))

    def test_review_markdown_keeps_values_readable_and_truncates_long_ones(
        self, make_plan: Any
    ) -> None:
        for name in ("azurerm_managed_disk.data[0]", 'module.a["b c"].azurerm_subnet.c'):
            assert code(name) == f"<code>{name}</code>"
        # A blob has a size only if it is a page blob.
        blob = ("azurerm_storage_blob.a", "create", None, {"name": "x", "size": 0})
        (change,) = _review(make_plan("a", blob)).stacks[0].changes
        assert change.facts == [("name", "x")]
        before, after = "x" * 5_000 + "a" * 500, "x" * 5_000 + "b" * 500
        comment = markdown(_review(make_plan("b", (GROUP, "update", {"v": before}, {"v": after}))))
        assert len(comment) < 1_500
        assert "aaa" in comment
        assert "bbb" in comment
        before = {f"a{number:02}": "x" for number in range(43)}
        many = (GROUP, "update", before, dict.fromkeys(before, "y"))
        comment = markdown(_review(make_plan("c", many)))
        assert comment.count("</code> → <code>") == 40
        assert "and 3 more attributes" in comment

    def test_review_markdown_of_new_rule_omits_empty_fields(self, make_plan: Any) -> None:
        empty = {"description": "", "destination_address_prefix": "", "source_port_ranges": []}
        rule = {**empty, "access": "Allow", "destination_port_range": "443", "name": "https"}
        ranges = [f"203.0.{n}.0/24" for n in range(5)]
        rule |= {"direction": "Inbound", "source_address_prefixes": ranges}
        group = "azurerm_network_security_group.g"
        stack = _review(make_plan("a", (group, "update", {"r": []}, {"r": [rule]}))).stacks[0]
        ((path, _, _, _, said),) = [
            [str(getattr(piece, "text", piece)) for piece in line]
            for line in attribute_lines(stack.changes[0])
        ][:1]
        assert path == "r.https"
        shown = "direction access source_address_prefixes destination_port_range name"
        assert list(json.loads(said)) == shown.split()
        alone = ("azurerm_network_security_rule.https", "create", None, {**rule, "name": "h"})
        ((_, _, facts),) = [
            [str(getattr(piece, "text", piece)) for piece in change_line(change)]
            for change in _review(make_plan("b", alone)).stacks[0].changes
        ]
        assert "direction = " in facts
        assert "destination_port_range = " in facts
        assert "description" not in facts

    def test_review_markdown_lists_all_destroyed_and_limits_other_resources(
        self, make_plan: Any
    ) -> None:
        new = [(f"azurerm_subnet.new{n}", "create", None, {"name": "a"}) for n in range(300)]
        old = [(f"azurerm_subnet.old{n}", "delete", {"name": "a"}, None) for n in range(300)]
        comment = markdown(_review(make_plan("a", *new, *old)))
        assert comment.count("azurerm_subnet.old") == 300
        assert comment.count("azurerm_subnet.new") == 200
        assert "300 created" in comment
        assert "and 100 more" in comment
        mixed = [read_plan(f"c={make_plan('b', *new, *old)}")]
        both = markdown(review(mixed, base=mixed))
        assert both.count("azurerm_subnet.old") == 300
        assert both.count("azurerm_subnet.new") == 200

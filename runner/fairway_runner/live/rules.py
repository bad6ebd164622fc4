"""Rules on Azure's answers, over plain arguments, each of which yields findings.

`path` is the field of the environment file that requires the checked thing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from fairway_core.catalog import Image, vm_size
from fairway_core.catalog.roles import Permission, allowed
from fairway_core.environment.access import data_roles, researchers_of
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.live.management import Facts, Management, NotAllowed, signed_in_to

if TYPE_CHECKING:
    from fairway_core.environment import Environment
    from fairway_runner.live.requirements import Existing, Machines


@dataclass(frozen=True)
class PromisedRole:
    """A built-in role on a resource, by its id, for a principal, described as `who`. Azure shows
    `reason`; Terraform has it at `address` in the stack's `folder`, the environment file at `path`
    or ""."""

    scope: str
    role: str
    principal: str
    who: str
    reason: str
    address: str
    folder: str
    path: str


def promised_roles(
    environment: Environment, own_id: Callable[[], str], *, storage: str, batch: str
) -> Iterator[PromisedRole]:
    """Yields the roles on a storage account's containers and on a Batch account, by their ids, ""
    for one still to be created. `own_id` returns the id of the signed-in account."""
    containers = environment.storage.containers if storage else ()
    for person in researchers_of(environment.access.researchers):
        for each in data_roles(containers, pools=bool(batch)):
            key = f"{each.key}-used-by-{person.key}"
            within = f"{storage}/blobServices/default/containers/{each.container}"
            yield PromisedRole(
                scope=within if each.container else batch,
                role=each.role,
                principal=person.object_id or own_id(),
                who=f"`{person.object_id}`" if person.object_id else "the account that deploys",
                reason=f"{each.reason}; {person.why}",
                address=f"azurerm_role_assignment.{key}",
                folder=f"cdktf.out/stacks/{environment.name}-data",
                path="access.researchers" if person.object_id else "",
            )


_COMPUTE = "2024-07-01"
_EXTENSION = "azurerm_virtual_machine_extension"
_VM = "azurerm_linux_virtual_machine"
_CLUSTER = re.compile(rf"{_VM}\.cluster-([a-z0-9-]+)")
_RUNS = ("PowerState/running", "PowerState/starting")


@dataclass(frozen=True)
class StoppedMachine:
    """A VM by its resource id; `target` is its cluster, "" for any other VM."""

    id: str
    target: str

    @property
    def name(self) -> str:
        """Name that its user knows."""
        return self.target or self.id.rpartition("/")[2]

    @property
    def finding(self) -> Finding:
        """Finding for the stopped VM, with the command that starts it."""
        message = f"`{self.name}` is stopped, and Azure cannot change the extensions of a stopped "
        start = f"fairway nodes start {self.target}"
        hint = start if self.target else f"az vm start --ids {self.id}"
        return Finding("stopped-machine", f"{message}VM", hint)


def stopped_machines(plan: Facts) -> list[StoppedMachine]:
    """Lists the stopped machines that a plan, as `terraform show -json` prints it, cannot change
    while they are stopped. Empty if Azure cannot be asked: Terraform then reports the problem."""
    found = []
    for id_, target in dict(_with_changed_extensions(plan)).items():
        with suppress(UserError, NotAllowed), signed_in_to(id_.split("/")[2]) as azure:
            if is_stopped(azure, id_):
                found.append(StoppedMachine(id_, target))
    return found


def is_stopped(azure: Management, machine: str) -> bool:
    """Returns True if a VM exists and does not run. Raises NotAllowed if it may not be seen."""
    view = azure.get(f"{machine}/instanceView", _COMPUTE) or {}
    states = [str(each.get("code", "")) for each in view.get("statuses") or ()]
    power = [state for state in states if state.startswith("PowerState/")]
    return bool(power) and not any(state in _RUNS for state in power)


def _with_changed_extensions(plan: Facts) -> Iterator[tuple[str, str]]:
    """Yields the unchanged VMs, by id, whose extensions change; each with its cluster."""
    changes = [each for each in plan.get("resource_changes") or () if isinstance(each, dict)]
    # A replaced VM is new when its extensions are created, and is destroyed with the old ones.
    known = {
        str(each["change"]["before"].get("id", "")).lower(): str(each.get("address", ""))
        for each in changes
        if each.get("type") == _VM
        and not {"create", "delete"} & set(each["change"]["actions"])
        and each["change"].get("before")
    }
    for each in changes:
        change = each.get("change") or {}
        if each.get("type") != _EXTENSION or set(change.get("actions") or ()) <= {"no-op", "read"}:
            continue
        for side in ("after", "before"):
            machine = str((change.get(side) or {}).get("virtual_machine_id") or "")
            address = known.get(machine.lower())
            if address is not None and machine.startswith("/subscriptions/"):
                match = _CLUSTER.fullmatch(address)
                yield machine, match[1] if match else ""
                break


def size_offered(
    path: str, size: str, location: str, zone: int | None, skus: Sequence[Facts]
) -> Iterator[Finding]:
    """Finds a size that the region or the zone does not have, or not for this subscription."""
    how = f"az vm list-skus --location {location} --size {size} --all --output table"
    sku = next((one for one in skus if str(one.get("name", "")).lower() == size.lower()), None)
    if sku is None:
        message = f"{size} is not offered in {location}"
        yield Finding("size-not-offered", message, f"use another region or size; see: {how}", path)
        return
    for restriction in sku.get("restrictions") or ():
        info = restriction.get("restrictionInfo") or {}
        everywhere = str(restriction.get("type", "")).lower() == "location"
        if everywhere or (zone and str(zone) in (info.get("zones") or ())):
            where = location if everywhere else f"zone {zone} of {location}"
            reason = restriction.get("reasonCode", "no reason given")
            message = f"{size} is not available to this subscription in {where}: {reason}"
            yield Finding("size-restricted", message, f"request access; see: {how}", path)
            return
    if zone is None:
        return
    zones = sorted({z for info in sku.get("locationInfo") or () for z in info.get("zones") or ()})
    if str(zone) not in zones:
        there = f"it is in zones {', '.join(zones)}" if zones else "no zone has it there"
        message = f"{size} is not in zone {zone} of {location}: {there}"
        hint = "set `zone:` to another" if zones else "set `zone: none`"
        yield Finding("size-not-in-zone", message, f"{hint}, or use another region", path)


def quota_suffices(
    location: str, machines: Sequence[Machines], usages: Sequence[Facts]
) -> Iterator[Finding]:
    """Finds a quota of vCPUs, of a family, of Spot or of the region, that is too small."""
    limits = {str(one["name"]["value"]).lower(): one for one in usages}
    needs: dict[str, tuple[int, str]] = {}
    for each in machines:
        if each.pool or not each.count:
            continue
        family = vm_size(each.size).quota_family
        names = ["lowPriorityCores"] if each.spot else [family, "cores"]
        for name in filter(None, names):
            known = needs.get(name, (0, each.path))
            needs[name] = (known[0] + each.vcpus, known[1])
    how = f"request more in the portal, under Quotas; see: az vm list-usage --location {location}"
    for name, (need, path) in needs.items():
        if (usage := limits.get(name.lower())) is None:
            continue
        limit, used = int(usage["limit"]), int(usage["currentValue"])
        quota = f"the quota `{usage['name'].get('localizedValue') or name}` in {location}"
        if need > limit:
            message = f"{need} vCPUs are needed, and {quota} is {limit}"
            yield Finding("quota-too-small", message, how, path)
        elif need > limit - used:
            free = f"{limit - used} of {limit} are free in {quota}"
            hint = f"this is fine if the environment itself already uses them; otherwise {how}"
            message = f"{need} vCPUs are needed, and {free}"
            yield Finding("quota-in-use", message, hint, path, Severity.WARNING)


def pool_quota_suffices(machines: Sequence[Machines], account: Facts) -> Iterator[Finding]:
    """Finds a quota of a Batch account that is too small for its pools."""
    properties = account.get("properties") or {}
    families = {
        str(each["name"]).lower(): int(each["coreQuota"])
        for each in properties.get("dedicatedCoreQuotaPerVMFamily") or ()
    }
    enforced = bool(properties.get("dedicatedCoreQuotaPerVMFamilyEnforced"))
    for each in machines:
        if not each.pool:
            continue
        family = vm_size(each.size).quota_family.lower()
        if each.spot:
            limit = properties.get("lowPriorityCoreQuota")
        elif enforced and family:
            limit = families.get(family, 0)
        else:
            limit = properties.get("dedicatedCoreQuota")
        if limit is not None and each.vcpus > int(limit):
            message = (
                f"{each.vcpus} vCPUs are needed, and the quota of the Batch account "
                f"`{account.get('name')}` for {each.size} is {limit}"
            )
            hint = "request more in the portal, under Quotas of the Batch account"
            yield Finding("quota-too-small", message, hint, each.path)


_SERVER_HINT = "use a newer version of Fairway: its catalogue names the image of servers"

# Long enough to test jobs on another image before nodes can no longer be created.
_NOTICE_DAYS = 60


def image_version_exists(
    path: str, image: Image, location: str, versions: Sequence[Facts]
) -> Iterator[Finding]:
    """Finds an exact version of an image that the region does not have."""
    names = sorted(str(each.get("name")) for each in versions)
    if image.version not in names:
        newest = f"the newest is {names[-1]}" if names else "this image has no versions"
        message = f"image `{image.urn}` is not in {location}: {newest}"
        stem = image.urn.rpartition(":")[0]
        hint = f"name an existing one: `image: {stem}:VERSION`" if names else "use another image"
        hint = hint if path.startswith("clusters.") else _SERVER_HINT
        yield Finding("no-image-version", message, hint, path)


def image_is_kept(path: str, image: Image, today: date, version: Facts) -> Iterator[Finding]:
    """Finds an exact version of an image that its publisher has deprecated, or soon will.

    Azure creates no more machines from it, and lets no scale set or pool with it grow.
    https://learn.microsoft.com/azure/virtual-machines/deprecated-images
    """
    status = (version.get("properties") or {}).get("imageDeprecationStatus") or {}
    state, planned = status.get("imageState"), str(status.get("scheduledDeprecationTime") or "")
    instead = status.get("alternativeOption") or {}
    hint = f"name a newer version: az vm image list --all --publisher {image.publisher} "
    hint += f"--offer {image.offer} --sku {image.sku} --output table"
    if instead.get("value"):
        hint += f"\nits publisher advises {instead['value']}"
    hint += "\nor copy it into a gallery of your own, and name that: `image_id:`"
    hint = hint if path.startswith("clusters.") else _SERVER_HINT
    if state == "Deprecated":
        message = f"image `{image.urn}` is deprecated: Azure makes no more nodes of it"
        yield Finding("image-deprecated", message, hint, path)
    elif state == "ScheduledForDeprecation" and planned:
        end = date.fromisoformat(planned[:10])
        if (end - today).days <= _NOTICE_DAYS:
            message = f"image `{image.urn}` is deprecated from {end} on: no nodes of it after that"
            yield Finding("image-ending", message, hint, path, Severity.WARNING)


def pool_takes_image(path: str, image: Image, listed: Sequence[Facts]) -> Iterator[Finding]:
    """Finds an image that Azure Batch does not list for pools, or lists with another node agent."""
    wanted = (image.publisher, image.offer, image.sku)
    agents = []
    for each in listed:
        reference = each.get("imageReference") or {}
        found = tuple(str(reference.get(name, "")) for name in ("publisher", "offer", "sku"))
        if [part.lower() for part in found] == [part.lower() for part in wanted]:
            agents.append(str(each.get("nodeAgentSKUId") or ""))
    if image.node_agent in agents:
        return
    name = ":".join(wanted)
    message = f"Azure Batch does not list image `{name}` for pools"
    if agents:
        message = (
            f"Azure Batch lists image `{name}` with the node agent "
            f"{', '.join(sorted(agents))}, not with {image.node_agent}"
        )
    hint = "use one that it lists, see: az batch pool supported-images list --output table"
    yield Finding("pool-image-not-listed", message, hint, path)


def provider_registered(namespace: str, provider: Facts | None) -> Iterator[Finding]:
    """Finds an unregistered resource provider: none of its resources can be created."""
    state = (provider or {}).get("registrationState", "NotRegistered")
    if state != "Registered":
        message = f"resource provider {namespace} is {state} in the subscription"
        hint = f"az provider register --namespace {namespace} --wait"
        yield Finding("provider-not-registered", message, hint)


def feature_registered(feature: str, found: Facts | None) -> Iterator[Finding]:
    """Finds a feature that is not registered, without which the resources do not work."""
    state = ((found or {}).get("properties") or {}).get("state", "NotRegistered")
    if state != "Registered":
        namespace, _, name = feature.partition("/")
        message = f"feature {feature} is {state} in the subscription: nodes that are created "
        message += "before it is registered have no InfiniBand between them"
        hint = f"az feature register --namespace {namespace} --name {name}\n"
        hint += "and, once `az feature show` of it says Registered: "
        hint += f"az provider register --namespace {namespace}"
        yield Finding("feature-not-registered", message, hint)


def kubernetes_offered(version: str, location: str, offered: Sequence[Facts]) -> Iterator[Finding]:
    """Finds a minor version that the region does not have, or not with usual support."""
    path = "kubernetes.version"
    supported = {
        str(each.get("version")): each
        for each in offered
        if "KubernetesOfficial" in ((each.get("capabilities") or {}).get("supportPlan") or ())
    }
    usual = [name for name, each in supported.items() if not each.get("isPreview")]
    hint = f"it has {', '.join(sorted(usual)) or 'none'}; see: az aks get-versions -l {location}"
    if version not in supported:
        message = f"{location} makes no cluster of Kubernetes {version}"
        yield Finding("kubernetes-not-offered", message, hint, path)
    elif supported[version].get("isPreview"):
        message = f"Kubernetes {version} is a preview in {location}, without support"
        yield Finding("kubernetes-preview", message, hint, path, Severity.WARNING)


def existing_is_there(existing: Existing, location: str, found: Facts | None) -> Iterator[Finding]:
    """Finds a resource that should already exist, and does not, or is in another region."""
    name = existing.id.rpartition("/")[2]
    if found is None:
        message = f"`{name}` does not exist"
        yield Finding("not-there", message, f"az resource show --ids {existing.id}", existing.path)
        return
    region = str(found.get("location", "")).replace(" ", "").lower()
    if existing.same_region and region and region != location:
        message = f"`{name}` is in {region}, and the environment in {location}"
        yield Finding("in-another-region", message, f"name one in {location}", existing.path)


def role_is_free(promised: PromisedRole, role_id: str, given: Sequence[Facts]) -> Iterator[Finding]:
    """Finds a role to be granted that somebody has granted by hand at the same place: Azure refuses
    a second one (RoleAssignmentExists).

    Terraform's own assignments are recognised by their reason.
    """
    at_scope = [
        (str(each.get("id", "")), properties)
        for each in given
        if (properties := each.get("properties") or {})
        and str(properties.get("scope", "")).lower() == promised.scope.lower()
        and str(properties.get("roleDefinitionId", "")).lower().endswith(f"/{role_id}".lower())
    ]
    by_terraform = [each.get("description") == promised.reason for _, each in at_scope]
    if not promised.path and any(by_terraform):
        return
    for (id_, properties), is_own in zip(at_scope, by_terraform, strict=True):
        is_theirs = str(properties.get("principalId", "")).lower() == promised.principal.lower()
        if is_theirs and not is_own:
            name = promised.scope.rpartition("/")[2]
            message = (
                f"{promised.who} already has the role {promised.role} on `{name}`, assigned by hand"
            )
            hint = (
                "Azure assigns no role twice. Remove that one: az role assignment delete "
                f"--ids {id_}\nor import it into Terraform: terraform "
                f"-chdir={shlex.quote(str(promised.folder))} import '{promised.address}' {id_}"
            )
            yield Finding("role-given-already", message, hint, promised.path)


def may_deploy(actions: Sequence[str], permissions: Sequence[Facts]) -> Iterator[Finding]:
    """Finds actions that the user may not perform: a warning, as another may deploy."""
    own = [
        Permission(tuple(each.get("actions") or ()), tuple(each.get("notActions") or ()))
        for each in permissions
    ]
    missing = [action for action in actions if not allowed(action, own)]
    if missing:
        message = f"this deployment needs {', '.join(missing)}, which you are not allowed to do"
        if any("/roleDefinitions/" in action for action in missing):
            hint = "ask for the roles Contributor and User Access Administrator, or Owner"
        else:
            hint = (
                "ask for the roles Contributor, Role Based Access Control Administrator "
                "and Locks Contributor, or Owner"
            )
        hint += " on the subscription, for the account that deploys"
        yield Finding("missing-right", message, hint, severity=Severity.WARNING)

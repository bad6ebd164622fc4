"""Asks Azure for what an environment's checks need; what the user may not see is a warning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fairway_core.catalog import Image, vm_size
from fairway_core.findings import Finding, Severity, UserError
from fairway_runner.live import rules
from fairway_runner.live.management import Facts, Management, NotAllowed
from fairway_runner.live.requirements import (
    Offer,
    Subscription,
    actions_of,
    existing_of,
    extended_machines_of,
    features_of,
    images_of,
    machines_of,
    pool_images_of,
    providers_of,
)
from fairway_runner.live.rules import StoppedMachine, is_stopped, promised_roles

if TYPE_CHECKING:
    from fairway_core.environment import Environment

_COMPUTE = "2024-07-01"
_AUTHORIZATION = "2022-04-01"


@dataclass
class _Asking:
    """One environment, one subscription, and the findings so far."""

    environment: Environment
    azure: Management
    findings: list[Finding] = field(default_factory=list)
    skus: list[Facts] = field(default_factory=list)
    usages: list[Facts] = field(default_factory=list)
    roles_known: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def _allowed(self, what: str) -> Iterator[None]:
        """Skips the queries made within, with a warning, if the caller may not make them."""
        try:
            yield
        except NotAllowed as error:
            message = f"{what} not checked: you may not read {error.action}"
            hint = "ask for the role Reader on the subscription"
            self.findings.append(Finding("not-allowed", message, hint, severity=Severity.WARNING))

    def providers(self) -> None:
        for namespace in providers_of(self.environment):
            with self._allowed(f"the registration of {namespace} was"):
                found = self.azure.get(f"providers/{namespace}", "2021-04-01")
                self.findings += rules.provider_registered(namespace, found)

    def features(self) -> None:
        for feature in features_of(self.environment):
            namespace, _, name = feature.partition("/")
            with self._allowed(f"the registration of {feature} was"):
                path = f"providers/Microsoft.Features/providers/{namespace}/features/{name}"
                found = self.azure.get(path, "2021-07-01")
                self.findings += rules.feature_registered(feature, found)

    def kubernetes(self) -> None:
        spec, location = self.environment.aks, self.environment.location
        if spec is None or spec.version is None:
            return
        with self._allowed("the version of Kubernetes was"):
            path = f"providers/Microsoft.ContainerService/locations/{location}/kubernetesVersions"
            # A plain list without pages, under another name than usual.
            offered = (self.azure.get(path, "2024-02-01") or {}).get("values") or ()
            self.findings += rules.kubernetes_offered(spec.version, location, offered)

    def rights(self) -> None:
        with self._allowed("what you may do was"):
            found = self.azure.list("providers/Microsoft.Authorization/permissions", _AUTHORIZATION)
            self.findings += rules.may_deploy(actions_of(self.environment), found)

    def existing(self) -> None:
        for each in existing_of(self.environment):
            with self._allowed(f"whether `{each.path}` exists was"):
                found = self.azure.get(each.id, each.api)
                self.findings += rules.existing_is_there(each, self.environment.location, found)

    def stopped(self) -> None:
        names = extended_machines_of(self.environment)
        if not names:
            return
        with self._allowed("whether VMs are stopped was"):
            mine = self._own("providers/Microsoft.Compute/virtualMachines", _COMPUTE)
            by_name = {str(each.get("name", "")): str(each.get("id", "")) for each in mine}
            for target, name in names.items():
                if name in by_name and is_stopped(self.azure, by_name[name]):
                    said = StoppedMachine(by_name[name], target).finding
                    hint, path = said.hint, f"clusters.{target}"
                    found = Finding("stopped-machine", said.message, hint, path, Severity.WARNING)
                    self.findings.append(found)

    def roles(self) -> None:
        """Checks the roles of people who submit on resources that already exist."""
        environment = self.environment
        with self._allowed("which roles people have was"):
            own = environment.storage.existing
            path = "providers/Microsoft.Storage/storageAccounts"
            accounts = [{"id": own}] if own else self._own(path, "2023-01-01")
            batch = self._accounts() if environment.pools else []
            promised = promised_roles(
                environment,
                self.azure.own_id,
                storage=str(accounts[0].get("id", "")) if accounts else "",
                batch=str(batch[0].get("id", "")) if batch else "",
            )
            for each in promised:
                path = f"{each.scope}/providers/Microsoft.Authorization/roleAssignments"
                given = self.azure.list(path, _AUTHORIZATION, **{"$filter": "atScope()"})
                self.findings += rules.role_is_free(each, self._role_id(each.role), given)

    def _role_id(self, role: str) -> str:
        """Returns the suffix of a built-in role's ids, the same everywhere; "" if unlisted."""
        if role not in self.roles_known:
            path = "providers/Microsoft.Authorization/roleDefinitions"
            found = self.azure.list(path, _AUTHORIZATION, **{"$filter": f"roleName eq '{role}'"})
            ids = (
                str(each.get("name", ""))
                for each in found
                if (each.get("properties") or {}).get("roleName") == role
            )
            self.roles_known[role] = next(ids, "")
        return self.roles_known[role]

    def _own(self, path: str, version: str) -> list[Facts]:
        name = self.environment.name
        found = self.azure.list(path, version)
        return [each for each in found if (each.get("tags") or {}).get("environment") == name]

    def sizes(self) -> None:
        location, zone = self.environment.location, self.environment.zone_number
        with self._allowed("whether the sizes are offered was"):
            here = {"$filter": f"location eq '{location}'"}
            self.skus = self.azure.list("providers/Microsoft.Compute/skus", "2021-07-01", **here)
            paths: dict[str, str] = {}
            for each in machines_of(self.environment):
                paths.setdefault(each.size, each.path)
            for size, path in paths.items():
                name = vm_size(size).name
                self.findings += rules.size_offered(path, name, location, zone, self.skus)

    def quotas(self) -> None:
        location, machines = self.environment.location, machines_of(self.environment)
        with self._allowed("the quota was"):
            path = f"providers/Microsoft.Compute/locations/{location}/usages"
            self.usages = self.azure.list(path, _COMPUTE)
            self.findings += rules.quota_suffices(location, machines, self.usages)
        if any(each.pool for each in machines):
            with self._allowed("the quota of the Batch account was"):
                for account in self._accounts():
                    self.findings += rules.pool_quota_suffices(machines, account)

    def _accounts(self) -> list[Facts]:
        """Returns the Batch accounts of the environment: one, if it is deployed."""
        return self._own("providers/Microsoft.Batch/batchAccounts", "2024-07-01")

    def pool_images(self) -> None:
        """Checks images for pools, which only an account itself lists."""
        images = pool_images_of(self.environment)
        if not images:
            return
        try:
            for account in self._accounts():
                endpoint = str((account.get("properties") or {}).get("accountEndpoint") or "")
                listed = self.azure.pool_images(endpoint) if endpoint else ()
                for path, image in images.items() if listed else ():
                    self.findings += rules.pool_takes_image(path, image, listed)
        except (NotAllowed, UserError):
            message = "the Batch account was not asked whether it takes the pools' images"
            hint = "check from where it answers, with the role Azure Batch Account Reader on it"
            self.findings.append(
                Finding("pool-images-not-asked", message, hint, severity=Severity.WARNING)
            )

    def images(self) -> None:
        location = self.environment.location
        chosen: dict[str, tuple[Image, list[str]]] = {}
        for path, image in images_of(self.environment).items():
            chosen.setdefault(image.urn, (image, []))[1].append(path)
        for image, paths in chosen.values():
            with self._allowed(f"the versions of image `{image.alias}` were"):
                stem = (
                    f"providers/Microsoft.Compute/locations/{location}/publishers/"
                    f"{image.publisher}/artifacttypes/vmimage/offers/{image.offer}"
                    f"/skus/{image.sku}/versions"
                )
                # A plain list without pages.
                versions = self.azure.get(stem, _COMPUTE) or ()
                # Only a request for a single version returns its end of support.
                version = self.azure.get(f"{stem}/{image.version}", _COMPUTE) or {}
                today = datetime.now(UTC).date()
                for path in paths:
                    self.findings += rules.image_version_exists(path, image, location, versions)
                    self.findings += rules.image_is_kept(path, image, today, version)


def ask_azure(environment: Environment, azure: Management) -> tuple[list[Finding], list[Offer]]:
    """Returns errors and warnings about an environment, and the offers of its sizes, if they may be
    seen. Raises UserError if nobody is signed in, or if the service failed."""
    asking = _Asking(environment, azure)
    asking.providers()
    asking.features()
    asking.kubernetes()
    asking.rights()
    asking.existing()
    asking.roles()
    asking.stopped()
    asking.sizes()
    asking.quotas()
    asking.images()
    asking.pool_images()
    if not asking.skus:
        return asking.findings, []
    region = environment.location, environment.zone_number
    found = Subscription(*region, asking.skus, asking.usages)
    return asking.findings, list(found.offers(machines_of(environment)))

"""How names are resolved in the network: by whose servers, and in whose private DNS zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from fairway_core.catalog.private_links import private_link, private_links
from fairway_core.documents import FieldError, Model
from fairway_core.environment.values import Address
from fairway_core.resource_ids import parts_of
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable


class Dns(Model, defer_build=True):
    """DNS servers of the network, and the zones in which private endpoints have their names."""

    servers: tuple[Address, ...] = Field(default=(), max_length=20)
    """Addresses of DNS servers for nodes, for example those of a hub; by default Azure's own."""
    zones: Literal["make", "none"] | dict[str, str] = "make"
    """`make` creates the private DNS zones of the endpoints and links them to the network; `none`
    leaves them to a policy of the hub's owner. Or give the ids of existing zones, by service:
    `blob`, `batch`, `vault`, `registry`, `file`."""

    @field_validator("zones")
    @classmethod
    def _zones_of_services(cls, zones: str | dict[str, str]) -> str | dict[str, str]:
        for service, zone in zones.items() if isinstance(zones, dict) else ():
            if service not in private_links():
                hint = did_you_mean(service, private_links())
                raise FieldError(f"there is no service `{service}`", hint, (service,))
            wanted = private_link(service).zone
            try:
                name = parts_of("private DNS zone", zone)["name"]
            except FieldError as error:
                raise FieldError(str(error), error.hint, (service,)) from None
            if name != wanted:
                raise FieldError(
                    f"`{name}` is not the zone of `{service}`", f"the zone is {wanted}", (service,)
                )
        return zones

    @property
    def existing_zones(self) -> dict[str, str] | None:
        """The ids of zones that are there already, by their names; None where zones are made."""
        if self.zones == "make":
            return None
        found = self.zones if isinstance(self.zones, dict) else {}
        return {private_link(service).zone: zone for service, zone in found.items()}

    def check_zones(self, services: Iterable[str]) -> None:
        """Raises FieldError where private endpoints of these services have no zone."""
        if not isinstance(self.zones, dict):
            return
        known = self.existing_zones or {}
        missing = sorted({each for each in services if private_link(each).zone not in known})
        if missing:
            raise FieldError(
                f"no zone for {', '.join(missing)}: nodes could not resolve their names",
                "add "
                + ", ".join(f"`{each}: ID` of {private_link(each).zone}" for each in missing),
                ("network", "dns", "zones"),
            )

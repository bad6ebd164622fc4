"""A key vault backed by a dictionary."""

from collections.abc import Mapping

from fairway_boot.http import Failure
from fairway_boot.identity import KeyVault, Secret


class FakeVault(KeyVault):
    """A vault with the given secrets; a string is a secret without tags."""

    def __init__(self, held: Mapping[str, str | Secret]) -> None:
        super().__init__("https://lab.vault.azure.net", bearer=lambda _: {})
        self.held = held

    def look(self, name: str) -> Secret:
        if name not in self.held:
            raise Failure(404, "SecretNotFound", f"{name} is not there")
        found = self.held[name]
        return Secret(found, {}) if isinstance(found, str) else found

"""The environment's page on a login node: `fairway serve`, and a proxy that authenticates users.

The node gets all files by a command that Azure runs on it, and that runs again when it changes: no
VM is replaced for it, and none of it is in the boot data. Certificate and secret are read from a
vault, with the page's own identity, into memory that only root and the proxy can read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairway_constructs.cloud_init import assignments, render_plain, script
from fairway_constructs.cloud_init.people import install_script, text_of
from fairway_core.environment.web import USER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairway_core.environment.filesystems.home_directories import HomeDirectories
    from fairway_core.target import Target

CALLBACK = "/oauth2/callback"
"""Path below the page's URL to which Entra ID redirects users after they sign in."""

_AUTHORITY = "https://login.microsoftonline.com"
_FOLDER = "/etc/fairway/web"
_PROGRAMS = "/opt/fairway-web"
_SOCKET = "/run/fairway-web/page.sock"
# Below the user ids whose programs get no token of the machine's identities; see people.sh.
_USER_ID = 1999
_START = """\
systemctl daemon-reload
systemctl enable fairway-web-setup.service fairway-web-secrets.timer
systemctl restart --no-block fairway-web-setup.service
"""


@dataclass(frozen=True, kw_only=True)
class WebPage:
    """Settings of a login node that serves the page at `url`, an https:// without a path.

    Users sign in to the application `client_id` of `tenant`. `certificate` and `secret` are names
    of secrets in the vault at `vault_url`, which the identity `identity` (its client id) reads.
    Jobs that users submit run as `account`. `package` is the wheel of Fairway with its digest.
    """

    url: str
    tenant: str
    client_id: str
    vault_url: str
    certificate: str
    secret: str
    identity: str
    account: str
    homes: HomeDirectories
    package: str
    targets: Sequence[Target] = ()

    def setup_script(self) -> str:
        """Returns the script that writes all files; the node sets up the page at each boot."""
        settings = {
            "USER_NAME": USER,
            "USER_ID": str(_USER_ID),
            "ACCOUNT": self.account,
            "HOMES": self.homes.folder,
            "MOUNT": self.homes.mount,
            "PACKAGE": self.package,
        }
        secrets = {
            "vault": self.vault_url,
            "client_id": self.identity,
            "certificate": self.certificate,
            "secret": self.secret,
            "changed": ["systemctl", "--no-block", "try-restart", "fairway-web-proxy.service"],
        }
        serve = {
            "url": self.url,
            "tenant": self.tenant,
            "audience": self.client_id,
            "targets": [each.name for each in self.targets],
        }
        # As seen inside the network, with the account of the server's runs.
        inside = {"ssh_route": None, "gateway": None}
        targets = [
            each.model_copy(update=inside).as_user(self.account).record() for each in self.targets
        ]
        files = [
            (f"{_FOLDER}/settings", "644", text_of(assignments(settings))),
            (f"{_FOLDER}/secrets.json", "644", _json(secrets)),
            (f"{_FOLDER}/fairway.yaml", "644", _json({"serve": serve})),
            (f"{_FOLDER}/targets.json", "644", _json(targets)),
            (f"{_FOLDER}/proxy.conf", "644", self.proxy_configuration()),
            ("/usr/local/sbin/fairway-web-setup", "755", script("web.sh")),
            *((f"/etc/systemd/system/{name}", "644", text) for name, text in self.units().items()),
        ]
        return install_script(files, _START)

    def proxy_configuration(self, *, authority: str = _AUTHORITY, socket: str = _SOCKET) -> str:
        """Returns the configuration of Apache with mod_auth_openidc, both Ubuntu packages."""
        parts = urlsplit(self.url)
        return render_plain(
            "web_proxy.conf.j2",
            url=self.url,
            host=parts.hostname,
            port=parts.port or 443,
            tenant=self.tenant,
            client_id=self.client_id,
            authority=authority,
            callback=CALLBACK,
            socket=socket,
        )

    def units(self) -> dict[str, str]:
        """Returns the systemd units by name."""
        text = render_plain(
            "web_units.ini.j2",
            user=USER,
            homes=self.homes.folder,
            identity=self.identity,
            programs=_PROGRAMS,
            socket=_SOCKET,
        )
        found = (each.partition("\n") for each in text.split("== ")[1:])
        return {name: unit for name, _, unit in found}


def _json(value: object) -> str:
    return json.dumps(value, indent=1) + "\n"

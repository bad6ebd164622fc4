"""The proxy by which machines reach the internet, as many companies have one."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from fairway_core.documents import FieldError, Model

_URL = re.compile(r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[0-9]{1,5}")
_LARGEST_PORT = 65_535
# Names, addresses and ranges, also with a leading dot: nothing that ends a list or a line.
_NAME = re.compile(r"[A-Za-z0-9.*][A-Za-z0-9.:/_-]*")


def _proxy_url(url: str) -> str:
    # Not repeated in the message: it may hold a password.
    if "@" in url:
        raise FieldError(
            "a user or password in a proxy's address would be kept in Terraform's state, "
            "and be readable on every machine",
            "let the proxy admit the machines' subnets without a sign-in",
        )
    bare = url.removesuffix("/")
    if not _URL.fullmatch(bare) or not 0 < (_port(bare) or 0) <= _LARGEST_PORT:
        raise FieldError(
            f"`{url}` is not the address of a proxy",
            "write its scheme, host and port: http://proxy.example.com:3128",
        )
    return bare


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None


def _direct_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise FieldError(
            f"`{name}` is neither a name nor an address",
            "write names, names with a leading dot, addresses or ranges, each as an item",
        )
    return name


ProxyUrl = Annotated[str, AfterValidator(_proxy_url)]


class Proxy(Model, defer_build=True):
    """An HTTP proxy, without a sign-in, for the internet traffic of machines and jobs.

    Requests within the network, to Azure's metadata service and to the environment's own services
    do not go through it.
    """

    http: ProxyUrl
    """The proxy's address for http, for example http://proxy.example.com:3128."""
    https: ProxyUrl | None = None
    """The proxy's address for https; by default that for http."""
    no_proxy: tuple[Annotated[str, AfterValidator(_direct_name)], ...] = ()
    """Further hosts to reach without the proxy: names, `.example.com` for a domain and all its
    hosts, addresses, ranges."""

    @property
    def addresses(self) -> list[IPv4Address]:
        """Its addresses, where they are no names."""
        found = []
        for url in (self.http, self.https or self.http):
            with suppress(AddressValueError):
                found.append(IPv4Address(urlsplit(url).hostname or ""))
        return found

"""The base of Fairway's constructs, and their positions in a stack."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from fairway_constructs.arguments import checked, refused
from fairway_constructs.cdk.library import Construct, Stack, jsii
from fairway_core.findings import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fairway_constructs.azure_scope import AzureScope
    from fairway_constructs.cdk.library import IConstruct, Node
    from fairway_core.catalog import VmSize


T = TypeVar("T")

# Characters that cdktf removes from a resource's id. Source: cdktf, lib/private/unique.ts.
_DISALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_NAME = re.compile(r"[A-Za-z_]")


class Addresses:
    """The Terraform addresses of one stack and their owners, and the stack's shared objects.

    cdktf makes an address from a resource's full path and a hash. A stack may ask for short ones,
    `azurerm_subnet.compute`, made from the id alone. cdktf silently overwrites a resource with a
    second one of the same address, so the second is refused when it is created.

    >>> addresses = Addresses()
    >>> addresses.take("azurerm_subnet.compute", "network/compute")
    >>> addresses.take("azurerm_subnet.compute", "other/compute")
    Traceback (most recent call last):
    ...
    fairway_core.findings.UserError: two resources have the address azurerm_subnet.compute: ...
    """

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._shared: dict[Hashable, object] = {}
        # The VM size of each cluster and the nodes of one job there, by the path of its construct.
        self.clusters: dict[str, tuple[VmSize, int]] = {}
        # The openings that were requested, as arguments of `CheckContext`.
        self.opened: dict[str, Any] = {}

    def take(self, address: str, path: str) -> None:
        """Records the address of the resource at that path. Raises UserError if it is taken, or if
        its name does not begin with a letter, as Terraform requires."""
        if not _NAME.match(address.rpartition(".")[2]):
            message = f"{address} begins like no name of Terraform's"
            raise UserError.of("bad-id", message, f"begin the ids in `{path}` with a letter")
        if address in self.owners:
            raise UserError.of(
                "address-taken",
                f"two resources have the address {address}: {self.owners[address]} and {path}",
                "give one of them another name, or make the stack without `short_addresses`",
            )
        self.owners[address] = path

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns the stack's one object with that key, created at the first request."""
        if key not in self._shared:
            self._shared[key] = make()
        # Each key is used in one place, with one `make`.
        return self._shared[key]  # type: ignore[return-value]


def short_id(id: str) -> str:
    """Returns the id as it occurs in an address.

    >>> short_id("privatelink.blob")
    'privatelinkblob'
    """
    return _DISALLOWED.sub("", id)


@dataclass(frozen=True)
class ScopeContext:
    """The position of a construct: its stack, and the constructs around it, outermost first.

    `short` says whether resources of a `Component` have short addresses there; `ids` are those of
    the constructs created in it so far.
    """

    stack: Stack
    addresses: Addresses
    path: tuple[str, ...]
    around: tuple[IConstruct, ...]
    short: bool
    ids: set[str] = field(default_factory=set)

    def within(self, construct: IConstruct, id: str) -> ScopeContext:
        """Returns the context inside `construct`, whose id in this one is `id`."""
        path, around = (*self.path, id), (*self.around, construct)
        return ScopeContext(self.stack, self.addresses, path, around, self.short)

    @property
    def name(self) -> str:
        """The ids of the stack and of the constructs down to this one, such as `compute/nd`."""
        return "/".join([self.stack.node.id, *self.path])

    @property
    def scope_and_azure(self) -> tuple[Construct, AzureScope]:
        """The nearest scope with an `AzureScope`, and that. Raises UserError without one."""
        for scope in (*reversed(self.around), self.stack):
            if azure := vars(scope).get("_azure_scope"):
                return scope, azure  # type: ignore[return-value]  # an interface in cdktf's types
        raise UserError.of(
            "no-environment",
            f"{self.name} has no resource group to go to",
            "make the stack an `EnvironmentStack`, or call `use_resource_group(stack, …)` first",
        )


def context_of(scope: Construct) -> ScopeContext:
    """Returns the context inside `scope`; queries cdktf only once for each scope."""
    known: ScopeContext | None = vars(scope).get("_inside")
    if known is None:
        known = _context_of_foreign(scope)
        vars(scope)["_inside"] = known
    return known


def end_short_addresses(stack: Stack) -> None:
    """Gives what is made in the stack from now on an address made from its path."""
    vars(stack)["_inside"] = replace(context_of(stack), short=False)


def _context_of_foreign(scope: Construct) -> ScopeContext:
    """Returns the context of a scope that is a stack, or a construct of a class that is not
    ours."""
    if isinstance(scope, Stack):
        short = getattr(scope, "short_addresses", False)
        return ScopeContext(scope, Addresses(), (), (), short=short)
    scopes = scope.node.scopes
    try:
        stack = Stack.of(scope)
    except RuntimeError:
        where = "/".join(each.node.id for each in scopes[1:])
        raise UserError.of(
            "no-stack",
            f"{where} is in no stack" if where else "the app itself is no stack",
            "pass a stack, such as an `EnvironmentStack`, or a construct in one",
        ) from None
    around = tuple(scopes[scopes.index(stack) + 1 :])
    path = tuple(each.node.id for each in around)
    inside = context_of(stack)
    return ScopeContext(stack, inside.addresses, path, around, short=inside.short)


def create(made: Construct, name: str, scope: Construct, id: str, *settings: object) -> None:
    """Creates a construct as the constructor of cdktf's class does, but without checking each
    argument against its annotation: that took longer than everything else in Python.

    Raises UserError for a scope that is not a construct or is in no stack, and for an id that is
    empty or already used in it.
    """
    if not isinstance(scope, Construct):
        raise UserError.of(
            "wrong-argument",
            f"the scope of {name} is a {type(scope).__name__}, and no construct",
            "pass a stack, or a construct",
        )
    known = context_of(scope)
    if not id:
        message = f"the id of {name} in {known.name} is empty"
        raise UserError.of("wrong-argument", message, "name it, for example `train`")
    try:
        jsii.create(type(made), made, [scope, id, *settings])
    except RuntimeError:
        if id not in known.ids:
            raise
        raise UserError.of(
            "id-taken",
            f"there is a `{id}` in {known.name} already",
            "give one of the two another id or name",
        ) from None
    known.ids.add(id)


def wait_for(made: Construct, *needed: object) -> None:
    """Lets a resource be created after the constructs of its stack among those that it needs, and
    after what they have when the stack is written, such as an identity's roles."""
    stack = context_of(made).stack
    for each in needed:
        if isinstance(each, Construct) and context_of(each).stack is stack:
            made.node.add_dependency(each)


class Signature:
    """The arguments of a class, in place of the `*args` of cdktf's metaclass."""

    def __get__(self, made: object, owner: type) -> inspect.Signature:
        signature = inspect.signature(owner.__init__)  # type: ignore[misc]  # of this very class
        _, *arguments = signature.parameters.values()
        return signature.replace(parameters=arguments, return_annotation=inspect.Signature.empty)


class NoTags:
    """A descriptor that refuses tags of a scope: the resources below it have them."""

    def __get__(self, made: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__} has no tags")

    def __set__(self, made: object, _: object) -> None:
        hint = 'add each to all resources below it: az.Tags.of(…).add("owner", "me")'
        raise refused("no-argument", f"{type(made).__name__} has no `tags` of its own", hint)


class Component(Construct):
    """The base of Fairway's constructs: a part of a stack, with its resources below it in the tree.

    Its scope determines where its resources go and their names, see `azure`.

    >>> class Room(Component):
    ...     def __init__(self, scope, id):
    ...         super().__init__(scope, id)
    ...         self.group = ResourceGroup(self, "group", name=id, location="westeurope")
    >>> Room(stack, "here"), Room(stack, "there")
    """

    __signature__ = Signature()
    tags = NoTags()

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("fairway_constructs."):
            checked(cls)

    def __init__(self, scope: Construct, id: str) -> None:
        create(self, type(self).__name__, scope, id)
        self._inside = context_of(scope).within(self, id)

    @property
    def short_addresses(self) -> bool:
        """True if the stack uses short addresses."""
        return self._inside.short

    @property
    def azure(self) -> AzureScope:
        """The resource group and region of the construct's resources, with names and tags."""
        return self._inside.scope_and_azure[1]

    @cached_property
    def node(self) -> Node:
        """The construct's node in the tree; `node.add_dependency(other)` covers all below it."""
        return super().node

"""Places where Terraform keeps the state of an environment."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from fairway_core.catalog.tables import table
from fairway_core.documents import Check, FieldError, Model, matching
from fairway_core.naming import check_name
from fairway_core.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

# A list, not a tuple: an earlier validator has made it from the file's text.
_Value = str | int | bool | list[str]
_Path = tuple[str, ...]
# Fairway extends the text of these settings, and of the one that a backend's row calls `named`.
_TEXTS = frozenset({"address", "lock_address", "unlock_address", "path", "workspace_dir"})
_TEXTS |= {"organization", "hostname", "prefix", "project", "name"}


class _Backend(Model, defer_build=True):
    """A Terraform backend; its settings, by Terraform's own names, stand beside the fields."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, _Value | dict[str, Any]]

    backend: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that are for Terraform alone."""
        return self.__pydantic_extra__

    @model_validator(mode="before")
    @classmethod
    def _settings_are_known(cls, given: Any) -> Any:
        """Checks the settings before the fields: a misspelt one is not reported as missing."""
        backend = str(given.get("backend", "local")) if isinstance(given, dict) else ""
        facts = table("backends")["backends"].get(backend)
        if facts is None:
            return given  # already built in Python, or refused by its field
        settings = {name: given[name] for name in given if name not in cls.model_fields}
        for path, value in _each(settings):
            _refuse_credential(path, value, facts, str(settings.get("hostname", "")))
        hidden = any(_holds_secret(path, value) for path, value in _each(settings))
        for path, value in _each(settings):
            try:
                _refuse_unknown(path, value, facts, backend, [*cls.model_fields])
            except FieldError as error:  # an unknown setting may hold one, also on the same line
                error.secret = hidden
                raise
            if backend == "http":
                _refuse_bad_address(path, str(value))
        for name in facts.get("required", ()):
            if name not in settings:
                raise FieldError(f"backend `{backend}` needs `{name}`", f"add `{name}:`")
        before = facts.get("named", "path")
        if str(settings.get(before, "")).endswith(".tfstate"):
            message = f"`{before}` stands before the names of several states, and is not one itself"
            raise FieldError(message, f"write a folder, such as `{before}: clusters/`", (before,))
        return given


def _each(settings: Any, above: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yields the settings with their paths, and after a block, or list of blocks, those in it."""
    for name, value in settings.items():
        path = (*above, name)
        yield path, value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from _each(inner, path)


def _refuse_credential(path: _Path, value: Any, facts: dict[str, Any], host: str) -> None:
    """Raises FieldError for a secret, with the environment variable that must hold it instead."""
    from fairway_core.secret_values import is_secret_name  # most files do not need it

    name, block = ".".join(path), ".".join(path[:-1])
    variable = facts.get("credentials", {}).get(name)
    own = block in facts.get("maps", ()) and isinstance(value, str) and is_secret_name(path[-1])
    if variable or own:
        # Of maps, only one is of a program's environment.
        variable = variable or (path[-1] if block == "exec.env" else "")
        if "{host}" in variable:  # as in HCP Terraform's documentation
            host = (host or "app.terraform.io").replace(".", "_").replace("-", "__")
            variable = variable.format(host=host)
        raise FieldError(
            f"`{name}` is a credential, which a file must not hold",
            f"remove it here, and set {variable} where Terraform runs" if variable else "remove it",
            path,
            secret=True,
        )
    if _is_known(path, facts) and _hides_secret(value):
        variable = facts.get("addresses", {}).get(name, "it")
        raise FieldError(
            f"`{name}` holds a user or a password, which a file must not hold",
            f"remove them from its text, and set {variable} where Terraform runs",
            path,
            secret=True,
        )


def _holds_secret(path: _Path, value: Any) -> bool:
    """Returns True if a value is a secret by its name or its text."""
    from fairway_core.secret_values import is_secret_name

    return (isinstance(value, str) and is_secret_name(path[-1])) or _hides_secret(value)


def _hides_secret(value: Any) -> bool:
    """Returns True if a text, or the texts of a list, hold a secret."""
    from fairway_core.secret_values import contains_secret

    texts = value if isinstance(value, list | tuple) else [value]
    texts = [text for text in texts if isinstance(text, str)]
    return any(map(_is_address_with_secret, texts)) or contains_secret(" ".join(texts))


def _is_address_with_secret(text: str) -> bool:
    """Returns True for an address with a user or a secret in its query, and for `password=…`."""
    from urllib.parse import parse_qsl

    from fairway_core.secret_values import is_secret_name

    if re.search(r"(?i)password\s*=", text) or re.match("[^/]+://[^/]*@", text):
        return True
    query = parse_qsl(text.partition("?")[2]) if "://" in text else ()
    return any(is_secret_name(name) or name.lower() == "sig" for name, _ in query)


def _known(block: Sequence[str], facts: dict[str, Any]) -> Collection[str]:
    """Returns the names of the settings in a block, or in the backend itself."""
    nested = facts.get("nested", {})
    if block:
        return nested.get(".".join(block), ())  # type: ignore[no-any-return]
    return [*facts.get("required", ()), *facts["optional"], *nested]


def _is_known(path: _Path, facts: dict[str, Any]) -> bool:
    """Returns True for a setting of the backend, or one of the user's in a map."""
    *block, last = path
    return ".".join(block) in facts.get("maps", ()) or last in _known(block, facts)


def _refuse_unknown(
    path: _Path, value: Any, facts: dict[str, Any], backend: str, fields: list[str]
) -> None:
    """Raises FieldError for an unknown setting, and if a value and a block are confused."""
    name, (*block, last) = ".".join(path), path
    nested, maps = facts.get("nested", {}), facts.get("maps", ())
    if ".".join(block) in maps:
        return
    if hint := facts.get("instead", {}).get(name):
        raise FieldError(f"`{name}` is no setting here", hint, path, of_key=True)
    if not _is_known(path, facts):
        names = sorted({*_known(block, facts), *(() if block else fields)})
        hint = did_you_mean(last, names) or f"it takes {', '.join(names)}"
        of = f"`{block[0]}` of backend `{backend}`" if block else f"backend `{backend}`"
        raise FieldError(f"{of} takes no `{last}`", hint, path, of_key=True)
    if isinstance(value, dict) is not (name in nested or name in maps):
        inner = f"{name}: {{{', '.join(nested.get(name, ['NAME']))}}}"
        wanted, hint = ("one value", f"{last}: VALUE")
        if not isinstance(value, dict):
            wanted, hint = ("settings of its own", inner)
        raise FieldError(f"`{name}` takes {wanted}", f"write `{hint}`", path)
    if last in {*_TEXTS, facts.get("named")} and not isinstance(value, str):
        raise FieldError(f"`{name}` takes text", f'for example `{last}: "lab"`', path)


def _refuse_bad_address(path: _Path, text: str) -> None:
    """Raises FieldError for an address that is not one of HTTP, and for a misspelt `{stack}` in
    it, which has no other braces."""
    if path[-1].endswith("address") and not text.lower().startswith(("http://", "https://")):
        message = f"`{path[-1]}` does not begin with https://"
        raise FieldError(message, f"write the whole address: https://{text}", path)
    for mark in re.findall(r"\{[^{}]*\}", text):
        if mark != "{stack}":
            message = f"`{'.'.join(path)}` has `{mark}`, which stands for nothing"
            raise FieldError(message, "the name of the stack is `{stack}`", path)


class LocalState(_Backend, defer_build=True):
    """A file beside cdktf.json, for one person's experiments. It takes further settings by
    Terraform's own names."""

    backend: Literal["local"] = "local"
    """`local`: a file."""


class AzurermState(_Backend, defer_build=True):
    """A blob in a storage account, locked while Terraform runs and opened with an Entra ID
    identity. It takes further settings by Terraform's own names."""

    backend: Literal["azurerm"]
    """`azurerm`: a blob."""
    resource_group: Annotated[
        str,
        matching(
            r"(?a)[-\w.()]{0,89}[-\w()]",
            "`{}` is not a valid name for a resource group",
            "1 to 90 letters, digits, hyphens, underscores, dots and parentheses; no dot last",
        ),
    ]
    """The resource group of the storage account."""
    storage_account: Annotated[str, Check(partial(check_name, "storage_account"))]
    """The storage account's name, unique in all of Azure."""
    container: Annotated[str, Check(partial(check_name, "storage_container"))] = "tfstate"
    """The blob container in it."""
    public_access: bool = False
    """Open the account to every address, as hosted build agents need, and not only to
    `access.allowed`. In both cases it needs an identity with a role on it.
    """


class OtherState(_Backend, defer_build=True):
    """A backend of Terraform outside of Azure, with its settings by Terraform's own names. Each
    stack has a state of its own there, named after it; credentials come from the backend's
    environment variables."""

    backend: Literal[
        "cloud", "consul", "cos", "gcs", "http", "kubernetes", "oci", "oss", "pg", "remote", "s3"
    ]
    """The backend, as Terraform calls it."""


State = Annotated[LocalState | AzurermState | OtherState, Field(discriminator="backend")]

"""The CDK library below Fairway's constructs; the only module that names cdktf and cdktn.

cdktf is archived and its fork cdktn keeps the API. The library is the one that FAIRWAY_CDK names,
else the one that the app has imported, else cdktf.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fairway_constructs.node import prepare_node, start_node
from fairway_core.findings import UserError

_LIBRARIES = ("cdktf", "cdktn")


def library_name() -> str:
    """Returns the package of the CDK. Raises UserError if it is unknown or not installed."""
    used = [name for name in _LIBRARIES if name in sys.modules]
    chosen = os.environ.get("FAIRWAY_CDK") or (used or _LIBRARIES)[0]
    if chosen not in _LIBRARIES:
        raise UserError.of(
            "unknown-cdk", f"FAIRWAY_CDK is `{chosen}`", f"use one of: {', '.join(_LIBRARIES)}"
        )
    if find_spec(chosen) is None:
        raise UserError.of("no-cdk", f"{chosen} is not installed", f"pip install {chosen}")
    return chosen


prepare_node(os.environ)
start_node()

import jsii as jsii  # noqa: E402
from constructs import Construct as Construct  # noqa: E402
from constructs import IConstruct as IConstruct  # noqa: E402
from constructs import IValidation as IValidation  # noqa: E402

if TYPE_CHECKING:
    from cdktf import App as App
    from cdktf import Aspects as Aspects
    from cdktf import CloudBackend as CloudBackend
    from cdktf import Fn as Fn
    from cdktf import IAspect as IAspect
    from cdktf import IResolvable as IResolvable
    from cdktf import ITerraformDependable as ITerraformDependable
    from cdktf import NamedCloudWorkspace as NamedCloudWorkspace
    from cdktf import TerraformBackend as TerraformBackend
    from cdktf import TerraformDataSource as TerraformDataSource
    from cdktf import TerraformElement as TerraformElement
    from cdktf import TerraformHclModule as TerraformHclModule
    from cdktf import TerraformOutput, TerraformStack
    from cdktf import TerraformProvider as TerraformProvider
    from cdktf import TerraformProviderGeneratorMetadata as TerraformProviderGeneratorMetadata
    from cdktf import TerraformRemoteState as TerraformRemoteState
    from cdktf import TerraformResource as TerraformResource
    from cdktf import TerraformResourceLifecycle as TerraformResourceLifecycle
    from cdktf import Token as Token
    from constructs import Node as Node

    Output = TerraformOutput
    Stack = TerraformStack
else:
    _library = import_module(library_name())
    Output, Stack = _library.TerraformOutput, _library.TerraformStack

    def __getattr__(name: str) -> Any:
        return getattr(_library, name)


raised: list[UserError] = []
"""Errors raised in calls from the library, which returns them only as texts of JavaScript's."""


def refuse(error: UserError) -> None:
    """Makes `App.synth` raise this error; a library that called us would pass on only its text."""
    raised.append(error)

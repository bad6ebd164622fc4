"""The CDK for Terraform as Fairway uses it, on cdktf or cdktn.

Fairway adds little: base classes whose attributes are a plain dict, typed references to them, a
typed lifecycle, and `Component`, the base of our constructs.
"""

from __future__ import annotations

from fairway_constructs.bindings.blocks import Timeouts
from fairway_constructs.cdk.component import Component, Signature, surroundings
from fairway_constructs.cdk.elements import DataSource, Lifecycle, Resource
from fairway_constructs.cdk.library import (
    Aspects,
    CloudBackend,
    Construct,
    Fn,
    IAspect,
    IConstruct,
    IResolvable,
    ITerraformDependable,
    NamedCloudWorkspace,
    Output,
    Stack,
    TerraformHclModule,
    Token,
    refuse,
)
from fairway_constructs.cdk.settings import Backend, Provider
from fairway_constructs.cdk.synthesis import App, Aspect, Validation

__all__ = [
    "App",
    "Aspect",
    "Aspects",
    "Backend",
    "CloudBackend",
    "Component",
    "Construct",
    "DataSource",
    "Fn",
    "IAspect",
    "IConstruct",
    "IResolvable",
    "ITerraformDependable",
    "Lifecycle",
    "NamedCloudWorkspace",
    "Output",
    "Provider",
    "Resource",
    "Signature",
    "Stack",
    "TerraformHclModule",
    "Timeouts",
    "Token",
    "Validation",
    "refuse",
    "surroundings",
]

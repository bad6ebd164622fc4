"""The CDK for Terraform as Fairway uses it, on cdktf or cdktn.

Fairway adds little: base classes whose attributes are a plain dict, typed references to them, a
typed lifecycle, and `Component`, the base of our constructs.
"""

from __future__ import annotations

from fairway_constructs.bindings.blocks import Timeouts as Timeouts
from fairway_constructs.cdk.component import Component as Component
from fairway_constructs.cdk.component import NoTags as NoTags
from fairway_constructs.cdk.component import Signature as Signature
from fairway_constructs.cdk.component import context_of as context_of
from fairway_constructs.cdk.component import wait_for as wait_for
from fairway_constructs.cdk.elements import DataSource as DataSource
from fairway_constructs.cdk.elements import Lifecycle as Lifecycle
from fairway_constructs.cdk.elements import Resource as Resource
from fairway_constructs.cdk.library import CloudBackend as CloudBackend
from fairway_constructs.cdk.library import Construct as Construct
from fairway_constructs.cdk.library import Fn as Fn
from fairway_constructs.cdk.library import IAspect as IAspect
from fairway_constructs.cdk.library import IConstruct as IConstruct
from fairway_constructs.cdk.library import IResolvable as IResolvable
from fairway_constructs.cdk.library import ITerraformDependable as ITerraformDependable
from fairway_constructs.cdk.library import NamedCloudWorkspace as NamedCloudWorkspace
from fairway_constructs.cdk.library import Output as Output
from fairway_constructs.cdk.library import Stack as Stack
from fairway_constructs.cdk.library import TerraformHclModule as TerraformHclModule
from fairway_constructs.cdk.library import Token as Token
from fairway_constructs.cdk.library import refuse as refuse
from fairway_constructs.cdk.settings import Backend as Backend
from fairway_constructs.cdk.settings import Provider as Provider
from fairway_constructs.cdk.synthesis import App as App
from fairway_constructs.cdk.synthesis import Aspect as Aspect
from fairway_constructs.cdk.synthesis import Aspects as Aspects
from fairway_constructs.cdk.synthesis import Validation as Validation

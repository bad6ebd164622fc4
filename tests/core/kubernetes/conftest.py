"""Faults of an object according to the schema of its kind.

Kubernetes' own kinds are validated strictly against the schemas of 1.33 and of the newest version;
kinds of Kueue against what the stand-in accepts. No published set of schemas is available for the
kinds of Flux, NVIDIA's operators and NFD: their fields, required fields and values are taken from:

- https://fluxcd.io/flux/components/helm/api/v2/ (helm-controller 0f61a86)
- https://fluxcd.io/flux/components/source/api/v1/ and kustomize/api/v1/
- NicClusterPolicy: the CRD of network-operator v26.4.0
- NodeFeatureRule: https://kubernetes-sigs.github.io/node-feature-discovery/, nfd-api v1alpha1
"""

from collections.abc import Callable
from typing import Any

import pytest
from kubernetes_validate import ValidationError, validate

from fairway_simulator.kubernetes.api import schemas, validation

_VERSIONS = ("1.33", schemas.newest().rpartition(".")[0])
_OWN = ("rbac.authorization.k8s.io", "admissionregistration.k8s.io")
_CRDS = ("Skip", "Create", "CreateReplace")
_ACTION = {"crds": _CRDS, "timeout": "string", "remediation": {"retries": "integer"}}
_TOLERATION = {"key": "string", "operator": ("Exists", "Equal"), "value": "string"}
_PROBE = {"initialDelaySeconds!": "integer", "periodSeconds!": "integer"}
_IMAGE = {"repository": "string", "image!": "string", "version": "string"}
_TERM = {"key!": "string", "operator!": ("In", "NotIn", "Exists"), "values": ["string"]}

_KINDS: dict[tuple[str, str], dict[str, Any]] = {
    ("source.toolkit.fluxcd.io/v1", "HelmRepository"): {
        "spec!": {"interval": "string", "url!": "string", "type": ("default", "oci")}
    },
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): {
        "spec!": {
            "interval!": "string",
            "url!": "string",
            "ref": {"branch": "string", "tag": "string", "commit": "string"},
            "ignore": "string",
        }
    },
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): {
        "spec!": {
            "interval!": "string",
            "prune!": "boolean",
            "sourceRef!": {
                "kind!": ("OCIRepository", "GitRepository", "Bucket", "ExternalArtifact"),
                "name!": "string",
            },
            "path": "string",
            "timeout": "string",
            "serviceAccountName": "string",
            "patches": [{"patch!": "string"}],
        }
    },
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"): {
        "spec!": {
            "interval!": "string",
            "timeout": "string",
            "releaseName": "string",
            "targetNamespace": "string",
            "storageNamespace": "string",
            "serviceAccountName": "string",
            "dependsOn": [{"name!": "string"}],
            "chart": {
                "spec!": {
                    "chart!": "string",
                    "version": "string",
                    "sourceRef!": {
                        "kind!": ("HelmRepository", "GitRepository", "Bucket"),
                        "name!": "string",
                    },
                }
            },
            "install": _ACTION,
            "upgrade": _ACTION,
            "values": "any",
        }
    },
    ("mellanox.com/v1alpha1", "NicClusterPolicy"): {
        "spec": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms!": [{"matchExpressions": [_TERM]}]
                }
            },
            "tolerations": [_TOLERATION],
            "ofedDriver": {
                **_IMAGE,
                "forcePrecompiled": "boolean",
                "env": [{"name!": "string", "value": "string"}],
                "upgradePolicy": {"autoUpgrade": "boolean"},
                "startupProbe": _PROBE,
                "livenessProbe": _PROBE,
                "readinessProbe": _PROBE,
            },
            "sriovDevicePlugin": {**_IMAGE, "config": "string"},
        }
    },
    ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"): {
        "spec!": {
            "rules!": [
                {
                    "name!": "string",
                    "labels": {"*": "string"},
                    "matchFeatures": [
                        {
                            "feature!": "string",
                            "matchExpressions": {
                                "*": {"op!": ("In", "NotIn", "Exists"), "value": ["string"]}
                            },
                        }
                    ],
                }
            ]
        }
    },
}


@pytest.fixture(scope="session")
def faults() -> Callable[[dict[str, Any]], list[str]]:
    """Returns a function that lists an object's faults, cached as many clusters share objects."""
    known: dict[str, list[str]] = {}

    def faults(found: dict[str, Any]) -> list[str]:
        if (text := repr(found)) not in known:
            known[text] = _faults(found)
        return known[text]

    return faults


def _faults(found: dict[str, Any]) -> list[str]:
    version, kind = found["apiVersion"], found["kind"]
    if version.startswith("kueue.x-k8s.io/"):
        schema = schemas.definitions()[schemas.name_of(kind)]
        return [*_by_schema(found, schema)] or [*validation.kueue_causes(kind, found)]
    group = version.partition("/")[0]
    if "." in group and group not in _OWN:
        return _by_schema(found, schemas.object_of(_KINDS[version, kind]))
    told = []
    for each in _VERSIONS:
        try:
            validate(found, each, strict=True)
        except ValidationError as error:
            told.append(f"{each}: {error.message}")
    return told


def _by_schema(found: dict[str, Any], schema: schemas.Schema) -> list[str]:
    return [
        *(f"unknown: {schemas.spelled(path)}" for path in schemas.unknown_fields(found, schema)),
        *(f"type: {schemas.spelled(path)}" for path, *_ in schemas.wrong_types(found, schema)),
        *(f"lacking: {schemas.spelled(path)}" for path in schemas.lacking(found, schema)),
        *(f"value: {schemas.spelled(path)}" for path, _ in schemas.not_among(found, schema)),
    ]

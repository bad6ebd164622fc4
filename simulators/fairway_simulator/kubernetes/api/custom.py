"""The kinds of Kueue 0.19 and of the autoscaler that are asked for here, which no published set of
schemas has.

Fields, required ones and values: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ and the
markers of its API types; kubernetes/autoscaler, apis/provisioningrequest/v1/types.go. What is not
named is refused, also where the real server would take it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

Schema = dict[str, Any]

_META = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
_STOPS = ("None", "Hold", "HoldAndDrain")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TAINT = {"key!": "string", "value": "string", "effect!": _EFFECTS}
_TOLERATION = {
    "key": "string",
    "operator": ("Equal", "Exists"),
    "value": "string",
    "effect": _EFFECTS,
    "tolerationSeconds": "integer",
}
_EXPRESSION = {
    "key!": "string",
    "operator!": ("In", "NotIn", "Exists", "DoesNotExist"),
    "values": ["string"],
}
_QUOTA = {
    "name!": "string",
    "nominalQuota!": "quantity",
    "borrowingLimit": "quantity",
    "lendingLimit": "quantity",
}
_KINDS: dict[str, Any] = {
    "ResourceFlavor": {
        "spec": {
            "nodeLabels": {"*": "string"},
            "nodeTaints": [_TAINT],
            "tolerations": [_TOLERATION],
            "topologyName": "string",
        }
    },
    "ClusterQueue": {
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources!": ["string"],
                    "flavors!": [{"name!": "string", "resources!": [_QUOTA]}],
                }
            ],
            "cohortName": "string",
            "queueingStrategy": ("StrictFIFO", "BestEffortFIFO"),
            "namespaceSelector": {
                "matchLabels": {"*": "string"},
                "matchExpressions": [_EXPRESSION],
            },
            "preemption": {
                "reclaimWithinCohort": ("Never", "LowerPriority", "Any"),
                "withinClusterQueue": ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
            },
            "stopPolicy": _STOPS,
            "admissionChecksStrategy": {
                "admissionChecks!": [{"name!": "string", "onFlavors": ["string"]}]
            },
        }
    },
    "AdmissionCheck": {
        "spec!": {
            "controllerName!": "string",
            "parameters": {"apiGroup!": "string", "kind!": "string", "name!": "string"},
        }
    },
    "ProvisioningRequestConfig": {
        "spec!": {
            "provisioningClassName!": "string",
            "parameters": {"*": "string"},
            "managedResources": ["string"],
            "retryStrategy": {
                "backoffLimitCount": "integer",
                "backoffBaseSeconds": "integer",
                "backoffMaxSeconds": "integer",
            },
        }
    },
    "ProvisioningRequest": {
        "spec!": {
            "provisioningClassName!": "string",
            "podSets!": [{"podTemplateRef!": {"name!": "string"}, "count!": "integer"}],
            "parameters": {"*": "string"},
        }
    },
    "LocalQueue": {"spec": {"clusterQueue": "string", "stopPolicy": _STOPS}},
    "WorkloadPriorityClass": {"value!": "integer", "description": "string"},
    "Workload": {"spec": "any"},  # its controllers' own
}


def name_of(kind: str) -> str:
    """What the schema of a kind of Kueue's is called here."""
    return f"io.x-k8s.kueue.v1beta2.{kind}"


@cache
def definitions() -> dict[str, Schema]:
    """All of them by their names."""
    return {name_of(kind): object_of(fields) for kind, fields in _KINDS.items()}


def object_of(fields: dict[str, Any]) -> Schema:
    """The schema of a kind, whose fields beside those of every object are these.

    A name with `!` is required; a text names a type, a tuple the values that there are, a list
    holds the form of its items, and `*` stands for any name.
    """
    every = {"apiVersion": "string", "kind": "string", "status": "any"}
    found = _schema({**every, **fields})
    found["properties"]["metadata"] = _META
    return found


def _schema(form: Any) -> Schema:
    if isinstance(form, dict):
        if "*" in form:
            return {"type": "object", "additionalProperties": _schema(form["*"])}
        return {
            "type": "object",
            "properties": {name.rstrip("!"): _schema(each) for name, each in form.items()},
            "required": [name.rstrip("!") for name in form if name.endswith("!")],
        }
    if isinstance(form, list):
        return {"type": "array", "items": _schema(form[0])}
    if isinstance(form, tuple):
        return {"type": "string", "enum": list(form)}
    if form == "quantity":
        return {"oneOf": [{"type": "string"}, {"type": "number"}]}
    return {} if form == "any" else {"type": form}

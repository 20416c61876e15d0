"""Reads the API server's question about a new pod, and writes the answer: ``admission.k8s.io/v1``. Pure.

The plugin Priority runs before the webhook and, after a change, once more. The first time it gives the pod
the number of its class, which it would refuse the second time for being another. So both fields that come
from the class are taken away with it, and the plugin fills them in from the new one.
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#priority
"""

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.kube import resources
from dutycycle.kube.references import KubeObject
from sinks.scheduling.webhook.queue import QueuePosition

API_VERSION = "admission.k8s.io/v1"
CLASS_PREFIX = "dutycycle-"
"""Of the names of our PriorityClasses; the number follows."""
_SYSTEM = "system-"
_OF_CLASS = ("priority", "preemptionPolicy")
Operation = dict[str, Any]


class NotUnderstoodError(Exception):
    """Says what is missing in what is no question about a new pod."""


def question(asked: Any) -> Mapping[str, Any]:
    """Return the request of an ``AdmissionReview``. Raises ``NotUnderstoodError``."""
    request = asked.get("request") if isinstance(asked, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise NotUnderstoodError("no AdmissionReview with a request")
    return request


def pod_of(request: Mapping[str, Any]) -> KubeObject:
    """Return the pod that is to be. Raises ``NotUnderstoodError``."""
    pod = request.get("object")
    if (
        not isinstance(pod, dict)
        or not isinstance(pod.get("spec"), dict)
        or not isinstance(pod.get("metadata"), dict)
    ):
        raise NotUnderstoodError("its object is no pod")
    return pod


def left_alone(pod: KubeObject) -> str | None:
    """Tell why a pod is none of ours; None if it is."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return "bound"  # it is in no queue
    if resources.gpu_request(spec, pod["metadata"].get("annotations")) == 0:
        return "no_gpu"
    if TRIAL_OF in (pod["metadata"].get("labels") or {}):
        return "trial"  # it has a class by which all others go first
    return "system_class" if (spec.get("priorityClassName") or "").startswith(_SYSTEM) else None


def user_class(pod: KubeObject) -> str:
    """Return the class that the user asked for, or the cluster's default."""
    return pod["spec"].get("priorityClassName") or ""


def change(pod: KubeObject, class_name: str, key: str, value: str) -> list[Operation]:
    """Return the JSON patch that gives a pod its class, and says why in the annotation ``key``."""
    spec = pod["spec"]
    taken = [{"op": "remove", "path": f"/spec/{field}"} for field in _OF_CLASS if field in spec]
    given = {"op": "add", "path": "/spec/priorityClassName", "value": class_name}
    annotations = pod["metadata"].get("annotations")
    empty = [] if annotations else [{"op": "add", "path": "/metadata/annotations", "value": {}}]
    path = f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
    return [*taken, given, *empty, {"op": "add", "path": path, "value": value}]


def why(place: QueuePosition, of_user: str) -> str:
    """Return the value of the annotation."""
    prediction = place.prediction
    expected = None if prediction is None else prediction.middle("duration_s")
    figures = {
        "expected_s": None if expected is None else round(expected),
        "pods": 0 if prediction is None else prediction.pods,
        "delay_s": round(place.delay_s),
        "used_of_share": {owner: round(used, 2) for owner, used in place.excess.items()},
        "class": of_user or None,
        "why": place.why,
    }
    return orjson.dumps({name: figure for name, figure in figures.items() if figure is not None}).decode()


def answer(uid: str, patch: list[Operation]) -> dict[str, Any]:
    """Return the answer. The pod is admitted in any case; what is to be changed of it is in ``patch``."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}

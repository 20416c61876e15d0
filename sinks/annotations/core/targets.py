"""Names the Kubernetes objects that carry our annotations. Pure.

Names become parts of an URL, so only such as Kubernetes itself allows make a target.
"""

import re
from dataclasses import dataclass

from dutycycle.contract.records.pods import JobRef, Pod, is_name_key
from dutycycle.kube.references import ObjectRef

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_API_VERSION = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?v[0-9][a-z0-9]*")

NODE_FRESH_S = 600.0
"""So long what was written on a node counts as being there: it may have been deleted and registered anew
under its name, and then carries nothing of it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Names one object: ``kind`` is our word (node, pod, job), ``api_version`` and ``api_kind`` are
    Kubernetes'.

    ``uid`` guards against a later object of the same name; absent for a node, which keeps its name.
    """

    kind: str
    api_version: str
    api_kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None

    @property
    def ref(self) -> ObjectRef:
        """Return the reference by which the API server knows it."""
        return ObjectRef(self.api_version, self.api_kind, self.name, self.namespace, self.uid)

    def __str__(self) -> str:
        return str(self.ref)


def is_name(text: str) -> bool:
    """Tell whether Kubernetes allows it as the name of an object of these kinds: a DNS subdomain."""
    return _NAME.fullmatch(text) is not None


def node_target(node: str) -> Target | None:
    """Return the Node object; None for a name that no Kubernetes node can have."""
    return _valid(Target("node", "v1", "Node", node))


def pod_target(pod: Pod) -> Target | None:
    """Return the Pod object; None for what stands for a pod outside Kubernetes and has no namespace, and for
    a pod whose uid is not known: the object of that name may be a later one."""
    if pod.namespace is None or is_name_key(pod.uid):
        return None
    return placed_target(pod.namespace, pod.name, pod.object_uid or pod.uid)


def placed_target(namespace: str, name: str, uid: str) -> Target | None:
    """Return the Pod object that the scheduler places; None for names that no Kubernetes object can have."""
    return _valid(Target("pod", "v1", "Pod", name, namespace, uid))


def job_target(job: JobRef, namespace: str | None) -> Target | None:
    """Return the object that owns the pods, of whichever kind; None outside Kubernetes, where its uid is not
    known, and for a pod that is its own job."""
    if namespace is None or is_name_key(job.uid) or job.kind == "Pod":
        return None
    return _valid(Target("job", job.api_version, job.kind, job.name, namespace, job.uid))


def _valid(target: Target) -> Target | None:
    names = (target.name,) if target.namespace is None else (target.name, target.namespace)
    good = all(map(is_name, names)) and _API_VERSION.fullmatch(target.api_version)
    return target if good else None

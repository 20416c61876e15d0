"""Tells whose log it is, by the file ``podInfo`` beside it: ``podname:bert-0``, ``namespace:team``. Pure."""

from dataclasses import dataclass

POD_FILE = "podInfo"
_UID = ("uid", "pod_uid", "poduid")


@dataclass(frozen=True, slots=True)
class PodName:
    """Names a pod by its names; ``uid`` where the file has it."""

    namespace: str
    pod: str
    uid: str | None = None


def pod_name(text: str) -> PodName | None:
    """Return the pod that a file names; None where it names none."""
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip().lower(): value.strip() for key, _, value in pairs}
    pod, namespace = fields.get("podname") or fields.get("pod_name"), fields.get("namespace")
    if not pod or not namespace:
        return None
    return PodName(namespace, pod, next((fields[key] for key in _UID if fields.get(key)), None))

"""Pods and jobs as the API server shows them, by what their status says."""

from typing import Any

Json = dict[str, Any]


def pod(
    phase: str = "Pending", *, node: str | None = "gpu-a", state: Json | None = None, name: str = "p",
    deleted: bool = False, **status: Any,
) -> Json:  # fmt: skip
    containers = [{"name": "main", "image": "train:1", "restartCount": 3, "state": state}] if state else []
    meta = {
        "name": name,
        "uid": f"u-{name}",
        "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
    }
    return {
        "kind": "Pod", "metadata": meta, "spec": {"nodeName": node},
        "status": {"phase": phase, "containerStatuses": containers} | status,
    }  # fmt: skip


def waiting(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, at: str = "2026-01-01T00:00:09Z", reason: str = "Error") -> Json:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}


def job(*conditions: tuple[str, str], **status: Any) -> Json:
    found = [{"type": name, "status": "True", "reason": reason} for name, reason in conditions]
    return {"kind": "Job", "metadata": {}, "status": {"conditions": found} | status}

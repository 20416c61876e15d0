"""Samples as the Prometheus collector sees them, for its tests."""

from collectors.base import Tick
from collectors.prometheus.series import NewSample, ScrapedSeries

UID = "11111111-2222-3333-4444-555555555555"
OTHER_UID = "99999999-2222-3333-4444-555555555555"
CID = "c" * 64
SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
IN_POD = {
    "id": f"{SLICE}/cri-containerd-{CID}.scope",
    "namespace": "team",
    "pod": "bert-0",
    "container": "main",
}
SANDBOX = {"id": f"{SLICE}/cri-containerd-{'5' * 64}.scope", "namespace": "team", "pod": "bert-0"}
TICK = Tick(node="me", collector="c", seq=7, ts_ms=1, interval_ms=1000, monotonic_s=0)


def sample(
    name: str, value: float, per_s: float | None = None, ts_ms: int = 1000, /, **labels: str
) -> NewSample:
    return NewSample({"__name__": name, **labels}, ts_ms, value, 15_000 if per_s is not None else None, per_s)


def dcgm(name: str, value: float, /, **labels: str) -> NewSample:
    return sample(
        f"DCGM_FI_{name}", value, **({"gpu": "0", "UUID": "GPU-1", "modelName": "NVIDIA H200"} | labels)
    )


def pod_info(name: str, uid: str, **labels: str) -> ScrapedSeries:
    return ScrapedSeries(
        {"__name__": "kube_pod_info", "namespace": "team", "pod": name, "uid": uid, **labels}, ()
    )

"""Three hours that a Prometheus kept of two nodes, as OpenMetrics text, with what goes wrong in any history.

``gpu-a`` has one GPU, scraped by two replicas every 15 s, the second 7 s later; the first missed ten minutes.
Its pod ``team/bert-0`` of a Job works in a cycle of two minutes and ends after two hours; its CPU counter is
reset once. ``gpu-b`` has a free GPU whose exporter was away for forty minutes, and whose energy counter
was reset.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.support.fakes.exporter_pages import CID, UID

HOUR_S, SCRAPE_S, CYCLE_S = 3600, 15, 120
HOURS = 3
POD_ENDS_S = 2 * HOUR_S
REPLICA_MISSED_S = range(HOUR_S, HOUR_S + 600)
B_AWAY_S = range(HOUR_S, HOUR_S + 2400)
B_RESET_S = 2 * HOUR_S
CPU_RESET_S = 1800
Sample = tuple[str, Mapping[str, str], float, float]
_POD = {"namespace": "team", "pod": "bert-0"}
_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"


def utilization(second: int) -> int:
    """Of the pod's GPU."""
    return 95 if second % CYCLE_S < CYCLE_S // 2 else 5


def history(start_s: int, hours: float = HOURS) -> str:
    """All of it, from ``start_s`` on."""
    lines: dict[tuple[str, str], list[str]] = defaultdict(list)
    for second in range(0, int(hours * HOUR_S), SCRAPE_S):
        for name, labels, value, at_s in _scraped(second):
            shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
            lines[name, shown].append(f"{name}{{{shown}}} {value} {start_s + at_s:.3f}\n")
    return "".join("".join(lines[key]) for key in sorted(lines)) + "# EOF\n"


def _scraped(second: int) -> Iterator[Sample]:
    is_there = second < POD_ENDS_S
    for replica, late_s in (("p-0", 0), ("p-1", 7)):
        if replica == "p-1" or second not in REPLICA_MISSED_S:
            labels = _gpu("gpu-a") | {"prometheus_replica": replica} | (_POD if is_there else {})
            util = utilization(second + late_s) if is_there else 0
            yield from _dcgm(labels, util, second + late_s, 300 * second)
    if second not in B_AWAY_S:
        energy_j = 100 * (second if second < B_RESET_S else second - B_RESET_S)
        yield from _dcgm(_gpu("gpu-b"), 0, second + 3, energy_j)
    if is_there:
        yield from _cadvisor(second)
    yield from _kube(second, is_there)


def _gpu(node: str) -> dict[str, str]:
    return {"gpu": "0", "UUID": f"GPU-{node}", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": node}


def _dcgm(labels: Mapping[str, str], util: float, at_s: float, energy_j: float) -> Iterator[Sample]:
    values = {
        "DCGM_FI_DEV_GPU_UTIL": util, "DCGM_FI_DEV_FB_USED": 4096, "DCGM_FI_DEV_FB_FREE": 36_864,
        "DCGM_FI_DEV_POWER_USAGE": 60 + 3 * util, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy_j * 1000,
    }  # fmt: skip
    for name, value in values.items():
        yield name, labels, value, at_s


def _cadvisor(second: int) -> Iterator[Sample]:
    """With times of its own, as the kubelet gives them."""
    labels = _POD | {"container": "main", "id": f"{_SLICE}/cri-containerd-{CID}.scope", "node": "gpu-a"}
    cpu_s = 1.5 * (second if second < CPU_RESET_S else second - CPU_RESET_S)
    at_s = second + 1 + second % 4 / 2
    yield "container_cpu_usage_seconds_total", labels | {"cpu": "total"}, cpu_s, at_s
    yield "container_memory_working_set_bytes", labels, 5e9, at_s


def _kube(second: int, is_there: bool) -> Iterator[Sample]:
    if second % 60 or second > POD_ENDS_S + 600:
        return
    pod, at_s = _POD | {"uid": UID}, second + 5
    yield (
        "kube_pod_info",
        pod | {"node": "gpu-a", "created_by_kind": "Job", "created_by_name": "bert"},
        1,
        at_s,
    )
    for phase in ("Running", "Succeeded"):
        yield "kube_pod_status_phase", pod | {"phase": phase}, int(is_there == (phase == "Running")), at_s
    main = pod | {"container": "main"}
    yield "kube_pod_container_info", main, 1, at_s
    yield "kube_pod_container_resource_requests", main | {"resource": "nvidia_com_gpu"}, 1, at_s

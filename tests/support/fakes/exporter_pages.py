"""Pages of metrics in the form that dcgm-exporter, a kubelet's cAdvisor and kube-state-metrics serve."""

from collections.abc import Mapping

from dutycycle.contract.catalogue import MIB

UID = "11111111-2222-3333-4444-555555555555"
CID = "c" * 64
_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
_WORKER = {"namespace": "team", "pod": "bert-0", "container": "main"}


def line(name: str, labels: Mapping[str, str], value: float, ts_ms: int | None = None) -> str:
    """One sample in the text format; kubelets give the time as well."""
    shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{shown}}} {value}" + (f" {ts_ms}\n" if ts_ms is not None else "\n")


def dcgm(
    node: str,
    *,
    util_pct: float,
    used_bytes: int,
    energy_j: float,
    index: int = 0,
    given_to: Mapping[str, str] = _WORKER,
    xid: int = 0,
) -> str:
    """One GPU of a node as dcgm-exporter shows it, given to a container, by default of ``team/bert-0``."""
    labels = {
        "gpu": str(index), "UUID": f"GPU-{node}-{index}", "device": f"nvidia{index}",
        "modelName": "NVIDIA H200", "Hostname": node, **given_to,
    }  # fmt: skip
    values = {
        "DCGM_FI_DEV_GPU_UTIL": util_pct,
        "DCGM_FI_DEV_MEM_COPY_UTIL": 41,
        "DCGM_FI_DEV_FB_USED": used_bytes // MIB,
        "DCGM_FI_DEV_FB_FREE": (143_000 * MIB - used_bytes) // MIB,
        "DCGM_FI_DEV_POWER_USAGE": 612.3,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": energy_j * 1000,
        "DCGM_FI_DEV_GPU_TEMP": 61,
        "DCGM_FI_DEV_SM_CLOCK": 1980,
        "DCGM_FI_DEV_MEM_CLOCK": 3201,
        "DCGM_FI_DEV_XID_ERRORS": xid,
    }
    return "".join(line(name, labels, value) for name, value in values.items())


OLD_FIELDS = {
    "dcgm_sm_clock": ("SM clock frequency (in MHz).", 135),
    "dcgm_memory_clock": ("Memory clock frequency (in MHz).", 405),
    "dcgm_gpu_temp": ("GPU temperature (in C).", 34),
    "dcgm_power_usage": ("Power draw (in W).", 31.737),
    "dcgm_total_energy_consumption": ("Total energy consumption since boot (in mJ).", 7.824041e06),
    "dcgm_gpu_utilization": ("GPU utilization (in %).", 88),
    "dcgm_mem_copy_utilization": ("Memory utilization (in %).", 12),
    "dcgm_fb_free": ("Framebuffer memory free (in MiB).", 16_000),
    "dcgm_fb_used": ("Framebuffer memory used (in MiB).", 160),
    "dcgm_xid_errors": ("Value of the last XID error encountered.", 0),
}


def old_dcgm() -> str:
    """The page of an exporter of version 1, which names no host, with the GPU given to ``team/bert-0``."""
    labels = {
        "gpu": "0", "uuid": "GPU-8f640a3c-7e9a-608d-02a3-f4372d72b323",
        "pod_name": "bert-0", "pod_namespace": "team", "container_name": "main",
    }  # fmt: skip
    return "".join(
        f"# HELP {name} {text}\n# TYPE {name} gauge\n" + line(name, labels, value)
        for name, (text, value) in OLD_FIELDS.items()
    )


def cadvisor(node: str, *, cpu_s: float, ts_ms: int) -> str:
    """One pod and the node's root cgroup as the kubelet shows them, with the times of their measuring."""
    inside = {"id": f"{_SLICE}/cri-containerd-{CID}.scope", "name": CID, "image": "bert:1", **_WORKER}
    sandbox = inside | {"id": f"{_SLICE}/cri-containerd-{'5' * 64}.scope", "container": "", "name": "5" * 64}
    root = {"id": "/", "container": "", "pod": "", "namespace": "", "name": "", "image": ""}
    eth0 = {"interface": "eth0"}
    samples = [
        ("container_cpu_usage_seconds_total", inside | {"cpu": "total"}, cpu_s),
        ("container_memory_working_set_bytes", inside, 5000),
        ("container_spec_memory_limit_bytes", inside, 8000),
        ("container_fs_reads_bytes_total", inside | {"device": "/dev/sda"}, cpu_s * 100),
        ("container_network_receive_bytes_total", sandbox | eth0, cpu_s * 10),
        ("container_network_transmit_bytes_total", sandbox | eth0, cpu_s * 20),
        ("container_cpu_usage_seconds_total", root | {"cpu": "total"}, cpu_s * 2),
        ("container_memory_working_set_bytes", root, 70_000),
    ]
    machine = line("machine_cpu_cores", {}, 64) + line("machine_memory_bytes", {}, 100_000)
    own = {"node": node}
    return machine.replace("{}", f'{{node="{node}"}}') + "".join(
        line(name, labels | own, value, ts_ms) for name, labels, value in samples
    )


def pod_info(name: str, uid: str) -> str:
    """One pod as kube-state-metrics shows it."""
    labels = {"namespace": "team", "pod": name, "uid": uid, "node": "gpu-b", "host_network": "false"}
    return line("kube_pod_info", labels, 1)


def pod_state(name: str, uid: str, phase: str, started_s: int) -> str:
    """What else kube-state-metrics shows of it: phase, start, and the requests of its one container."""
    pod = {"namespace": "team", "pod": name, "uid": uid}
    main = pod | {"container": "main"}
    phases = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
    amounts = {("nvidia_com_gpu", "integer"): 1, ("cpu", "core"): 4, ("memory", "byte"): 2**30}
    return (
        line("kube_pod_container_info", main | {"image": "bert:1", "container_id": f"containerd://{CID}"}, 1)
        + line("kube_pod_start_time", pod, started_s)
        + "".join(line("kube_pod_status_phase", pod | {"phase": one}, int(one == phase)) for one in phases)
        + "".join(
            line(
                "kube_pod_container_resource_requests",
                main | {"resource": resource, "unit": unit, "node": "gpu-b"},
                value,
            )
            for (resource, unit), value in amounts.items()
        )
    )

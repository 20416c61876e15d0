"""What each field means, for the tables of the contract: by record and field, or by field for all records."""

COMMON = {
    "v": "the record's version: 1",
    "node": "the node's name",
    "collector": "new at each start of a collector",
    "seq": "counts the ticks of one `collector`, from 0",
    "ts_ms": "the moment that was measured",
    "interval_ms": "the configured time between two ticks; of a scraped source, the measured one",
    "uuid": "the driver's identifier of the device",
    "subject": "what the record is about",
    "source": "nvml or cgroup: the samples that it is computed from",
    "first_ms": "the time of the first tick that counts",
    "last_ms": "the time of the last tick that counts",
    "samples": "the number of ticks that count",
    "final": "`true` when it will not change any more, because the pod or job has ended",
    "namespace": "the Kubernetes namespace; outside Kubernetes, the runtime (docker, systemd, …)",
    "mem_used_bytes": "memory in use",
    "mem_total_bytes": "memory in total",
    "gpu_util_pct": "share of the time in which a kernel ran",
    "mem_copy_util_pct": "share of the time in which the memory controller was busy; not memory in use",
    "net_rx_bytes_per_s": "received from the network",
    "net_tx_bytes_per_s": "sent to the network",
    "cpu_util_pct": "CPU time; 100 is one core",
    "max": "the largest value",
    "mean": "the mean over all samples; of a pod's or job's GPU utilization, of all its GPUs",
    "at_ms": "when the maximum was measured",
    "confidence": "the probability that it is right, 0 to 1",
    "period_s": "the length of one cycle",
}
"""For a field of this name in any record that has no text of its own below."""

OWN = {
    "NvmlSample": {"gpus": "every GPU that could be read"},
    "Gpu": {
        "index": "the driver's index of the GPU on this node",
        "model": "the product's name",
        "power_w": "power draw now",
        "power_limit_w": "the enforced power limit",
        "energy_j": "energy since the driver was loaded; it never decreases",
        "temp_c": "temperature of the chip",
        "sm_clock_mhz": "clock of the multiprocessors",
        "mem_clock_mhz": "clock of the memory",
        "pcie_rx_bytes_per_s": "received over PCIe",
        "pcie_tx_bytes_per_s": "sent over PCIe",
        "pcie_gen": "generation of the link",
        "pcie_width": "lanes of the link",
        "throttle": "the reasons why the clocks are reduced, by name; empty if there are none",
        "util_burst": "the driver's own samples since the last tick: `[milliseconds from ts_ms, %]`",
        "power_burst": "the same for power, in watts",
        "mig": "slices, where the GPU is partitioned",
        "processes": "processes that use it; `pid` 0 means that the source does not know the processes",
        "allocated": "containers to which the kubelet allocated it; empty for none, absent for unknown",
    },
    "Allocation": {
        "pod_uid": "the pod, as `uid` in `pods`; absent while only its name is known",
        "pod": "the pod's name",
        "container": "the container's name in the pod",
        "mig": "the allocated slice, if it is not the whole GPU",
        "shared": "`true` if the same device may be allocated to others too (time slicing, MPS)",
    },
    "MigDevice": {
        "profile": "the slice's size, as NVIDIA names it",
        "gpu_util_pct": "utilization of the slice; absent before Hopper",
    },
    "GpuProcess": {
        "pid": "the process id on the host",
        "pod_uid": "the pod that it runs in; absent if that is not known",
        "container_id": "the container that it runs in",
        "name": "the program's name",
    },
    "CgroupSample": {
        "host": "the node itself",
        "pods": "every pod; with `DUTYCYCLE_CONTAINERS` other containers and units too",
    },
    "Host": {
        "cpu_count": "CPUs that are online",
        "mem_used_bytes": "total memory minus available memory",
        "disk_read_bytes_per_s": "read from disks; each byte counts once, not again for its partition",
        "disk_write_bytes_per_s": "written to disks; each byte counts once",
    },
    "PodCgroup": {
        "uid": "the pod's uid, as in the name of its cgroup",
        "qos": "guaranteed, burstable or besteffort",
        "net_rx_bytes_per_s": "received; absent for a pod on the host's network",
        "net_tx_bytes_per_s": "sent; absent for a pod on the host's network",
        "containers": "its containers",
    },
    "Container": {
        "id": "the runtime's id",
        "cpu_throttled_pct": "share of scheduler periods in which its CPU limit throttled it",
        "mem_used_bytes": "the working set",
        "mem_limit_bytes": "absent without a limit",
        "io_read_bytes_per_s": "read from disks",
        "io_write_bytes_per_s": "written to disks",
    },
    "Pod": {
        "uid": "the pod's uid; a static pod has a second record under its manifest's hash; where nothing "
        "tells the uid, `name:<namespace>/<pod>`",
        "name": "the pod's name; outside Kubernetes the container's or unit's",
        "phase": "the phase in Kubernetes: Pending, Running, Succeeded, Failed, Unknown",
        "created_ms": "when it was created",
        "started_ms": "when its node accepted it",
        "finished_ms": "when it ended, or was found to be gone",
        "images": "images of its containers, in their order",
        "gpu_uuids": "GPUs that its environment or its annotations name",
        "gpu_request": "GPUs, slices or shares that it requests; 0 for none",
        "cpu_request": "CPUs (cores) that the containers that run together request; absent if not set",
        "cpu_limit": "CPUs (cores) that it can use at most; absent where one of its containers has no limit",
        "mem_request_bytes": "host memory that it requests, counted like cpu_request",
        "job": "the job that it belongs to: the topmost owner that could be read",
        "labels": "those of its labels that `DUTYCYCLE_POD_LABELS` names",
    },
    "JobRef": {
        "api_version": "API version of the owner; `unknown` where only its kind is known",
        "kind": "kind of the owner: MPIJob, PyTorchJob, JobSet, Deployment, …",
        "name": "name of the owner",
        "uid": "uid of the owner; where nothing tells it, `name:<namespace>/<kind>/<name>`",
        "role": "the pod's role: worker, launcher, …; from the labels of the job operator",
        "replica": "the pod's index within its role",
    },
    "Subject": {
        "kind": "gpu, node, pod or job",
        "gpu": "the GPU's or slice's uuid",
        "pod_uid": "the pod's uid",
        "job_uid": "the job's uid",
    },
    "WindowAggregate": {
        "size_ms": "the window's length",
        "start_ms": "its start, inclusive",
        "end_ms": "its end, exclusive",
        "metrics": "what was measured, by metric",
    },
    "WindowMetric": {
        "count": "the number of values in the window",
        "std": "the standard deviation of the values (of the population)",
        "min": "the smallest value",
        "p50": "the median; percentiles interpolate linearly",
        "p95": "the 95th percentile",
        "p99": "the 99th percentile",
        "increase": "by how much a cumulative counter grew",
    },
    "Trend": {
        "ts_ms": "the moment of all its figures",
        "metrics": "the trends, by metric",
    },
    "TrendMetric": {
        "level": "the smoothed value now",
        "slope_per_s": "its trend, per second: 0 unless it climbs or falls in all of the last minutes, "
        "with what repeats taken out",
        "forecast": "the forecasts, the nearest first: 10, 30 and 300 s ahead; absent are those for which "
        "the series is too young",
        "exhausts_in_s": "time until memory is full; absent while it is not running out",
    },
    "Insight": {
        "ts_ms": "the end of the time that it was computed from",
        "since_ms": "since when it has this kind",
        "kind": "training, inference, loading, idle, interactive; unknown if the behaviour does not show it",
        "bottleneck": "gpu, memory_bandwidth, input, communication, power, heat, imbalance, idle, "
        "over_provisioned; none, or unknown",
        "bottleneck_confidence": "the probability that the bottleneck is right, 0 to 1",
        "evidence": "the figures of the last minutes that it is based on; each name ends with its unit",
        "advice": "what to do about it, for a person",
    },
    "Forecast": {
        "horizon_s": "the time after `ts_ms`",
        "value": "the expected value",
        "p05": "the lower end of the interval: 5 % are expected below",
        "p95": "the upper end of the interval: 5 % are expected above",
    },
    "Cycle": {
        "ts_ms": "when a cycle of one of its metrics was found, changed or lost",
        "metrics": "the cycles, by metric",
    },
    "CycleMetric": {
        "cyclic": "whether there is a cycle",
        "since_ms": "the start of the oldest period of the cycle that still lasts; absent without a cycle",
        "others": "further cycles of the same metric, such as training steps between checkpoints",
    },
    "PodPeaks": {
        "pod": "the pod, as on `pods`",
        "metrics": "peaks by metric",
        "gpus": "peaks by metric of each GPU, by `<node>/<index>`",
        "processes": "peaks by metric of each process, by `<node>/<index>/<pid>`; the 64 that needed most",
        "processes_omitted": "further processes that are left out; the other figures include them",
        "attribution": "where the figures of `gpus` come from, by `<node>/<index>`: `measured` (from its own "
        "processes), `allocated` (of the device, allocated to it only), `unknown` (no figure, not idle)",
    },
    "JobPeaks": {
        "job": "the job; without `role` and `replica`, which belong to a pod",
        "metrics": "peaks by metric: the largest of any one pod",
        "pods": "each pod, by its name",
        "gpus_omitted": "the number of pods whose GPUs are left out to keep the record below 1 MB",
        "pods_omitted": "the number of pods that are left out: above 2,000 pods those that ended first, "
        "above 1 MB the last by name",
    },
    "PodOfJob": {
        "metrics": "peaks by metric",
        "gpus": "peaks by metric of each GPU, by `<node>/<index>`",
        "attribution": "as in `pod-peaks`",
    },
    "DeadLetter": {
        "topic": "the full name of the topic of the bad record",
        "partition": "its partition",
        "offset": "its offset",
        "ts_ms": "its Kafka timestamp",
        "reason": "one of the reasons below",
        "error": "what is wrong, naming the field",
        "payload_b64": "its first 64 KiB, in base64",
    },
}
"""By record and field."""


def meaning(record: str, field: str) -> str:
    """The text for one field; raises ``KeyError`` for one that has none."""
    return OWN.get(record, {}).get(field) or COMMON[field]

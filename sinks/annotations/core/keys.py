"""Names the keys of our annotations on nodes, pods and jobs, and what Kubernetes allows. Pure.

A key is ``<prefix>/<name>``. The API server wants a name of at most 63 characters.
"""

import hashlib
import re

from dutycycle.contract.catalogue import POD_ANNOTATIONS

GPU_STATIC = "gpu-static"
GPU_UTIL = "gpu_util"
GPU_MEM_UTIL = "gpu_mem_util"
GPU_ATTRIBUTION = "gpu_attribution"
KIND = "kind"
BOTTLENECK = "bottleneck"
ADVICE = "advice"
ANOMALY = "anomaly"
PROFILE_BOTTLENECK = "profile_bottleneck"
PROFILE_ADVICE = "profile_advice"
PLACEMENT = "placement"
"""Of a pod: what the extender said of its nodes. It stays."""
UPDATED = "updated"
GPU_COUNT = "gpu_count"
GPU_HEALTH, GPU_HEALTH_REASON = "gpu_health", "gpu_health_reason"
GPU_UNTOUCHED = "gpu_untouched_h"
"""Of a pod: GPU-hours in which it held GPUs and no process of its was on them."""
GPU_UTIL_MAX = "gpu_util_max"
GPU_UTIL_MEAN = "gpu_util_mean"
GPU_UTIL_P95 = "gpu_util_p95"
GPU_MEM_MAX = "gpu_mem_max_mb"
CPU_UTIL_P95 = "cpu_util_p95"
"""Of a pod and a job, and within what a job says of a pod."""
CYCLE_PERIOD = "cycle_period_s"
CYCLE_CONFIDENCE = "cycle_confidence"
CYCLE_SOURCE, CYCLE_STEPS = "cycle_source", "cycle_steps"
STEPS_PER_S, SAMPLES_PER_S = "steps_per_s", "samples_per_s"
"""Of a training that reports its steps."""
MEM_FULL = "mem_full_at"
GPU_MEM_FULL = "gpu_mem_full_at"
LEVEL_FORECAST = "level_forecast"
PRIORITY = "priority"
"""On a pod that the webhook gave its priority: why it has it. It stays."""
TRIAL_BEST, TRIAL_FIGURES = "trial_best", "trial_figures"
"""On a job of which trials ran: the best, and the figures of each. They stay."""
PODS_OMITTED = "pods_omitted"
"""On a job: how many pods have no key of their own. No pod can have this name, because of the underscore."""
PODS_SUMMARY = "pods_summary"
"""On a job where pods are omitted: the maxima over all pods."""
PODS_NOW, GPUS_NOW, PODS_EVER, GPUS_EVER = "pods_now", "gpus_now", "pods_ever", "gpus_ever"
"""On a job: how many pods it has that have not ended, and how many it ever had; the GPUs that these used."""
EARLIER_REVISIONS = "earlier_revisions"
"""On an owner that does not end: the maxima of its revisions or runs before the current one."""
MOST_PODS = 256
"""Of one job that have a key of their own: those that needed the most."""
_JOB_NAMES = frozenset({
    PODS_OMITTED, PODS_SUMMARY, PODS_NOW, GPUS_NOW, PODS_EVER, GPUS_EVER, EARLIER_REVISIONS,
})  # fmt: skip

INSIGHT_NAMES = frozenset({KIND, BOTTLENECK, ADVICE, ANOMALY})
"""Of a pod and a job. Their records come when they change, so a worker that has just started does not know
them yet, and keeps what is on the object. A pod that has such a name gets another key on its job."""
PROFILE_NAMES = frozenset({PROFILE_BOTTLENECK, PROFILE_ADVICE})
"""Of a pod and a job that somebody has profiled. They stay."""
STATE_NAMES = frozenset({
    CYCLE_PERIOD, CYCLE_CONFIDENCE, CYCLE_SOURCE, CYCLE_STEPS, STEPS_PER_S, SAMPLES_PER_S, MEM_FULL,
    GPU_MEM_FULL, LEVEL_FORECAST,
})  # fmt: skip
"""They come and go with the insight. No pod can have such a name, because of the underscore."""
_PLAIN = frozenset({GPU_UNTOUCHED, GPU_UTIL_MAX, GPU_UTIL_MEAN, GPU_UTIL_P95, GPU_MEM_MAX, CPU_UTIL_P95})
WRITTEN_WITH_OTHERS = STATE_NAMES | _PLAIN | {GPU_COUNT}
"""Plain values for ``kubectl get``. They are written with the others, and are no reason for a write, except a
cycle that is found or lost, and memory that begins or ceases to run out."""
_POD_NAMES = _PLAIN | frozenset({
    GPU_UTIL, GPU_MEM_UTIL, GPU_ATTRIBUTION, *POD_ANNOTATIONS, UPDATED,
})  # fmt: skip
LONGEST_NAME = 63
_HASH_CHARS = 8
_NODE_NAME = re.compile(rf"gpu-(?:static|\d+)|{GPU_COUNT}|{GPU_UTIL_MAX}|{GPU_HEALTH}|{GPU_HEALTH_REASON}")


def gpu_name(index: int) -> str:
    """Return the name for one GPU of a node."""
    return f"gpu-{index}"


def pod_key_name(pod: str) -> str:
    """Return the name, on a job, for one of its pods: the pod's own, or, past 63 characters, cut and made
    unique.

    Cut to 54 characters, a dash, and eight hexadecimal digits of the SHA-256 of the whole name; the value
    then says the whole name. The same is done with a name that the job's own insight has: ``kind-0b27c158``.
    """
    if len(pod) <= LONGEST_NAME and pod not in INSIGHT_NAMES:
        return pod
    digest = hashlib.sha256(pod.encode()).hexdigest()[:_HASH_CHARS]
    return f"{pod[: LONGEST_NAME - _HASH_CHARS - 1]}-{digest}"


def is_ours(kind: str, name: str) -> bool:
    """Tell whether a name without prefix, on a ``node``, ``pod`` or ``job``, is one that we may take away
    again.

    What a job says about a pod is kept when the pod is gone, so it is not among them.
    """
    if kind == "node":
        return _NODE_NAME.fullmatch(name) is not None
    return name in (_POD_NAMES if kind == "pod" else _JOB_NAMES)

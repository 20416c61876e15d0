"""Predicts what the pods of a job's file will need, from the peak records of those that were like them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.units import GIB
from dutycycle.kube.resources import request
from dutycycle.schedule.pod_specs import AskedPod
from sinks.scheduling.core.prediction import Prediction, predict
from sinks.scheduling.pods import similar_pods_of, template_of_pod

_MIG = (("1g.10gb", 10), ("2g.20gb", 20), ("3g.40gb", 40), ("7g.80gb", 80))
"""Profiles of GPUs with 80 GB, and their memory in GB."""
_SAFE = 1.1


def prediction_of(pod: AskedPod, records: Iterable[PodPeaks], job: str | None = None) -> Prediction | None:
    """Predict from the records of pods that have ended; None without similar pods among them. ``job``: the
    name of the object that makes the pod; None for a pod by itself."""
    owners = [] if job is None else [{"controller": True, "name": job}]
    meta = {"namespace": pod.namespace, "ownerReferences": owners}
    template = replace(template_of_pod({"metadata": meta, "spec": pod.spec}), gpus=pod.gpus)
    return predict(similar_pods_of(records).nearest(template))


def advice(pod: AskedPod, prediction: Prediction) -> Iterator[str]:
    """Yield what to ask for, a line each: what similar pods needed at most (of CPU for 95 % of their time)
    and a tenth more."""
    cores, memory = prediction.high("cpu_cores"), prediction.high("mem_bytes")
    if cores is not None:
        yield f"cpu: {max(ceil(cores * _SAFE * 10), 1) / 10:g}{_instead(request(pod.spec, 'cpu'), 1)}"
    if memory is not None:
        wanted = max(ceil(memory * _SAFE / GIB), 1)
        yield f"memory: {wanted}Gi{_instead(request(pod.spec, 'memory'), GIB)}"
    gpu_memory, use = prediction.high("gpu_mem_bytes"), prediction.high("gpu_util_pct")
    if pod.gpus is None:
        yield "GPUs: it asks for them by something that does not count them"
    elif not pod.gpus:
        yield "GPUs: it asks for none"
    elif use is not None and use < 1:
        yield f"GPUs: no similar pod used any; it asks for {pod.gpus:g}"
    else:
        yield f"GPUs: {pod.gpus:g}, as it asks for"
        if pod.gpus == 1 and gpu_memory is not None:
            fits = next((name for name, size in _MIG if gpu_memory * _SAFE <= size * 1e9), None)
            if fits:
                yield f"MIG: by its memory {fits} of a GPU with 80 GB is enough; its speed there is not known"


def _instead(asked: float | None, unit: float) -> str:
    return "" if asked is None else f" (it asks for {asked / unit:g})"

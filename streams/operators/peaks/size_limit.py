"""Fits a job's peaks into one message of Kafka, however many pods the job has. Pure.

A job of 1,000 pods with 8 GPUs each would make several MB at every commit. Past the bound the GPUs of all
its pods are left out; where that is not enough, the last pods by name. Both are counted in the record, with
those pods that the job no longer keeps one by one (``job_gone``). The figures of the job as a whole are of
all its pods either way, and each pod's own record has its GPUs.
"""

from dataclasses import replace

import orjson

from contract.codec import encode
from contract.records.derived import JobPeaks, PodOfJob

_LEAST_PEAK_BYTES = len('"m":{"max":0,"mean":0,"at_ms":0},')


def encode_within(peaks: JobPeaks, most_bytes: int) -> bytes:
    """The record, with as much of its pods as fits into ``most_bytes``."""
    if _least_bytes(peaks) <= most_bytes and len(text := encode(peaks)) <= most_bytes:
        return text
    pods = {name: replace(pod, gpus={}) for name, pod in peaks.pods.items()}
    omitted = (peaks.gpus_omitted or 0) + sum(bool(pod.gpus) for pod in peaks.pods.values())
    slim = replace(peaks, pods=pods, gpus_omitted=omitted or None)
    if _least_bytes(slim) <= most_bytes and len(text := encode(slim)) <= most_bytes:
        return text
    every = len(pods) + (peaks.pods_omitted or 0)
    few = _first_pods(replace(slim, pods_omitted=every), most_bytes)
    return encode(replace(slim, pods=few, pods_omitted=every - len(few)))


def _least_bytes(peaks: JobPeaks) -> int:
    """What the record takes at least: so one that is far too large is not encoded to find out."""
    scopes = (of for pod in peaks.pods.values() for of in (pod.metrics, *pod.gpus.values()))
    return _LEAST_PEAK_BYTES * sum(map(len, scopes))


def _first_pods(peaks: JobPeaks, most_bytes: int) -> dict[str, PodOfJob]:
    """The pods that fit, in the order of the record; ``peaks`` counts them all as left out."""
    left = most_bytes - len(encode(replace(peaks, pods={})))
    few = {}
    for name, pod in peaks.pods.items():
        left -= len(orjson.dumps(name)) + len(encode(pod)) + len(":,")
        if left < 0:
            break
        few[name] = pod
    return few

"""Tells the others what a profile of a pod says: on the topic ``profiles``, for the pod and for its job."""

import time

from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import job_subject, pod_subject
from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.producer import send_once
from dutycycle.kafka.reachability import answered_within, wait_for_broker
from dutycycle.report.profiled import Profile
from dutycycle.telemetry.events import Telemetry
from dutycycle.traces.extract import read_all
from dutycycle.traces.subject import subject_of


async def find_pod(name: str, settings: Settings, timeout_s: float) -> Pod:
    """Return the pod of that name or uid, as its collector has told; of several in a row the newest.

    A broker is waited for ``timeout_s``. Raises ``DutycycleError``.
    """
    await answered_within(timeout_s, settings, wait_for_broker(settings, Telemetry("profile")))
    known: dict[str, Pod] = {}
    for message in await read_all(settings, "pods", timeout_s):
        try:
            pod = None if message.value is None else decode(Pod, message.value, "pods")
        except DecodeError:  # the streams make a dead letter of it
            continue
        if pod is not None:
            known[pod.uid] = pod
    where = f"the topic {full_name(settings.topic_prefix, 'pods')} on {settings.broker}"
    pods = subject_of(known.values(), pod=name, where=where).pods
    return max(pods, key=lambda pod: pod.started_ms or pod.created_ms or 0)


async def publish(profile: Profile, pod: Pod, settings: Settings) -> None:
    """Publish it. Raises ``DutycycleError``, also for a profile that says nothing."""
    if not profile.whole or not profile.evidence:
        raise DutycycleError(f"nothing is published for pod {pod.name}: {profile.headline()}")
    subjects, now_ms = [pod_subject(pod.node, pod.uid)], time.time_ns() // 1_000_000
    if pod.job is not None and pod.job.uid != pod.uid:
        subjects.append(job_subject(pod.job.uid))
    records = []
    for subject in subjects:
        verdict = ProfileVerdict(
            subject=subject, pod=pod, ts_ms=now_ms, source=profile.source, product=profile.product,
            bottleneck=profile.finding.bottleneck, bottleneck_confidence=profile.finding.confidence,
            evidence=profile.evidence, advice=profile.advice,
        )  # fmt: skip
        key = subject.job_uid or subject.pod_uid or ""
        records.append(ProducerRecord("profiles", key, encode(verdict), now_ms))
    await send_once(settings, "profile", records)

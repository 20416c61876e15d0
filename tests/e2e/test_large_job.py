"""A job of 1,000 pods with 8 GPUs each, through Kafka, a stream worker and a sink: its record arrives.

As one message it would take 5 MB. What is left out of it is counted, and is in the records of its pods. What
the nodes' operators say of the pods is made here, since 8,000 GPUs take a worker of its own per core.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Engine, create_engine, exc, text

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import JobPeaks
from dutycycle.contract.records.parts import PodPart, Tally
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS
from sinks.records.query import job_peaks
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.kafka import make_topics, send, settings_of
from tests.support.processes.commands import dutycycle, environ, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until

PODS = 1_000
GPUS = 8
WAIT_S = 600.0
"""It takes some 10 s, and on a busy machine many times that."""
START_MS = 1_700_000_000_000
METRICS = (
    "gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes", "power_w", "temp_c", "sm_clock_mhz",
    "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s",
)  # fmt: skip
Sent = tuple[str, str, bytes]
"""Topic without prefix, key, payload."""


def worker(number: int) -> list[Sent]:
    """What is known of one pod: who it is, what it used on its GPUs, that it has ended."""
    job = JobRef(api_version="kubeflow.org/v1", kind="PyTorchJob", name="big", uid="job-big", replica=number)
    uid, node = f"uid-{number:04}", f"gpu-{number:04}"
    pod = Pod(
        uid=uid, namespace="ml", name=f"big-worker-{number}", node=node, phase="Succeeded", job=job,
        started_ms=START_MS,
    )  # fmt: skip
    figures = {
        metric: Tally(max=(number * 7 + i) % 101, at_ms=START_MS + number, sum=(number + i) / 3.0, count=60)
        for i, metric in enumerate(METRICS)
    }
    part = PodPart(
        uid=uid, source="nvml", node=node, opened_ms=START_MS, first_ms=START_MS, last_ms=START_MS + 59_000,
        samples=60, metrics=figures, gpus={f"{node}/{index}": figures for index in range(GPUS)},
    )  # fmt: skip
    return [("pods", uid, encode(pod)), ("pod-parts", uid, encode(part))]


def complete(engine: Engine) -> bool:
    """Whether the job is stored with all its pods, and final. Asked often, so without reading the record."""
    query = text("SELECT count(*) FROM job_peaks WHERE final AND pods = :pods")
    try:
        with engine.connect() as connection:
            return bool(connection.scalar(query, {"pods": PODS}))
    except exc.SQLAlchemyError:  # no table yet
        return False


def printed(env: dict[str, str], *arguments: str) -> list[dict[str, Any]]:
    """What ``dutycycle peaks`` says as JSON."""
    done = dutycycle("peaks", *arguments, "--format", "json", env=env)
    found: list[dict[str, Any]] = orjson.loads(done.stdout)
    return found


def test_a_job_of_a_thousand_pods_is_recorded_and_printed(
    kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    sent = [one for number in range(PODS) for one in worker(number)]
    pipeline = LocalPipeline(stages(load({})))
    for offset, (topic, key, payload) in enumerate(sent):
        pipeline.feed(ConsumerRecord(topic, 0, offset, key, payload, START_MS))
    last = [out for out in pipeline.close() if out.topic == "job-peaks"][-1]
    expected = decode(JobPeaks, last.value or b"", "job-peaks")
    assert (len(expected.pods), expected.gpus_omitted, expected.final) == (PODS, PODS, True)
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, records=postgres_url, annotations="off", partitions="2",
        session_timeout=kafka.session_timeout,
    )  # fmt: skip
    settings = settings_of(env)
    asyncio.run(make_topics(settings, [*SAMPLE_TOPICS, "pod-parts", "job-parts", "node-parts"]))
    asyncio.run(send(settings, sent, START_MS))
    engine = create_engine(postgres_url)
    began = time.monotonic()
    with (
        running("stream", env=env, log=tmp_path / "stream.log"),
        running("sink", env=env, log=tmp_path / "sink.log"),
    ):
        wait_until(lambda: complete(engine), (tmp_path / "stream.log").read_text, WAIT_S)
        arrived_s = time.monotonic() - began
    engine.dispose()
    assert job_peaks(postgres_url) == [expected]
    assert "record_too_large" not in (tmp_path / "stream.log").read_text()
    (job,) = printed(env, "--jobs", "--job", "big")
    assert (len(job["pods"]), job["gpus_omitted"], "pods_omitted" in job) == (PODS, PODS, False)
    assert job["metrics"]["gpu_util_pct"]["max"] == 100
    pods = printed(env, "--job", "big")
    assert len(pods) == PODS
    assert all(len(pod["gpus"]) == GPUS for pod in pods), "in the pods' own records nothing is missing"
    assert "big" in dutycycle("peaks", "--jobs", "--job", "big", env=env).stdout
    size = len(encode(expected))
    assert size <= TOPICS["job-peaks"].max_bytes
    tell(
        f"{PODS} pods of {GPUS} GPUs: {size:,} bytes, equal to the record made in process; {arrived_s:.0f} s"
    )

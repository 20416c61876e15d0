"""Annotations by the real process and the real Kafka, on a fake API server: the way there, not the server."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest_asyncio

from bus.topics import ensure_topics
from tests.e2e.commands import environ
from tests.e2e.test_sink import Published, _publish, settings_of
from tests.servers.kafka.broker import RunningBroker
from tests.sinks import made
from tests.sinks.fake_api import NODE, POD, FakeApi, Trouble, written
from tests.sinks.made import K80, cycle, sample, trend, window
from tests.sinks.rig import until
from wire.topics import TOPICS

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: "s3cret"}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
DEADLINE_S = 60


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    server.add(NODE, "n")
    server.add(POD, "uid-1", example__mine="kept")
    yield server
    await server.stop()


def environment(kafka: RunningBroker, prefix: str, api: FakeApi, folder: Path) -> dict[str, str]:
    """Of a sink that finds the fake by a kubeconfig."""
    config = folder / "kubeconfig"
    config.write_text(KUBECONFIG.format(port=api.port))
    env = environ(
        broker=kafka.url, topic_prefix=prefix, partitions="3", records=f"sqlite:///{folder}/records.db",
        annotation_interval="1s",
    )  # fmt: skip
    return {name: value for name, value in env.items() if name != "KUBERNETES_SERVICE_HOST"} | {
        "KUBECONFIG": str(config)
    }


def text_of(log: Path) -> str:
    return log.read_text()


@asynccontextmanager
async def sinking(env: dict[str, str], log: Path) -> AsyncIterator[None]:
    """``dutycycle sink``, ended by SIGTERM, which has to be in good order."""
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutycycle", "sink", env=env, stdout=out, stderr=out
        )
    try:
        yield
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 25) == 0, text_of(log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def of_gpu(topic: str, record: Any) -> Published:
    return topic, record.subject.key, record


async def test_nodes_and_pods_are_annotated_also_after_a_restart(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    env, log = environment(kafka, topic_prefix, api, tmp_path), tmp_path / "log"
    settings = settings_of(env)
    await ensure_topics(settings, [name for name in TOPICS if not TOPICS[name].internal])
    ticks: list[Published] = [
        ("nvml-samples", "gpu-a", sample(K80, ts_ms=1_700_000_000_000 + i * 1000)) for i in range(5)
    ]
    async with sinking(env, log):
        await _publish(
            settings,
            [
                *ticks,
                of_gpu("window-aggregates", window("gpu_util_pct", 100)),
                of_gpu("cycles", cycle(True, 13.24)),
                of_gpu("trends", trend(-0.4 / 3600)),
                ("cycles", "gpu/a/b", b"poison"),
                ("pod-peaks", "uid-1", made.pod_peaks()),
            ],
        )
        await until(lambda: "trend_pct_per_h" in written(api, NODE).get("gpu-1", {}), DEADLINE_S)
        await until(lambda: {"cyclic", "max_gpu_util"} <= written(api, NODE)["gpu-1"].keys(), DEADLINE_S)
        await until(lambda: written(api, POD), DEADLINE_S)
    before, already = written(api, NODE)["gpu-1"], len(api.seen)
    api.trouble.extend([Trouble(429, {"Retry-After": "1"}), Trouble(500)])
    async with sinking(env, log):
        final = made.pod_peaks(final=True, last_ms=20_000, metrics={"cpu_util_pct": made.peak(400)})
        later = sample(K80, ts_ms=1_700_000_100_000)
        await _publish(settings, [("nvml-samples", "gpu-a", later), ("pod-peaks", "uid-1", final)])
        await until(lambda: written(api, POD)["max_cpu_util"] == 400, DEADLINE_S)
        await until(lambda: ("GET", NODE) in api.seen[already:], DEADLINE_S)
    assert written(api, NODE)["gpu-1"] == before
    assert before["cyclic"] is True
    assert before["max_gpu_util"] == 100
    assert api.objects[POD]["annotations"]["example/mine"] == "kept"
    assert "s3cret" not in text_of(log)
    assert "Traceback" not in text_of(log)


async def test_a_second_worker_is_told_that_nodes_are_shared(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    env = environment(kafka, topic_prefix, api, tmp_path)
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    await ensure_topics(settings_of(env), [name for name in TOPICS if not TOPICS[name].internal])
    async with sinking(env, logs[0]):
        await _publish(settings_of(env), [("pod-peaks", "uid-1", made.pod_peaks())])
        await until(lambda: written(api, POD), DEADLINE_S)
        assert "shared_nodes" not in text_of(logs[0])
        async with sinking(env, logs[1]):
            await until(lambda: all("shared_nodes" in text_of(log) for log in logs), DEADLINE_S)
        await until(lambda: "over" in text_of(logs[0]), DEADLINE_S)

"""The sink on the real Kafka and the real API server, with a proxy between that makes trouble."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.topics import ensure_topics
from tests.e2e.test_sink import Published
from tests.support.faults.api_proxy import ApiProxy
from tests.support.faults.api_troubles import TROUBLES, played
from tests.support.kafka import settings_of
from tests.support.processes.sinking import DEADLINE_S, Worker, publish, sinking, worker
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.waiting import until

PODS = 24
SPEC = {"containers": [{"name": "main", "image": "example.org/train:1"}], "nodeName": "gpu-a"}


@pytest_asyncio.fixture
async def api(kube: Kube) -> AsyncIterator[ApiProxy]:
    proxy = ApiProxy(kube.admin.access)
    await proxy.start()
    yield proxy
    await proxy.stop()


def make_pods(kube: Kube, namespace: str) -> list[Object]:
    meta = {"namespace": namespace, "annotations": {"example.org/mine": "kept"}}
    return [
        kube.admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta | {"name": f"pod-{i}"}, "spec": SPEC}
        )
        for i in range(PODS)
    ]


def peaks(things: list[Object], cpu: float, *, final: bool = False) -> list[Published]:
    """Peaks of the pods, each with a figure that names it."""
    found: list[Published] = []
    for i, thing in enumerate(things):
        meta = thing["metadata"]
        record = made.pod_peaks(
            meta["uid"], {"name": meta["name"], "namespace": meta["namespace"]},
            metrics={"cpu_util_pct": made.peak(cpu + i)}, gpus={}, processes=None, final=final,
            last_ms=20_000 if final else 10_000,
        )  # fmt: skip
        found.append(("pod-peaks", meta["uid"], record))
    return found


def carry(kube: Kube, things: list[Object], cpu: float, updated: str) -> bool:
    """Whether every pod carries exactly that, and what it carried before."""
    return all(
        kube.admin.get(thing)["metadata"]["annotations"]
        == {
            "example.org/mine": "kept",
            "dutycycle.io/max_cpu_util": json.dumps(int(cpu + i)),
            "dutycycle.io/updated": updated,
        }
        for i, thing in enumerate(things)
    )


async def test_trouble_an_absence_and_a_kill_end_in_the_right_annotations(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, namespace: str, api: ApiProxy, tmp_path: Path
) -> None:
    things = make_pods(kube, namespace)
    one: Worker = worker(kafka, topic_prefix, api, tmp_path, kube.admin.access.token)
    await ensure_topics(settings_of(one.env), [name for name in TOPICS if not TOPICS[name].internal])
    async with sinking(one) as process:
        api.trouble.extend(played())
        await publish(one, peaks(things, 100))
        await until(lambda: carry(kube, things, 100, "1970-01-01T00:00:10Z"), DEADLINE_S)
        assert not api.trouble, "some of it was never played"
        kube.stop()
        await publish(one, peaks(things, 1000, final=True))
        await until(lambda: "sink_away" in one.said, DEADLINE_S)
        kube.start()
        await until(lambda: len(api.writers) >= PODS + 3, DEADLINE_S)
        process.kill()
        await process.wait()
    kube.admin.delete(things[-1])
    written = len(api.writers)
    async with sinking(one):
        await until(lambda: carry(kube, things[:-1], 1000, "1970-01-01T00:00:20Z"), DEADLINE_S)
    assert len(api.writers) - written <= PODS
    assert written <= 2 * PODS + len(TROUBLES)
    assert not kube.admin.exists(things[-1])
    assert "Traceback" not in one.said
    assert "dead_letter" not in one.said

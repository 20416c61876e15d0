"""Annotations by the real process and the real Kafka, on a fake API server: the way there, not the server."""

import asyncio
import itertools
from collections import Counter
from itertools import chain
from pathlib import Path

import orjson

from dutycycle.contract.topics import TOPICS, short_name
from sinks.annotations.core import desired
from tests.support.fakes.api_server import NODE, POD, FakeApi, Trouble, written
from tests.support.kafka import PUBLIC, Sent, make_topics, settings_of
from tests.support.processes.commands import begun, derived
from tests.support.processes.sinking import (
    START_MS,
    Worker,
    carries,
    found_about,
    node_path,
    publish,
    sinking,
    tick,
    worker,
)
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.sinks import made
from tests.support.sinks.made import K80, sample
from tests.support.waiting import DEADLINE_S, until

PART = made.node_part(cyclic=True, period_s=13.24, slope_per_s=-0.4 / 3600, maxima={"gpu_util_pct": 100.0})
NODES = [f"gpu-{i}" for i in range(12)]
FED = (*PUBLIC, "node-parts")


def add_node_and_pod(api: FakeApi) -> None:
    api.add(NODE, "n")
    api.add(POD, "uid-1", example__mine="kept")


async def test_nodes_and_pods_are_annotated_also_after_a_restart(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    add_node_and_pod(api)
    one = worker(kafka, topic_prefix, api, tmp_path, "s3cret")
    await make_topics(settings_of(one.env), FED)
    ticks: list[Sent] = [("nvml-samples", "gpu-a", sample(K80, ts_ms=START_MS + i * 1000)) for i in range(5)]
    async with sinking(one):
        await publish(
            one,
            [
                *ticks,
                ("node-parts", "gpu-a", PART),
                ("node-parts", "gpu-a", b"poison"),
                ("pod-peaks", "uid-1", made.pod_peaks()),
            ],
        )
        await until(lambda: "trend_pct_per_h" in written(api, NODE).get("gpu-1", {}))
        await until(lambda: {"cyclic", "max_gpu_util"} <= written(api, NODE)["gpu-1"].keys())
        await until(lambda: written(api, POD))
    before, already, peaks = written(api, NODE)["gpu-1"], len(api.seen), written(api, POD)
    api.trouble.extend([Trouble(429, {"Retry-After": "1"}), Trouble(500)])
    async with sinking(one):
        final = made.pod_peaks(final=True, last_ms=20_000, metrics={"cpu_util_pct": made.peak(400)})
        later = sample(K80, ts_ms=START_MS + 100_000)
        profile = ("profiles", "uid-1", made.profile("launch"))
        await publish(one, [("nvml-samples", "gpu-a", later), profile])
        await until(lambda: written(api, POD).get("profile_bottleneck") == "launch")
        assert written(api, POD).items() >= peaks.items(), "it takes nothing away"
        await publish(one, [("pod-peaks", "uid-1", final)])
        await until(lambda: written(api, POD)["max_cpu_util"] == 400)
        assert written(api, POD)["profile_bottleneck"] == "launch"
        await until(lambda: ("GET", NODE) in api.seen[already:])
    assert written(api, NODE)["gpu-1"] == before
    assert before["cyclic"] is True
    assert before["max_gpu_util"] == 100
    assert api.objects[POD]["annotations"]["example/mine"] == "kept"
    assert "s3cret" not in one.said.replace(str(tmp_path), "")
    assert "Traceback" not in one.said


SPOILT: list[tuple[bytes, str]] = [
    (b"\x00\xff no JSON", "decode"),
    (b"[1]", "decode"),
    (b"{}", "schema"),
    (b'{"v":99}', "version"),
    (b'{"v":1,"x":"' + b"x" * 900_000, "decode"),
]
"""What nobody can use, and the reason that its dead letter gives."""


async def test_poison_on_every_topic_that_annotations_are_made_of(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    add_node_and_pod(api)
    one = worker(kafka, topic_prefix, api, tmp_path)
    await make_topics(settings_of(one.env), TOPICS)
    keys = {
        "nvml-samples": "gpu-a", "node-parts": "gpu-a", "pod-peaks": "uid-1", "pod-insights": "uid-1",
        "job-peaks": "job-1", "job-insights": "job-1",
        "profiles": "uid-1", "placements": "uid-1", "gpu-health": "gpu-a",
    }  # fmt: skip
    assert keys.keys() == {*desired.TOPICS}
    spoilt: list[Sent] = [(topic, key, bad) for topic, key in keys.items() for bad, _ in SPOILT]
    async with sinking(one):
        await publish(
            one,
            [
                *spoilt,
                *(("nvml-samples", "gpu-a", sample(K80, ts_ms=START_MS + i * 1000)) for i in range(5)),
                ("node-parts", "gpu-a", PART),
                ("pod-peaks", "uid-1", made.pod_peaks()),
                ("pod-insights", "uid-1", made.insight("training", "input", "More loader processes.")),
            ],
        )
        good = {"cyclic", "max_gpu_util", "trend_pct_per_h"}
        await until(lambda: good <= written(api, NODE).get("gpu-1", {}).keys())
        await until(lambda: written(api, POD).get("kind") == "training")
        assert written(api, POD)["advice"] == "More loader processes."
        wanted = Counter((topic, reason) for topic in keys for _, reason in SPOILT)
        found: Counter[tuple[str, str]] = Counter()
        for _ in range(int(DEADLINE_S)):
            found = await letters(one)
            if found == wanted:
                break
            await asyncio.sleep(1)
        assert found == wanted
    assert "Traceback" not in one.said


async def letters(one: Worker) -> Counter[tuple[str, str]]:
    """How many dead letters there are of each topic and reason."""
    found = await derived(settings_of(one.env), ["dead-letters"])
    prefix = one.env["DUTYCYCLE_TOPIC_PREFIX"]
    plain = [orjson.loads(payload) for payloads in found.values() for payload in payloads]
    return Counter((short_name(prefix, p["topic"]) or "", p["reason"]) for p in plain)


async def test_nodes_are_whole_with_two_workers_while_one_joins_leaves_and_is_killed(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    """A node's samples and parts lie on two topics: one worker reads both of a node."""
    first, second, third = (
        worker(kafka, topic_prefix, api, tmp_path, name) for name in ("first", "second", "third")
    )
    await make_topics(settings_of(first.env), FED)
    nodes: list[list[str]] = []

    async def find() -> int:
        """Something is found about every GPU of new nodes: what changes again and again on one is damped."""
        step = len(nodes)
        nodes.append([f"{node}-{step}" for node in NODES])
        for node in nodes[step]:
            api.add(node_path(node), node)
        await publish(first, [found_about(node, step) for node in nodes[step]])
        return step

    async def tick_on() -> None:
        """The nodes' collectors, which never pause."""
        for second in itertools.count():
            await publish(first, [tick(node, START_MS + 1000 * second) for node in chain(*nodes)])
            await asyncio.sleep(1)

    def follow(step: int) -> bool:
        return all(carries(api, node, step) for node in nodes[step])

    async def all_follow() -> set[str]:
        """Who writes what is found onto the nodes, all of it onto each."""
        already, step = len(api.writers), await find()
        await until(lambda: follow(step))
        return {who for who, path in api.writers[already:] if path in map(node_path, nodes[step])}

    collectors = asyncio.create_task(tick_on())
    async with sinking(first):
        assert await all_follow() == {"first"}
        async with sinking(second):
            seen = [await all_follow()]
            while seen[-1] != {"first", "second"}:
                assert len(seen) < 40, f"the second worker writes nothing: {seen}"
                seen.append(await all_follow())
        assert await all_follow() == {"first"}
        async with begun("sink", env=third.env, log=third.log) as process:
            while "third" not in await all_follow():
                assert process.returncode is None
            step = await find()
        await until(lambda: follow(step))
        assert await all_follow() == {"first"}
    collectors.cancel()
    for one in (first, second, third):
        assert "Traceback" not in one.said

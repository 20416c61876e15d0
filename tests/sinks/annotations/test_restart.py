"""After a removal and a restart of the sink, everything comes back within a minute of samples."""

from bench.generators_jobs import pod
from dutycycle.contract.codec import decode
from dutycycle.contract.records.parts import PodInsight
from sinks.annotations.core.schedule import WritePolicy
from tests.streams.operators.workload.test_insights import STAGES, parts, run, sent
from tests.support.fakes.api_server import NODE, POD, FakeApi, written
from tests.support.sinks import made
from tests.support.sinks.annotating import annotating
from tests.support.sinks.made import K80, node_part, sample
from tests.support.sinks.queueless import QueuelessSink

SPANS_OF_A_MINUTE = 6
MAXIMA = {"gpu_util_pct": 90.0}


async def test_after_a_removal_a_new_sink_writes_all_of_it_again(api: FakeApi) -> None:
    api.add(NODE, "n")
    who = made.pod("uid-1", name="name-uid-1")
    path = POD.replace("pod-of-uid-1", "name-uid-1")
    api.add(path, "uid-1")
    async with annotating(api, policy=WritePolicy(interval_s=0.01)) as work:
        tick = sample(K80)
        part = node_part(cyclic=True, period_s=13.2, maxima=MAXIMA)
        await work.take(tick, part, made.pod_peaks("uid-1", {"name": who.name}))
        of = parts(pod("saturated", 2000), uid=who.uid, asks=who)
        operator = STAGES["insights"].build(who.uid, None)
        run(operator, of["pods"])
        spans = list(zip(of["nvml"], of["cgroup"], strict=True))
        for span in spans[: 5 * SPANS_OF_A_MINUTE]:
            run(operator, span)
        minute = [out for span in spans[30 : 30 + SPANS_OF_A_MINUTE] for out in run(operator, span)]
        assert sent(minute, "insights") == []
        for insight in [
            decode(PodInsight, one.value or b"", one.topic) for one in sent(minute, "pod-insights")
        ]:
            await work.take(insight)
        await work.written()
    of_node, of_pod = written(api, NODE)["gpu-1"], written(api, path)
    assert (of_node["cyclic"], of_node["period_s"], of_node["max_gpu_util"]) == (True, 13.2, 90)
    assert {"kind", "bottleneck", "gpu_util", "updated"} <= of_pod.keys()


async def test_a_node_that_is_registered_anew_under_its_name_gets_all_of_it_again(api: FakeApi) -> None:
    api.add(NODE, "n")
    server = api.client()
    sink = QueuelessSink(server, WritePolicy(interval_s=30))

    async def write(*seconds: int) -> None:
        for second in seconds:
            sink.take(sample(K80), second)
            await sink.write(second)

    await write(0)
    first = written(api, NODE)
    assert first["gpu-1"]
    api.seen.clear()
    await write(*range(30, 601, 30))
    assert api.seen == []
    api.add(NODE, "another")
    await write(630)
    assert written(api, NODE) == first
    await server.close()

"""The API server refuses some objects for good, and a hook hangs: every other object is exactly right.

The sink runs as a user runs it, on the real Kafka; the server is a fake that refuses over real HTTP. What
passes (errors, resets, an absence) is played before the real server: ``test_sink_api_real.py``.
"""

from pathlib import Path

from dutycycle.contract.records.pods import JobRef
from tests.support.fakes.api_server import FakeApi, Trouble, written
from tests.support.kafka import PUBLIC, make_topics, settings_of
from tests.support.processes.sinking import add_pods, kept, pod_path, pods, publish, sinking, worker
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.sinks import made
from tests.support.waiting import until

PODS = 24
DANCE = made.job_peaks(
    job=JobRef(api_version="example.org/v1", kind="Dance", name="d", uid="job-9"), final=True
)


async def test_an_object_that_is_refused_costs_itself_alone(
    kafka: RunningBroker, topic_prefix: str, api: FakeApi, tmp_path: Path
) -> None:
    """422, 403, a kind that is not installed, an object that is gone or replaced, and a hook that hangs."""
    add_pods(api, PODS)
    one = worker(kafka, topic_prefix, api, tmp_path)
    await make_topics(settings_of(one.env), PUBLIC)
    api.always = Trouble(422, path=pod_path(0), body='{"message":"a hook says no"}')
    del api.objects[pod_path(1)]
    api.add(pod_path(2), "uid-of-another")
    async with sinking(one):
        await publish(one, [*pods(PODS, 100, final=True), *[("job-peaks", "job-9", DANCE)] * 5])
        fine = range(3, PODS)
        await until(lambda: all(written(api, pod_path(i)) for i in fine))
        await until(lambda: "no_kind" in one.said and "write_rejected" in one.said)
        await until(lambda: len(kept(one.env)) == PODS)
    assert pod_path(1) not in api.objects
    assert written(api, pod_path(0)) == {}
    assert api.objects[pod_path(2)] == {"uid": "uid-of-another", "annotations": {}}
    assert all(written(api, pod_path(i))["max_cpu_util"] == 100 + i for i in fine)
    asked = [path for _, path in api.seen if "example.org" in path]
    assert len(asked) <= 2, "the kind that is not there is asked for again and again"
    assert "Traceback" not in one.said

"""The real API server is away, and the sink has figures that do not change: no health is made up."""

import asyncio
import logging

import pytest

from dutycycle.contract.log import TopicPartition
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from tests.support.kube.api_server import api_server
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.sinks.rig import Rig, at_work
from tests.support.waiting import until

pytestmark = pytest.mark.kube
OBJECTS, AWAY_S = 12, 5.0
SPEC = {"containers": [{"name": "c", "image": "i"}]}


async def test_until_it_answers_nobody_says_that_it_does(
    kube: Kube, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = [f"p{number}" for number in range(OBJECTS)]
    uids = [
        kube.admin.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": SPEC,
                "metadata": {"name": name, "namespace": namespace},
            }
        )["metadata"]["uid"]
        for name in names
    ]
    of_pods = [
        made.pod_peaks(uid, {"name": name, "namespace": namespace})
        for uid, name in zip(uids, names, strict=True)
    ]
    rig, server = Rig(), await api_server(kube.admin.kubeconfig)
    place = TopicPartition("pod-peaks", 0)
    try:
        sink = AnnotationSink(server, WritePolicy(interval_s=0.2), rig.letters, rig.telemetry)
        async with at_work(rig, sink) as work:
            for peaks in of_pods[1:]:
                await work.write(peaks)
            kube.stop()
            new = rig.origin("pod-peaks", of_pods[0], partition=1)
            await work.dispatcher.process([new])
            await until(lambda: rig.telemetry.conditions)
            end_s = asyncio.get_running_loop().time() + AWAY_S
            while asyncio.get_running_loop().time() < end_s:
                for peaks in of_pods[1:]:
                    await work.take(peaks)
                assert rig.telemetry.conditions, "a write with nothing to send proves nothing"
                await asyncio.sleep(0.3)
            await until(lambda: sink.pending_offsets().lowest(place) is None)
            assert " answers" not in caplog.text
            kube.start()
            await until(lambda: not rig.telemetry.conditions)
            assert caplog.text.count(" answers\n") == 1
    finally:
        kube.start()
        await server.close()

"""What a Deployment carries as its pods come and go: its current revision, on the real API server."""

from functools import partial

import pytest

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import JobPeaks
from dutycycle.contract.records.parts import JobPart, Tally
from dutycycle.contract.records.pods import JobRef
from dutycycle.kubectl.annotations import counts_of_job, earlier_revisions, of_job, of_whole_job, ours
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from streams.operators.peaks.job import JobOperator
from tests.support.kube.api_server import api_server
from tests.support.kube.contents import APP
from tests.support.kube.shipped import shipped_account
from tests.support.servers.kube.server import Kube
from tests.support.sinks.rig import Rig, at_work

pytestmark = pytest.mark.kube
START_MS = 1_700_000_000_000


def pod_of(
    namespace: str, job: JobRef, name: str, util: float, begin_s: int, *, gone: bool = False
) -> JobPart:
    begin_ms = START_MS + begin_s * 1000
    return JobPart(
        job=job, namespace=namespace, pod_uid=f"uid-of-{name}", pod_name=name, node="gpu-a",
        first_ms=begin_ms, last_ms=begin_ms + 1000 * (1 + gone), samples=1, final=gone, gone=gone,
        metrics={"gpu_util_pct": Tally(max=util, at_ms=begin_ms, sum=util, count=1)},
    )  # fmt: skip


async def test_after_a_rollout_it_carries_the_new_pods_and_what_the_old_ones_needed_beside_them(
    kube: Kube, namespace: str
) -> None:
    metadata = {"name": "web", "namespace": namespace, "annotations": {"others.io/a": "1"}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, **APP}
    web = {**web, "metadata": kube.admin.create(web)["metadata"]}
    uid = web["metadata"]["uid"]
    old, new = (
        JobRef(api_version="apps/v1", kind="Deployment", name="web", uid=uid, revision=revision)
        for revision in ("5d8f", "7c9b")
    )
    of_pod = partial(pod_of, namespace)
    operator, rig = JobOperator(uid), Rig()
    server = await api_server(shipped_account(kube, "sinks").kubeconfig)
    sink = AnnotationSink(server, WritePolicy(interval_s=1), rig.letters, rig.telemetry)

    def record(*parts: JobPart) -> JobPeaks:
        for offset, part in enumerate(parts):
            operator.update(ConsumerRecord("job-parts", 0, offset, uid, encode(part), part.last_ms))
        (out,) = operator.flush()
        return decode(JobPeaks, out.value or b"", "job-peaks")  # type: ignore[union-attr]

    try:
        async with at_work(rig, sink) as work:
            # An autoscaler made ten pods and ended six: four are there.
            first = [of_pod(old, f"web-5d8f-{n}", 90 - n, n) for n in range(10)]
            await work.write(record(*first))
            gone = [of_pod(old, f"web-5d8f-{n}", 90 - n, n, gone=True) for n in range(6)]
            await work.write(record(*gone))
            carried = ours(kube.admin.get(web)["metadata"]["annotations"], "dutycycle.io")
            assert [pod.pod for pod in of_job(carried)] == [f"web-5d8f-{n}" for n in range(6, 10)]
            counts = counts_of_job(carried)
            assert (counts.pods_now, counts.pods_ever) == (4, 10)
            assert of_whole_job(carried).gpu_pct == 90
            # Then comes another image.
            gone = [of_pod(old, f"web-5d8f-{n}", 90 - n, n, gone=True) for n in range(6, 10)]
            await work.write(record(of_pod(new, "web-7c9b-0", 12, 100), *gone))
            annotations = kube.admin.get(web)["metadata"]["annotations"]
            carried = ours(annotations, "dutycycle.io")
            assert annotations["others.io/a"] == "1"
            assert [pod.pod for pod in of_job(carried)] == ["web-7c9b-0"]
            counts = counts_of_job(carried)
            assert (counts.pods_now, counts.pods_ever) == (1, 11)
            assert (carried["gpu_util_max"], of_whole_job(carried).gpu_pct) == (12, 12)
            earlier = earlier_revisions(carried)
            assert {name: usage.gpu_pct for name, usage in earlier.items()} == {"5d8f": 90}
    finally:
        await server.close()

"""``dutycycle webhook`` with the real API server and scheduler: the order of pods; admission without it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.settings.groups import Settings
from sinks.scheduling.webhook.classes import OURS
from tests.support.deploy.manifests import WITH_WEBHOOK, of_kind, render
from tests.support.kafka import Sent, make_topics, send, settings_of
from tests.support.kube.shipped import account
from tests.support.kube.webhook import gpu_job, opted_in, said_why, wait_until_asked
from tests.support.processes.commands import dutycycle, environ, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.certificates import make_certificates
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.scheduler import Scheduler, add_node, gpu_pod
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.sinks.scheduling import peaks, pod
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
DURATIONS_S = {"short:1": 60, "long:1": 7200}
"""How long pods of these images ran."""
USED_GPU_S = {"modest": 60.0, "greedy": 3540.0}
"""In this hour, by the name of a pod and of its team."""


async def publish(settings: Settings, namespace: str) -> None:
    """What collectors and streams say: how long pods of two images ran, and what two teams use."""
    topics = ["pods", "insights", "cycles", "pod-peaks", "usage", "nvml-samples", "cgroup-samples"]
    await make_topics(settings, topics)
    now_ms = round(time.time() * 1000)
    records: list[Sent] = []
    for image, took_s in DURATIONS_S.items():
        old = pod(
            image, namespace=namespace, images=(image,), program=None, template=None,
            started_ms=now_ms - took_s * 1000, finished_ms=now_ms, phase="Succeeded",
        )  # fmt: skip
        records.append(("pod-peaks", image, replace(peaks(old, 1), last_ms=now_ms)))
    for team in USED_GPU_S:
        runs = pod(team, namespace=namespace, labels={"team": team})
        records.append(("pods", team, runs))
    rows = (
        GpuHour(pod_uid=team, gpu=team, gpu_s=used, known_s=used, busy_s=0.0)
        for team, used in USED_GPU_S.items()
    )
    hour_ms = now_ms - now_ms % HOUR_MS
    hour = UsageHour(node="n", source="nvml", hour_ms=hour_ms, ts_ms=now_ms, gpus=tuple(rows))
    records.append(("usage", "n", hour))
    await send(settings, records, now_ms)


@pytest.fixture
def classes(kube: Kube) -> Iterator[Callable[[], list[Object]]]:
    """Lists our PriorityClasses; they are gone afterwards."""
    selector = "%2C".join(f"{name}%3D{value}" for name, value in OURS.items())
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector={selector}"
    yield lambda: list(kube.admin.request("GET", path)["items"])
    kube.admin.request("DELETE", path)


async def test_pods_start_in_the_order_of_the_policy_and_are_admitted_without_it(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, namespace: str, tmp_path: Path,
    classes: Callable[[], list[Object]],
) -> None:  # fmt: skip
    admin, port, authority = kube.admin, free_port(), make_certificates(tmp_path).authority
    rules = of_kind(render(WITH_WEBHOOK), "ClusterRole", "webhook")["rules"]
    policy = tmp_path / "policy.toml"
    policy.write_text('fairness = 1.0\n[bands]\n"" = [10_000_001, 20_000_000]\n')
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, serve_listen=f"127.0.0.1:{port}",
        serve_cert=str(tmp_path / "server.crt"), serve_key=str(tmp_path / "server.key"),
        webhook_policy=str(policy),
    )  # fmt: skip
    await publish(settings_of(env), namespace)
    env |= {"KUBECONFIG": str(account(kube, namespace, "webhook", rules).kubeconfig)}
    log = tmp_path / "webhook.log"
    configuration = opted_in(admin, namespace, port, authority)
    try:
        with running("webhook", env=env, log=log):
            wait_until_asked(admin, namespace, log)
            long, short = (admin.create(gpu_job(namespace, name, f"{name}:1")) for name in ("long", "short"))
            modest, greedy = (
                admin.create(gpu_job(namespace, team, "short:1", team=team)) for team in USED_GPU_S
            )
            other = admin.create(gpu_pod(namespace, "no-gpu", gpus=0))
        without = admin.create(gpu_job(namespace, "without", "short:1"))
    finally:
        admin.delete(configuration)
    for one in (long, short, modest, greedy):
        number = one["spec"]["priority"]
        assert 10_000_001 <= number <= 20_000_000, one["spec"]
        assert one["spec"]["priorityClassName"] == f"dutycycle-{number}"
        assert one["spec"]["preemptionPolicy"] == "Never"
        assert number in {found["value"] for found in classes()}
    assert short["spec"]["priority"] > long["spec"]["priority"]
    assert modest["spec"]["priority"] > greedy["spec"]["priority"]
    why = said_why(long)
    assert (why["expected_s"], why["pods"], why["delay_s"]) == (7200, 1, 8 * 7200)
    assert said_why(greedy)["used_of_share"]["team greedy"] == pytest.approx(1.95, abs=0.06)
    for one in (other, without):
        assert (one["spec"]["priority"], said_why(one)) == (0, {})
    for one in (modest, greedy, other, without):
        admin.delete(one)
    assert "Traceback" not in log.read_text()
    check_order(kube, tmp_path, short, long)


def check_order(kube: Kube, folder: Path, first: Object, second: Object) -> None:
    """On one GPU ``first`` starts first, though it came later."""
    node = add_node(kube.admin, "one-gpu", gpus=1)
    scheduler = Scheduler(kube, folder)

    def bound(one: Object) -> bool:
        return bool(kube.admin.get(one)["spec"].get("nodeName") == "one-gpu")

    try:
        wait_until(lambda: bound(first), scheduler.log_tail)
        assert not bound(second)
        kube.admin.delete(first)
        wait_until(lambda: bound(second), scheduler.log_tail)
    finally:
        scheduler.stop()
        kube.admin.delete(node)


def test_a_wrong_policy_ends_the_program_with_one_line(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("strech = 4\n")
    done = dutycycle("webhook", "--broker", "kafka://127.0.0.1:1", "--webhook-policy", policy, status=2)
    said = done.stderr.splitlines()
    assert f"DUTYCYCLE_WEBHOOK_POLICY {policy}: policy: there is no 'strech': expected one of" in said[-1]

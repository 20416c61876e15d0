"""Goal: what happens to pods in the API server is published, whatever happens to the connection."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Tick
from collectors.pods.collector import PodsCollector, pods_collector
from collectors.pods.watch import PodWatch, RefreshPolicy
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.codec import decode
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.objects import ApiServer, connect
from dutycycle.telemetry.events import COLLECTOR_FAILED, KUBERNETES_AWAY, OWNER_FORBIDDEN, Telemetry
from tests.support.fakes.api_server import PODS, FakeApi, fake_api_server
from tests.support.servers.kube.client import kubeconfig
from tests.support.waiting import wait_until

NODE = "gpu-a"
RETIRE_S = 600
BATCH = "/apis/batch/v1"
JOBS = [("Job", "jobs", True), ("Job", "jobs/status", True)]
TRAIN = f"{BATCH}/namespaces/ns/jobs/train"


def pod(name: str, *, phase: str = "Running", node: str = NODE, owner: str | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": f"u-{name}", "name": name, "namespace": "ns"}
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"u-{owner}"}
        meta["ownerReferences"] = [reference | {"controller": True}]
    return {"metadata": meta, "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase}}


class Published:
    """Ticks a collector, begun at the first tick, and keeps what it published last of each key, how often."""

    def __init__(self, begin: Callable[[], PodsCollector]) -> None:
        self._begin = begin
        self.collector: PodsCollector | None = None
        self.pods: dict[str, Pod | None] = {}
        self.times: dict[str, int] = {}
        self.now_s = 1000.0

    def tick(self) -> None:
        tick = Tick(
            node=NODE, collector="c", seq=0, ts_ms=1_700_000_000_000, interval_ms=1000, monotonic_s=self.now_s
        )
        self.collector = self.collector or self._begin()
        for one in self.collector.collect(tick):
            assert (one.topic, one.ts_ms) == ("pods", tick.ts_ms)
            self.pods[one.key] = None if one.value is None else decode(Pod, one.value, "pods")
            self.times[one.key] = self.times.get(one.key, 0) + 1

    def until(self, reached: Callable[[], object]) -> None:
        wait_until(reached, lambda: self.pods, pause_s=0.01, meanwhile=self.tick)

    def phase(self, name: str) -> str | None:
        record = self.pods.get(f"u-{name}")
        return record.phase if record else None

    def job(self, name: str) -> str | None:
        record = self.pods.get(f"u-{name}")
        return record.job.name if record and record.job else None


@pytest.fixture
def server() -> Iterator[FakeApi]:
    with fake_api_server() as running:
        yield running


@pytest.fixture
def api(server: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", server.url)))
    found = asyncio.run(connect("auto"))
    assert found is not None
    return found


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry("test")


@pytest.fixture
def refresh() -> RefreshPolicy:
    return RefreshPolicy()


@pytest.fixture
def published(api: ApiServer, telemetry: Telemetry, refresh: RefreshPolicy) -> Iterator[Published]:
    backoff = partial(Backoff, 0.05, 0.05, spread=0)
    watch = PodWatch(api, NODE, telemetry, retire_s=RETIRE_S, refresh=refresh, backoff=backoff)
    published = Published(lambda: PodsCollector(watch))
    yield published
    if published.collector is not None:
        started = time.monotonic()
        published.collector.close()
        assert not published.collector.running, "the watch goes on after close()"
        assert time.monotonic() - started < 30


def test_what_is_there_and_what_happens(server: FakeApi, published: Published) -> None:
    server.pods.put(pod("a"))
    server.pods.put(pod("other", node="gpu-b"))
    published.until(lambda: published.phase("a") == "Running")
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.put(pod("b", phase="Pending"))
    published.until(lambda: published.phase("b") == "Pending")
    server.pods.put(pod("b"))
    published.until(lambda: published.phase("b") == "Running")
    server.pods.put(pod("a", phase="Succeeded"))
    published.until(lambda: published.phase("a") == "Succeeded")
    assert published.times == {"u-a": 2, "u-b": 2}
    assert server.asked(PODS) == 1


def test_a_pod_that_no_reader_would_take_costs_no_other(
    server: FakeApi, published: Published, telemetry: Telemetry
) -> None:
    server.pods.put(pod("x" * 600))
    server.pods.put(pod("a"))
    published.until(lambda: published.phase("a") == "Running")
    assert published.pods.keys() == {"u-a"}
    assert telemetry.count(COLLECTOR_FAILED) >= 1


def test_with_prometheus_the_pods_of_all_nodes_are_watched(server: FakeApi, api: ApiServer) -> None:
    settings = Settings(node=NODE, prometheus="http://127.0.0.1:9090")
    collector = asyncio.run(pods_collector(settings, Telemetry("test")))
    assert collector is not None
    published = Published(lambda: collector)
    server.pods.put(pod("a"))
    server.pods.put(pod("b", node="gpu-b"))
    server.pods.put(pod("pending", node=""))
    published.until(lambda: len(published.pods) == 2)
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.put(pod("c", node="gpu-c"))
    published.until(lambda: published.phase("c"))
    collector.close()
    assert published.pods.keys() == {"u-a", "u-b", "u-c"}


def test_a_deleted_pod_gets_its_end_and_later_a_tombstone(server: FakeApi, published: Published) -> None:
    server.pods.put(pod("a"))
    published.until(lambda: published.phase("a"))
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.delete("u-a")

    def ended() -> bool:
        record = published.pods["u-a"]
        return record is not None and record.finished_ms == 1_700_000_000_000

    published.until(ended)
    published.now_s += RETIRE_S - 1
    published.tick()
    assert ended()
    published.now_s += 1
    published.tick()
    assert published.pods == {"u-a": None}


def test_a_version_that_expired_is_listed_again(server: FakeApi, published: Published) -> None:
    server.pods.put(pod("a"))
    server.pods.put(pod("b"))
    published.until(lambda: published.phase("b"))
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.vanish("u-a")
    server.pods.expire()
    published.until(lambda: (one := published.pods["u-a"]) and one.finished_ms)
    assert server.asked(PODS) == 2
    assert published.times["u-b"] == 1
    server.pods.put(pod("c"))
    published.until(lambda: published.phase("c"))


def test_410_as_the_answer_to_a_watch(server: FakeApi, published: Published) -> None:
    server.fail("watch", 410)
    server.pods.put(pod("a"))
    published.until(lambda: published.phase("a"))
    published.until(lambda: server.asked(PODS) == 2)
    server.pods.put(pod("b"))
    published.until(lambda: published.phase("b"))


def test_a_watch_that_breaks_off_goes_on_where_it_was(
    server: FakeApi, published: Published, telemetry: Telemetry
) -> None:
    server.pods.put(pod("a"))
    published.until(lambda: published.phase("a"))
    for name in ("b", "c", "d"):
        published.until(partial(watched_more_than, server, len(published.pods) - 1))
        server.pods.hang_up()
        server.pods.put(pod(name))
        published.until(partial(published.phase, name))
    assert server.asked(PODS) == 1
    assert published.times["u-a"] == 1
    assert telemetry.conditions == {}


def watched_more_than(server: FakeApi, times: int) -> bool:
    return server.asked(PODS + "?watch") > times


@pytest.mark.parametrize("what", ["list", "watch"])
@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
def test_a_server_in_trouble_is_told_once_and_tried_again(
    server: FakeApi, published: Published, telemetry: Telemetry, what: str, code: int
) -> None:
    server.fail(what, code, code, code, headers={"Retry-After": "0"})
    server.pods.put(pod("a"))
    published.until(lambda: published.phase("a"))
    published.until(lambda: not server.failures[what])
    server.pods.put(pod("b"))
    published.until(lambda: published.phase("b"))
    published.until(lambda: telemetry.conditions == {})
    assert telemetry.count(KUBERNETES_AWAY) == 1


def test_an_error_in_a_watch_is_no_end(server: FakeApi, published: Published) -> None:
    server.pods.put(pod("a"))
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.say({"type": "ERROR", "object": {"code": 500, "message": "etcd is slow"}})
    server.pods.say({"type": "ADDED", "object": {"metadata": {}}})
    server.pods.bookmark()
    server.pods.put(pod("b"))
    published.until(lambda: published.phase("b"))


def test_the_job_of_a_pod_is_read_once(server: FakeApi, published: Published) -> None:
    server.groups[BATCH] = JOBS
    server.objects[TRAIN] = {"uid": "u-train", "name": "train"}
    for name in ("a", "b", "c"):
        server.pods.put(pod(name, owner="train"))
    published.until(lambda: published.phase("c"))
    for name in ("a", "b", "c"):
        record = published.pods[f"u-{name}"]
        assert record is not None
        assert record.job is not None
        assert (record.job.kind, record.job.name, record.job.uid) == ("Job", "train", "u-train")
    assert server.asked(TRAIN) == 1


@pytest.mark.parametrize(
    ("groups", "refused"), [({}, {}), ({}, {BATCH: 403}), ({BATCH: JOBS}, {TRAIN: 403}), ({BATCH: []}, {})]
)
def test_a_job_that_may_not_be_read_is_known_by_its_name(
    server: FakeApi,
    published: Published,
    telemetry: Telemetry,
    groups: dict[str, Any],
    refused: dict[str, int],
) -> None:
    server.groups |= groups
    server.refused |= refused
    server.pods.put(pod("a", owner="train"))
    published.until(lambda: published.phase("a"))
    record = published.pods["u-a"]
    assert record is not None
    assert record.job is not None
    assert record.job.uid == "u-train"
    assert telemetry.conditions == {}
    assert telemetry.count(OWNER_FORBIDDEN) == len(refused)


@pytest.mark.parametrize("when", ["in the list", "in the watch"])
def test_a_job_that_cannot_be_read_now_is_read_later(
    server: FakeApi, published: Published, when: str
) -> None:
    server.pods.second_s = 0.1
    server.groups[BATCH] = JOBS
    server.objects[TRAIN] = {"uid": "u-train", "name": "train"}
    server.fail(TRAIN, 500)
    if when == "in the watch":
        published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.put(pod("a", owner="train"))
    published.until(lambda: published.phase("a"))
    published.until(lambda: (one := published.pods["u-a"]) and one.job)
    assert published.times["u-a"] <= 2


def lacking(server: FakeApi, *names: str) -> None:
    """Pods of these names, each of a job that may not be read yet; watches end ten times as fast."""
    server.pods.second_s = 0.1
    server.groups[BATCH] = JOBS
    for name in names:
        server.refused[f"{BATCH}/namespaces/ns/jobs/{name}"] = 403
        server.pods.put(pod(name, owner=name))


def permit(server: FakeApi, *names: str) -> None:
    """These jobs may be read now; a workflow, which is a job as well, owns each."""
    server.objects[f"{BATCH}/namespaces/ns/jobs/flow"] = {"uid": "u-flow"}
    flow = {"apiVersion": "batch/v1", "kind": "Job", "name": "flow", "uid": "u-flow", "controller": True}
    for name in names:
        path = f"{BATCH}/namespaces/ns/jobs/{name}"
        server.objects[path] = {"uid": f"u-{name}", "name": name, "ownerReferences": [flow]}
        del server.refused[path]


HASTY = pytest.mark.parametrize("refresh", [RefreshPolicy(watch_s=1, fresh_s=0.0)])
"""Watches are renewed every second, and what was read is read again at once."""


@HASTY
@pytest.mark.parametrize("when", ["in the list", "in the watch"])
def test_a_permission_that_is_given_later_is_noticed_for_a_quiet_pod(
    server: FakeApi, published: Published, when: str
) -> None:
    server.pods.second_s = 0.1
    if when == "in the watch":
        published.until(lambda: server.asked(PODS + "?watch"))
    lacking(server, "a", "b")
    published.until(lambda: (published.job("a"), published.job("b")) == ("a", "b"))
    permit(server, "a")
    published.until(lambda: published.job("a") == "flow")
    assert published.job("b") == "b"
    assert published.phase("a") == "Running"
    assert server.asked(PODS) == 1


@pytest.mark.parametrize("refresh", [RefreshPolicy(watch_s=1, walked_again=2, fresh_s=0.0)])
def test_of_many_pods_some_are_walked_again_at_a_time_and_all_in_turn(
    server: FakeApi, published: Published
) -> None:
    names = "abcde"
    lacking(server, *names)
    published.until(lambda: server.asked(PODS + "?watch") > 3)
    requests = server.requests[server.requests.index(PODS + "?watch") :]
    rounds = [list(one) for watch, one in groupby(requests, (PODS + "?watch").__eq__) if not watch]
    assert [one[-1] for one in chain.from_iterable(rounds)][:6] == list("abcdea")
    assert {len(one) for one in rounds[:2]} == {2}
    permit(server, *names)
    published.until(lambda: all(published.job(name) == "flow" for name in names))


@HASTY
def test_what_a_new_permission_leads_to_may_fail_to_be_read_at_first(
    server: FakeApi, published: Published, telemetry: Telemetry
) -> None:
    lacking(server, "a", "b")
    published.until(lambda: published.job("b"))
    server.fail(f"{BATCH}/namespaces/ns/jobs/flow", 500, 500)
    permit(server, "a", "b")
    published.until(lambda: (published.job("a"), published.job("b")) == ("flow", "flow"))
    assert telemetry.count(KUBERNETES_AWAY) == 0


@HASTY
def test_what_is_gone_or_can_be_read_is_not_walked_again(server: FakeApi, published: Published) -> None:
    lacking(server, "a", "gone", "deleted")
    permit(server, "a")
    server.refused[f"{BATCH}/namespaces/ns/jobs/gone"] = 404
    published.until(lambda: published.job("deleted"))
    published.until(lambda: server.asked(PODS + "?watch"))
    server.pods.delete("u-deleted")
    published.until(lambda: (one := published.pods["u-deleted"]) and one.finished_ms)
    asked, renewals = len(server.requests), server.asked(PODS + "?watch")
    published.until(lambda: server.asked(PODS + "?watch") > renewals + 2)
    assert set(server.requests[asked:]) == {PODS + "?watch"}


def test_a_server_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")))
    caplog.set_level(logging.INFO, logger="dutycycle")
    collector = asyncio.run(pods_collector(Settings(node=NODE), telemetry))
    assert collector is not None
    published = Published(lambda: collector)
    published.until(lambda: telemetry.conditions)
    collector.close()
    assert published.pods == {}
    assert sum("http://127.0.0.1:1 does not answer" in message for message in caplog.messages) == 1


def test_a_watch_that_dies_is_told_and_begun_anew(
    server: FakeApi, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    with monkeypatch.context() as patch:
        patch.setattr(PodWatch, "_put", broken)
        published.until(lambda: server.asked(PODS + "?watch"))
        server.pods.put(pod("a"))
        with pytest.raises(RuntimeError, match="a mistake of ours"):
            published.until(lambda: False)
    published.until(lambda: published.phase("a"))

"""A node whose clock is an hour ahead: what it says gets old as that of others, and others lose nothing."""

import numpy as np
import pytest

from dutycycle.contract.records.derived import WindowAggregate, WindowMetric, pod_subject
from dutycycle.kube.heartbeat import heartbeat_of
from dutycycle.telemetry.events import Telemetry
from sinks.adapter.figures import Figures
from sinks.adapter.metric_names import MetricName
from sinks.annotations.heartbeats import Heartbeats
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.table import STALE_MS
from tests.support.fakes.api_server import NODE, FakeApi
from tests.support.sinks.scheduling import gpu, nvml

NOW_S = 1_770_000_000
HOUR_S = 3600
UTIL = MetricName("gpu_util_pct")


class Wall:
    """A clock that is moved by hand: Unix seconds."""

    now_s = float(NOW_S)

    def __call__(self) -> float:
        return self.now_s

    @property
    def now_ms(self) -> int:
        return round(self.now_s * 1000)


@pytest.fixture
def wall() -> Wall:
    return Wall()


def window(uid: str, end_s: float, mean: float) -> WindowAggregate:
    end_ms = round(end_s * 1000)
    return WindowAggregate(
        subject=pod_subject("n", uid), source="nvml", size_ms=10_000, start_ms=end_ms - 10_000, end_ms=end_ms,
        metrics={UTIL.field: WindowMetric(count=10, mean=mean)},
    )  # fmt: skip


def test_autoscalers_get_its_figure_while_it_comes_and_that_of_others(wall: Wall) -> None:
    figures = Figures(10.0, wall)
    for second in range(0, 180, 10):
        wall.now_s = NOW_S + second
        for uid, ahead_s in (("right", -12), ("ahead", HOUR_S)):
            record = window(uid, wall.now_s + ahead_s, second)
            figures.take("window-aggregates", record.subject.key, record)
        values = figures.values(["right", "ahead"], UTIL, wall.now_ms)
        assert {uid: value.value for uid, value in values.items()} == {"right": second, "ahead": second}
        assert values["ahead"].end_ms <= wall.now_ms
    assert figures.values(["right", "ahead"], UTIL, wall.now_ms + 51_000) == {}


def test_the_scheduler_knows_nothing_of_it_after_a_minute(wall: Wall) -> None:
    known = ClusterView(wall)
    known.take("a", nvml(gpu(), ts_ms=wall.now_ms + HOUR_S * 1000))
    for later_ms, is_known in ((0, True), (STALE_MS - 1, True), (STALE_MS, False)):
        taken = known.nodes(["a"], {}, wall.now_ms + later_ms).of_gpus("taken")
        assert (not np.isnan(taken).all()) == is_known


def test_prometheus_has_its_series_no_longer_than_those_of_others(wall: Wall) -> None:
    view = MetricsView(60_000, wall)
    view.hear("nvml-samples", "a", nvml(gpu(), ts_ms=wall.now_ms + HOUR_S * 1000))
    rows = SeriesRows(view, (), 60, 100)
    for later_ms, count in ((0, 1), (60_000, 1), (60_001, 0)):
        values = {metric.name: row for metric, row in rows.rows(wall.now_ms + later_ms)}
        assert len(values.get("gpu_pods", {})) == count


async def test_its_lease_runs_out(api: FakeApi, wall: Wall) -> None:
    api.add(NODE, "uid-n")
    server = api.client()
    beats = Heartbeats(server, 60.0, "annotations", Telemetry("test"), lambda: 0.0, wall)
    beats.sampled("gpu-a", wall.now_ms + HOUR_S * 1000)
    await beats.write_due(lambda: True)
    await server.close()
    (lease,) = api.leases.values()
    heartbeat = heartbeat_of(lease)
    assert heartbeat is not None
    assert not heartbeat.is_stale(wall.now_ms)
    assert heartbeat.is_stale(wall.now_ms + 181_000)

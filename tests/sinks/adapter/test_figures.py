"""What is known of a pod now, and what is forecast."""

from typing import Any

import pytest

from dutycycle.contract.records.derived import (
    Cycle,
    CycleMetric,
    Forecast,
    OtherCycle,
    Subject,
    Trend,
    TrendMetric,
    WindowAggregate,
    WindowMetric,
    gpu_subject,
    job_subject,
    node_subject,
    pod_subject,
)
from dutycycle.contract.records.pods import JobRef, Pod
from sinks.adapter.figures import Figures, MetricValue
from sinks.adapter.metric_names import MetricName

UTIL = MetricName("gpu_util_pct")
AHEAD = UTIL._replace(horizon_s=300)
CPU = MetricName("cpu_util_pct")
SOON_MS = 12_000
"""After a window's end it is written: the lateness, and a moment."""


def figures() -> Figures:
    return Figures(lateness_s=10)


def window(
    uid: str,
    end_s: int,
    mean: float | None,
    *,
    size_s: int = 10,
    source: str = "nvml",
    metric: str = UTIL.field,
) -> WindowAggregate:
    return WindowAggregate(
        subject=pod_subject("n", uid), source=source, size_ms=size_s * 1000,
        start_ms=(end_s - size_s) * 1000, end_ms=end_s * 1000,
        metrics={metric: WindowMetric(count=10, mean=mean, increase=None if mean is not None else 5.0)},
    )  # fmt: skip


def pod(uid: str, job: str = "web") -> Pod:
    owner = JobRef(api_version="apps/v1", kind="Deployment", name=job, uid=f"uid-of-{job}")
    return Pod(uid=uid, namespace="d", name=uid, node="n", phase="Running", job=owner)


def cycle(uid: str, period_s: float | None, **more: Any) -> Cycle:
    found = CycleMetric(cyclic=period_s is not None, period_s=period_s, confidence=0.9, **more)
    return Cycle(subject=pod_subject("n", uid), source="nvml", ts_ms=0, metrics={UTIL.field: found})


def trend(uid: str, value: float, horizon_s: float = 300) -> Trend:
    ahead = Forecast(horizon_s=horizon_s, value=value, p05=0, p95=100)
    metrics = {UTIL.field: TrendMetric(level=1, slope_per_s=0, forecast=(ahead,))}
    return Trend(subject=pod_subject("n", uid), source="nvml", ts_ms=0, metrics=metrics)


def fed(*windows: WindowAggregate) -> Figures:
    found = figures()
    for one in windows:
        found.take("window-aggregates", one.subject.key, one)
    return found


def one(found: Figures, now_s: int, metric: MetricName = UTIL, uid: str = "a") -> float | None:
    figure = found.values([uid], metric, now_s * 1000 + SOON_MS).get(uid)
    return None if figure is None else figure.value


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([window("a", 100, 42)], MetricValue(42, 100_000, 10)),
        ([window("a", 100, 0)], MetricValue(0, 100_000, 10)),  # idle
        ([window("a", 90, 42), window("a", 100, 43)], MetricValue(43, 100_000, 10)),
        ([window("a", 100, 43), window("a", 90, 42)], MetricValue(43, 100_000, 10)),  # read again
        ([window("a", 100, 43), window("a", 60, 42, size_s=60)], MetricValue(43, 100_000, 10)),
        (
            [window("a", 30, 43), window("a", 60, 42, size_s=60)],
            MetricValue(42, 60_000, 60),
        ),  # it has more lateness
        ([window("a", 100, None)], None),  # a counter
        ([window("a", 100, 42, metric="power_w")], None),
        ([window("b", 100, 42)], None),
        ([], None),
    ],
)
def test_the_newest_of_the_shortest_windows_counts(
    windows: list[WindowAggregate], expected: MetricValue | None
) -> None:
    assert fed(*windows).values(["a"], UTIL, 100_000 + SOON_MS).get("a") == expected


def test_a_stalled_source_gives_nothing_and_not_zero() -> None:
    found = fed(window("a", 100, 42), window("idle", 100, 0))
    last_ms = 100_000 + 10_000 + 10_000 + 30_000
    assert found.values(["a", "idle"], UTIL, last_ms).keys() == {"a", "idle"}
    assert found.values(["a", "idle"], UTIL, last_ms + 1) == {}
    assert found.values(["a"], AHEAD, last_ms + 1) == {}


@pytest.mark.parametrize("size_s", [60, 300])
@pytest.mark.parametrize("end_s", [60, 120])
def test_a_stalled_source_never_answers_with_a_longer_window(size_s: int, end_s: int) -> None:
    """Windows of 10 s end at 100, 110 and 120 s, and no more come; a longer one ended before, or with the
    last."""
    short = [window("a", end, 5) for end in (100, 110, 120)]
    found = fed(window("a", end_s, 90, size_s=size_s), *short)
    answers = [found.values(["a"], UTIL, now_s * 1000).get("a") for now_s in range(125, 600)]
    known = [figure for figure in answers if figure is not None]
    assert {(figure.value, figure.end_ms) for figure in known} == {(5, 120_000)}
    assert len(known) == 170 - 125 + 1, "10 s, the lateness and the grace after its end, and then nothing"


def test_each_source_has_metrics_of_its_own() -> None:
    found = fed(window("a", 100, 42), window("a", 100, 350, source="cgroup", metric="cpu_util_pct"))
    assert (one(found, 100), one(found, 100, CPU)) == (42, 350)
    assert found.names() == {"cpu_util_pct", "gpu_util_pct"}


@pytest.mark.parametrize(
    ("known", "stays"), [((), set()), (("a",), {"pod/a/nvml"})], ids=["gone", "still there"]
)
def test_what_was_told_of_pods_that_are_gone_is_forgotten(known: tuple[str, ...], stays: set[str]) -> None:
    """Else an autoscaler of a cluster whose pods come and go would grow for ever."""
    kept = figures()
    for uid in known:
        kept.take("pods", uid, pod(uid))
    kept.take("cycles", "pod/a/nvml", cycle("a", 600.0))
    kept.take("trends", "pod/a/nvml", trend("a", 50))
    kept.take("window-aggregates", "pod/a", window("a", 100, 42))
    assert kept._loads
    kept.take("window-aggregates", "pod/b", window("b", 2 * 3600, 42))
    assert (set(kept._trends), set(kept._cycles), bool(kept._loads)) == (stays, stays, bool(stays))


def test_a_node_has_what_its_gpus_and_its_host_have() -> None:
    def of(subject: Subject, source: str = "nvml", **means: float) -> WindowAggregate:
        metrics = {name: WindowMetric(count=1, mean=mean) for name, mean in means.items()}
        return WindowAggregate(
            subject=subject, source=source, size_ms=10_000, start_ms=0, end_ms=10_000, metrics=metrics
        )

    found = fed(
        of(gpu_subject("n", "GPU-1"), gpu_util_pct=5, mem_used_bytes=300),
        of(gpu_subject("n", "GPU-2"), gpu_util_pct=0, mem_used_bytes=100),
        of(gpu_subject("other", "GPU-1"), gpu_util_pct=99),
        of(node_subject("n"), "cgroup", mem_used_bytes=7000),
        of(job_subject("j"), gpu_util_pct=50),
    )

    def values(name: str, now_ms: int = 20_000) -> list[float]:
        return [figure.value for figure in found.values_of_node("n", MetricName(name), now_ms)]

    assert (values("gpu_util_pct"), values("gpu_mem_used_bytes"), values("mem_used_bytes")) == (
        [5, 0], [300, 100], [7000],
    )  # fmt: skip
    assert values("gpu_util_pct", now_ms=70_000) == []
    assert found.names("node") == {"gpu_util_pct", "gpu_mem_used_bytes", "mem_used_bytes"}
    assert (found.names(), found.nodes()) == (set(), ["n", "other"])
    found.take("window-aggregates", "pod/a", window("a", 200, 1))  # a minute and more later
    assert (found.values_of_node("n", UTIL, 20_000), found.nodes()) == ([], [])


def test_without_a_cycle_the_forecast_is_the_trend_s_and_without_one_the_current_value() -> None:
    found = fed(window("a", 100, 42))
    assert one(found, 100, AHEAD) == 42
    found.take("trends", "pod/a/nvml", trend("a", 60))
    assert one(found, 100, AHEAD) == 60
    assert one(found, 100, UTIL._replace(horizon_s=30)) == 42  # no forecast at this horizon
    found.take("trends", "pod/a/nvml", None)
    assert one(found, 100, AHEAD) == 42


class Day:
    """A Deployment whose load is 300 % in the first five minutes of each half hour, and 20 % else."""

    PERIOD_S = 1800

    def __init__(self, period: Cycle | None) -> None:
        self.figures = figures()
        for uid in ("a", "b"):
            self.figures.take("pods", uid, pod(uid))
        self.figures.take("trends", "pod/a/nvml", trend("a", 55))
        if period is not None:
            self.figures.take("cycles", "pod/a/nvml", period)

    @staticmethod
    def load(second: int) -> float:
        return 300.0 if second % Day.PERIOD_S < 300 else 20.0

    def until(self, end_s: int, pods: tuple[str, ...] = ("a", "b")) -> None:
        """The load was shared by the pods in each ten seconds."""
        for second in range(0, end_s, 10):
            for uid in pods:
                one = window(uid, second + 10, self.load(second) / len(pods))
                self.figures.take("window-aggregates", one.subject.key, one)

    def ahead(self, now_s: int, metric: MetricName = AHEAD) -> dict[str, float]:
        found = self.figures.values(["a", "b", "c"], metric, now_s * 1000 + SOON_MS)
        return {uid: figure.value for uid, figure in found.items()}


BEFORE_S = 4 * Day.PERIOD_S - 240
"""Four minutes before the fifth wave."""


@pytest.mark.parametrize(
    "known",
    [cycle("a", 1800), cycle("a", 15, others=(OtherCycle(period_s=1800, confidence=0.7),))],
    ids=["the cycle", "a further one"],
)
def test_the_wave_of_a_known_cycle_is_forecast_for_the_workload(known: Cycle) -> None:
    day = Day(known)
    day.until(BEFORE_S)
    assert day.ahead(BEFORE_S, UTIL) == {"a": 10, "b": 10}
    assert day.ahead(BEFORE_S) == {"a": 150, "b": 150}  # more than a GPU can do: more pods are needed
    assert day.ahead(BEFORE_S - 120) == {"a": 10, "b": 10}


def test_the_forecast_does_not_depend_on_the_number_of_pods() -> None:
    """In the waves before there were two pods, and now there are three: their sum is the same."""
    day = Day(cycle("a", 1800))
    day.until(BEFORE_S - 60)
    day.figures.take("pods", "c", pod("c"))
    for uid in ("a", "b", "c"):
        one = window(uid, BEFORE_S, 20 / 3)
        day.figures.take("window-aggregates", one.subject.key, one)
    assert day.ahead(BEFORE_S) == {"a": 100, "b": 100, "c": 100}


@pytest.mark.parametrize(
    "known", [None, cycle("a", None), cycle("a", 15)], ids=["never", "lost", "too short"]
)
def test_without_a_long_cycle_nothing_is_forecast_for_the_workload(known: Cycle | None) -> None:
    day = Day(known)
    day.until(BEFORE_S)
    assert day.ahead(BEFORE_S) == {"a": 55, "b": 10}


def test_identities_and_cycles_may_come_in_any_order_and_go() -> None:
    day = Day(None)
    day.figures.take("pods", "a", None)
    day.figures.take("cycles", "pod/a/nvml", cycle("a", 1800))
    day.figures.take("pods", "a", pod("a"))
    day.until(BEFORE_S)
    assert day.ahead(BEFORE_S) == {"a": 150, "b": 150}
    day.figures.take("cycles", "pod/a/nvml", None)
    assert day.ahead(BEFORE_S) == {"a": 55, "b": 10}
    day.figures.take("cycles", "pod/a/nvml", cycle("a", 1800))
    for uid in ("a", "b"):
        day.figures.take("pods", uid, None)
    for uid in ("a", "b"):
        day.figures.take("pods", uid, pod(uid))
    assert day.ahead(BEFORE_S) == {"a": 55, "b": 10}  # the workload was gone: it begins anew


def test_a_pod_without_an_owner_is_its_own_workload() -> None:
    found = figures()
    found.take("cycles", "pod/a/nvml", cycle("a", 1800))
    for second in range(0, BEFORE_S, 10):
        one_window = window("a", second + 10, Day.load(second) / 4)
        found.take("window-aggregates", "pod/a", one_window)
    assert one(found, BEFORE_S, AHEAD) == 75

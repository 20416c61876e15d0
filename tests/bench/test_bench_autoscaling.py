"""The autoscaler of the simulation has Kubernetes' rules, and forecasts are worth their pods."""

import pytest

from bench.bench_autoscaling import Autoscaler, Cluster, bursts, day


class Fixed(Cluster):
    """A cluster whose adapter says what a test says."""

    answers: dict[str, dict[str, float]]

    def values(self, metric: str, now_s: int) -> dict[str, float]:
        return self.answers[metric]


def wished(replicas: int, *answers: list[float], pending: int = 0) -> int:
    cluster = Fixed(frozenset())
    cluster.scale(replicas - pending, 0)
    cluster.scale(replicas, 1000)
    uids = [one.uid for one in cluster.pods]
    cluster.answers = {str(n): dict(zip(uids, found, strict=False)) for n, found in enumerate(answers)}
    return Autoscaler(cluster.answers).replicas(cluster, 1000)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (wished(2, [60, 60]), 4),
        (wished(2, [32, 32]), 2),  # within the tolerance of 10 %
        (wished(2, [100, 100]), 6),  # four at once, at most
        (wished(4, [15, 15, 15, 15]), 2),
        (wished(4, [15, 15, 15, 15], [30, 30, 30, 30]), 4),  # the larger wish
        (wished(4, [0, 0, 0, 0]), 2),  # the least
        (wished(12, [90] * 12), 12),  # the most
        (wished(4, []), 4),  # nothing is measured
        (wished(4, [0, 0, 0, 0], []), 4),
        (wished(4, [60, 60, 60]), 6),  # the pod without a figure counts as idle
        (wished(4, [10, 10, 10]), 2),  # and here as at its target
        (wished(4, [60, 60, 60], pending=1), 6),
        (wished(4, [60, 60], pending=2), 4),  # those that are coming are enough
    ],
)
def test_the_autoscaler_wishes_as_kubernetes_does(found: int, expected: int) -> None:
    assert found == expected


def test_it_scales_down_when_all_wishes_of_five_minutes_are_lower() -> None:
    cluster = Fixed(frozenset())
    cluster.scale(6, 0)
    autoscaler = Autoscaler(["m"])
    for now_s, util, expected in ((0, 30, 6), (150, 5, 6), (299, 5, 6), (301, 5, 2)):
        cluster.answers = {"m": {one.uid: util for one in cluster.pods}}
        assert autoscaler.replicas(cluster, now_s) == expected


@pytest.mark.slow
def test_the_pods_are_there_before_the_wave() -> None:
    """By the real streams and the real adapter, once the cycle is known."""
    wanted = bursts(seed=1, wave_s=900, lasts_s=3 * 3600)
    now, ahead = (day(policy, wanted) for policy in ("now", "wave of the workload"))
    assert ahead.full_s < 0.6 * now.full_s
    assert ahead.over_s < 0.8 * now.over_s
    assert ahead.pod_s > now.pod_s

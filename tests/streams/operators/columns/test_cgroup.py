"""A cgroup sample in columns: the host, and pods over their containers."""

import math
from typing import Any

import pytest

from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.samples import CgroupSample
from streams.operators.columns.block import TickBlock
from streams.operators.columns.cgroup import CgroupReader
from tests.support.data.samples import cgroup


def values(host: dict[str, Any], pods: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    tick = CgroupReader().read(from_plain(CgroupSample, cgroup(1, host, pods), "cgroup-samples"))
    pairs = zip(tick.layout.series, tick.values.tolist(), strict=True)
    return {(one.member, one.metric): value for one, value in pairs if not math.isnan(value)}


def pod(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"uid": "p", "containers": [{"id": str(n), **one} for n, one in enumerate(containers)], **fields}


CASES: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("sums", pod({"cpu_util_pct": 50, "mem_used_bytes": 3}, {"cpu_util_pct": 70.5, "mem_used_bytes": 4}),
     {"cpu_util_pct": 120.5, "mem_used_bytes": 7}),
    ("the most throttled container", pod({"cpu_throttled_pct": 5}, {"cpu_throttled_pct": 40}),
     {"cpu_throttled_pct": 40}),
    ("one container unknown: the others' sum", pod({"cpu_util_pct": 50}, {}), {"cpu_util_pct": 50}),
    ("nothing known: absent", pod({}), {}),
    ("limits add up", pod({"mem_limit_bytes": 5}, {"mem_limit_bytes": 6}), {"mem_limit_bytes": 11}),
    ("one without a limit: no limit", pod({"mem_limit_bytes": 5}, {}), {}),
    ("network is the pod's", pod(net_rx_bytes_per_s=9), {"net_rx_bytes_per_s": 9}),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "one", "expected"), CASES, ids=[row[0] for row in CASES])
def test_a_pod_over_its_containers(goal: str, one: dict[str, Any], expected: dict[str, float]) -> None:
    found = values({"cpu_util_pct": 12.5}, [one])
    assert found.pop(("", "cpu_util_pct")) == 12.5
    assert {metric: value for (_, metric), value in found.items()} == expected, goal


@pytest.mark.parametrize("pods", [0, 1, 3])
def test_of_every_pod_all_but_its_limit_is_tallied(pods: int) -> None:
    each = [{**pod({"cpu_util_pct": n, "mem_limit_bytes": 5}), "uid": f"p{n}"} for n in range(pods)]
    tick = CgroupReader().read(
        from_plain(CgroupSample, cgroup(1, {"cpu_util_pct": 9}, each), "cgroup-samples")
    )
    tallies = TickBlock([tick]).tallies[0].tolist()
    assert len(tick.layout.tallies) == 7 * pods
    assert "mem_limit_bytes" not in {one.metric for one in tick.layout.tallies}
    found = {one.pod_uid: value for one, value in zip(tick.layout.tallies, tallies, strict=True)
             if one.metric == "cpu_util_pct"}  # fmt: skip
    assert found == {f"p{n}": n for n in range(pods)}

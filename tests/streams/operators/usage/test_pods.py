"""The hour of a node's pods: CPU time and memory, and what the host uses beyond them."""

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.hours import PodHour, UsageHour
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import cgroup, record

CONFIG = NodeConfig(topic="cgroup-samples", source="cgroup")


def newest(samples: list[dict[str, object]]) -> dict[str | None, PodHour]:
    """The last row of each pod of node ``a``."""
    operator = NodeOperator(CONFIG, "a", CgroupReader())
    outs = [
        out
        for at, one in enumerate(samples)
        for out in operator.update(record("cgroup-samples", "a", one, at))
    ]
    outs += operator.close()
    written = [one.value for one in outs if isinstance(one, ProducerRecord) and one.topic == "usage"]
    return {row.pod_uid: row for one in written for row in decode(UsageHour, one or b"", "usage").pods}


def test_pods_and_what_is_in_none_add_up_to_the_host() -> None:
    pods = [
        {"uid": "A", "containers": [{"id": "1", "cpu_util_pct": 150, "mem_used_bytes": 30}]},
        {"uid": "B", "containers": [{"id": "2", "cpu_util_pct": 30}, {"id": "3", "cpu_util_pct": 20}]},
    ]
    host = {"cpu_util_pct": 250, "mem_used_bytes": 100}
    rows = newest([cgroup(at, host, pods if at < 50 else pods[:1]) for at in range(100)])
    assert rows["A"] == PodHour(pod_uid="A", seconds=100, cpu_s=150, mem_byte_s=3000)
    assert rows["B"].seconds == 50
    assert rows["B"].cpu_s == pytest.approx(25)
    assert rows["B"].mem_byte_s is None
    assert rows[None].cpu_s == pytest.approx(250 - 150 - 25)
    assert rows[None].mem_byte_s == 7000


def test_what_was_not_measured_is_absent() -> None:
    rows = newest([cgroup(at, {}, [{"uid": "A", "containers": [{"id": "1"}]}]) for at in range(10)])
    assert rows["A"] == PodHour(pod_uid="A", seconds=10)
    assert rows[None] == PodHour(seconds=10)

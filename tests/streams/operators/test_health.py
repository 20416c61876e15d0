"""The state of a node's GPUs: what is sent of it, and when."""

from typing import Any

import pytest

from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.health import NodeHealth
from streams.operators.health import FORGET_MS, HealthOperator
from tests.support.data.gpu_events import GOOD, made_event

T = 1_700_000_000_000


def fed(operator: HealthOperator, kind: str, code: int | None = None, **changes: Any) -> None:
    event = made_event(kind, code, **changes)
    operator.update(ConsumerRecord("gpu-events", 0, 0, "gpu-a", encode(event), event.ts_ms))


def told(operator: HealthOperator) -> NodeHealth | None:
    outs = operator.flush()
    assert len(outs) <= 1
    for out in outs:
        assert isinstance(out, ProducerRecord)
        assert (out.topic, out.key) == ("gpu-health", "gpu-a")
        return decode(NodeHealth, out.value or b"", out.topic)
    return None


def test_all_gpus_of_a_node_are_in_one_record_by_index() -> None:
    operator = HealthOperator("gpu-a")
    assert told(operator) is None
    fed(operator, "state", seq=0, gpu="GPU-b", index=1, counters=GOOD)
    fed(operator, "xid", 79, seq=1, gpu="GPU-a", index=0)
    health = told(operator)
    assert health is not None
    assert [(gpu.gpu, gpu.level) for gpu in health.gpus] == [("GPU-a", "reset"), ("GPU-b", "healthy")]
    assert told(operator) is None


def test_an_event_counts_once_and_a_restarted_collector_s_do_too() -> None:
    operator = HealthOperator("gpu-a")
    for seq in (0, 1, 1, 0, 2):
        fed(operator, "xid", 31, seq=seq)
    fed(operator, "xid", 31, collector="another", seq=0)
    again = HealthOperator("gpu-a")
    again.restore(operator.snapshot())
    fed(again, "xid", 31, collector="another", seq=0)
    fed(again, "xid", 31, seq=2)
    health = told(again)
    assert health is not None
    assert health.gpus[0].xids == {"31": 4}


def test_a_gpu_that_is_gone_for_a_week_is_forgotten() -> None:
    operator = HealthOperator("gpu-a")
    fed(operator, "xid", 79, seq=0, gpu="GPU-old")
    fed(operator, "state", seq=1, ts_ms=T + FORGET_MS, counters=GOOD)
    assert [gpu.gpu for gpu in (told(operator) or NodeHealth(node="x", ts_ms=0, gpus=())).gpus] == [
        "GPU-a", "GPU-old",
    ]  # fmt: skip
    fed(operator, "state", seq=2, ts_ms=T + FORGET_MS + 1, counters=GOOD)
    assert [gpu.gpu for gpu in (told(operator) or NodeHealth(node="x", ts_ms=0, gpus=())).gpus] == ["GPU-a"]


def test_an_event_of_another_node_is_refused() -> None:
    with pytest.raises(DecodeError, match="under the key"):
        fed(HealthOperator("gpu-a"), "xid", 79, node="gpu-b")

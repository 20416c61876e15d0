"""Ticks wait, and are taken together: how many of them at once must not be seen in anything."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from streams.operators.base import Emission
from streams.operators.columns import block
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record
from tests.support.targets import slow_after

CONFIG = NodeConfig(
    topic="nvml-samples", source="nvml", sizes_ms=(5_000, 60_000), lateness_ms=3_000, retire_ms=40_000
)
SECONDS = (1, 1, 1, 1, 1, 1, 2, 0, -1, -4, 15, 100)
"""From a tick to the next."""


def operator() -> NodeOperator:
    return NodeOperator(CONFIG, "a", NvmlReader("a"))


def measured(at: int, seq: int, chance: random.Random) -> dict[str, Any]:
    """What is measured of a GPU: at some ticks bursts, the most and no mean, or counters."""
    fields: dict[str, Any] = {
        "gpu_util_pct": chance.randint(0, 100), "mem_used_bytes": 1e9 * chance.random(),
        "energy_j": 3.3 * seq, "power_w": 100 * chance.random(),
        "processes": [{"pid": 7 + seq // 50, "pod_uid": f"p{at}", "gpu_util_pct": seq % 90}],
    }  # fmt: skip
    if chance.random() < 0.3:
        fields["util_burst"] = [[-500, 3], [-10, seq % 50]]
    elif chance.random() < 0.2:
        fields |= {"gpu_util_pct": None, "gpu_util_max_pct": 99}
    if chance.random() < 0.2:
        fields["tensor_active_pct"] = 9 + seq % 7 * 8.0
    return fields


def told(plain: list[dict[str, Any]], asked: Sequence[str]) -> tuple[list[Emission], list[Emission], bytes]:
    """What is sent at once, what the last flush says, and the state at the end. ``asked``: after each
    tick."""
    node, outs = operator(), list[Emission]()
    for number, (one, ask) in enumerate(zip(plain, asked, strict=True)):
        outs += node.update(record("nvml-samples", "a", one, number))
        if ask == "flush":
            node.flush()
        elif ask:
            state, before = to_bytes(node.snapshot()), node
            node = operator()
            node.restore(from_bytes(state))
            assert to_bytes(before.snapshot()) == state == to_bytes(node.snapshot())
    return outs, node.flush(), to_bytes(node.snapshot())


@pytest.mark.parametrize("seed", slow_after(1, range(4)))
def test_how_many_ticks_wait_and_when_something_is_asked_is_not_seen(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    plain, second, gpus, interval_ms = [], 10, 2, 1000
    for seq in range(200):
        second = max(second + chance.choice(SECONDS), 0)
        gpus = chance.choice([gpus] * 12 + [0, 1, 2, 3])
        interval_ms = chance.choice([interval_ms] * 20 + [1000, 2000])
        gpus_now = [gpu(at, **measured(at, seq, chance)) for at in range(gpus)]
        plain.append(nvml(seq, gpus_now, ts_ms=1000 * second, interval_ms=interval_ms))
    # A pod is not forgotten before it was sent: so flushes are at the same places.
    flushes = [chance.choice(["flush", *[""] * 20]) for _ in plain]
    monkeypatch.setattr(block, "MOST_WAITING", 1)
    expected = told(plain, flushes)
    for most in (3, 32):
        monkeypatch.setattr(block, "MOST_WAITING", most)
        assert told(plain, [flush or chance.choice(["restore", *[""] * 9]) for flush in flushes]) == expected
        assert told(plain, flushes) == expected

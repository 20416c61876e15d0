"""A GPU whose source repeats itself: told, and without figures until it moves."""

from typing import Any

import pytest

from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.workload.channels import ABSENT_CODE, NVML_CHANNELS, codes_from_text
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import plain_of

CONFIG = NodeConfig(topic="nvml-samples", source="nvml")
BEGINS, MOVES, END = 40, 160, 200
FIGURES = {"gpu_util_pct": 97.0, "power_w": 316.98, "temp_c": 52.0, "mem_used_bytes": 23_000_000}


def fed(figures: dict[str, Any], stored_at: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Parts for the insight of the pod: ``figures`` from second ``BEGINS`` to ``MOVES`` as they are,
    before and after with power that moves. The state is stored, and read again, at some seconds."""
    node = NodeOperator(CONFIG, "a", NvmlReader("a"))
    emissions = []
    for second in range(END):
        moves = {} if BEGINS <= second < MOVES else {"power_w": figures["power_w"] + second % 7 / 8 + 1}
        one = gpu(0, processes=[{"pid": 7, "pod_uid": "p"}], **(figures | moves))
        if second in stored_at:
            state = from_bytes(to_bytes(node.snapshot()))
            node = NodeOperator(CONFIG, "a", NvmlReader("a"))
            node.restore(state)
        emissions += node.update(record("nvml-samples", "a", nvml(second, [one]), second))
    return plain_of(emissions + node.close(), "insight-parts")


def test_it_is_told_with_its_beginning_and_has_no_figures_until_it_moves() -> None:
    parts = fed(FIGURES)
    first_ms = parts[0]["start_ms"]
    told = [part for part in parts if "frozen" in part]
    assert {(gpu, (ms - first_ms) // 1000) for part in told for gpu, ms in part["frozen"].items()} == {
        ("a/0", BEGINS)
    }
    seconds = [(part["start_ms"] - first_ms) // 1000 for part in told]
    assert seconds == list(range(seconds[0], MOVES - 10, 10))
    assert BEGINS + 50 <= seconds[0] <= BEGINS + 80
    codes = {
        (part["start_ms"] - first_ms) // 1000: codes_from_text(part["codes"], len(NVML_CHANNELS))
        for part in parts
    }
    assert (codes[MOVES - 20] == ABSENT_CODE).all()
    assert (codes[MOVES + 10] != ABSENT_CODE).any()


@pytest.mark.parametrize(
    "changed",
    [{"power_w": 317.0}, {"gpu_util_pct": 0.0}, {"power_w": 0.0}, {"temp_c": None, "mem_used_bytes": None}],
    ids=["whole watts", "no work", "no power", "too few figures"],
)
def test_what_may_well_stay_the_same_is_not_frozen(changed: dict[str, Any]) -> None:
    assert not any("frozen" in part for part in fed(FIGURES | changed))


def test_it_does_not_depend_on_when_the_state_is_stored() -> None:
    assert fed(FIGURES, (7, 83, 101, 104, 118, 131)) == fed(FIGURES)

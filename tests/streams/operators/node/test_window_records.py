"""Windows as records: what orjson would have written of the record's own class."""

import math

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import WindowAggregate
from streams.operators.base import Emission
from streams.operators.columns.series import Series
from streams.operators.node.figures import FIGURES, ClosedWindow
from streams.operators.node.window_records import WindowRecords

SERIES = [
    Series("gpu", 'a".0,b%s', "gpu_util_pct"),
    Series("gpu", 'a".0,b%s', "mem_total_bytes"),
    Series("pod", "p", "cpu_util_pct"),
    Series("gpu", 'a".0,b%s', "energy_j"),
]
NAN = math.nan

numbers = st.one_of(
    st.floats(-1e20, 1e20), st.integers(0, 10**17).map(float), st.integers(0, 100).map(float), st.just(-0.0)
)
gauge = st.lists(numbers, min_size=7, max_size=7).map(lambda of: [10.0, *of[:1], abs(of[1]), *of[2:], NAN])
counter = numbers.map(lambda one: [10.0, *[NAN] * 7, abs(one)])
ABSENT = [0.0, *[NAN] * 8]


def written(series: list[Series], figures: list[list[float]]) -> list[Emission]:
    made = WindowRecords("node.0", "nvml")
    made.resize(series)
    of_series = np.array(figures).reshape(-1, len(FIGURES))
    return made.of(ClosedWindow(10_000, 20_000, of_series, np.zeros((2, len(series)))))


def of(out: Emission) -> WindowAggregate:
    assert isinstance(out, ProducerRecord)
    assert (out.topic, out.ts_ms) == ("window-aggregates", 30_000)
    record = decode(WindowAggregate, out.value or b"", out.topic)
    assert out.key == record.subject.key
    return record


@given(st.tuples(gauge, gauge, gauge, counter))
def test_a_record_says_the_figures(figures: tuple[list[float], ...]) -> None:
    gpu, pod = written(SERIES, list(figures))
    assert of(gpu).subject.gpu == 'a".0,b%s'
    assert of(gpu).metrics.keys() == {"gpu_util_pct", "energy_j"}, "a capacity has no window"
    found = [of(gpu).metrics["gpu_util_pct"], of(pod).metrics["cpu_util_pct"], of(gpu).metrics["energy_j"]]
    for metric, row in zip(found, (figures[0], figures[2], figures[3]), strict=True):
        got = {name: getattr(metric, name) for name in FIGURES}
        assert got == {name: None if math.isnan(one) else one for name, one in zip(FIGURES, row, strict=True)}
        whole = [one for one in got.values() if one is not None and abs(one) < 2**53 and one == one // 1]
        assert {type(one) for one in whole} <= {int}


@given(st.tuples(gauge, counter))
def test_it_is_written_as_its_class_would_be(figures: tuple[list[float], ...]) -> None:
    (out,) = written([SERIES[0], SERIES[3]], list(figures))
    assert isinstance(out, ProducerRecord)
    assert orjson.loads(encode(of(out))) == orjson.loads(out.value or b"")
    assert list(orjson.loads(encode(of(out)))) == list(orjson.loads(out.value or b"")), "in the same order"


@pytest.mark.parametrize(
    ("figures", "metrics"),
    [
        ([ABSENT, ABSENT, ABSENT, ABSENT], []),
        ([ABSENT, ABSENT, [1.0] * 8 + [NAN], ABSENT], [("pod", {"cpu_util_pct"})]),
        ([ABSENT, ABSENT, ABSENT, [5.0, *[NAN] * 7, 0.0]], [("gpu", {"energy_j"})]),
        ([ABSENT, ABSENT, ABSENT, [5.0, *[NAN] * 8]], []),
    ],
    ids=["nothing", "only the pod", "only energy", "energy without a step"],
)
def test_what_is_absent_is_left_out(figures: list[list[float]], metrics: list[tuple[str, set[str]]]) -> None:
    records = [of(out) for out in written(SERIES, figures)]
    assert [(one.subject.kind, set(one.metrics)) for one in records] == metrics

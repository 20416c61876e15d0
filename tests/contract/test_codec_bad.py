"""Goal: every kind of bad payload gives a ``DecodeError`` that names topic, field and reason."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.codec import DecodeError, decode, encode
from contract.records.deadletter import Reason
from contract.records.derived import Forecast, Trend, gpu_subject
from contract.records.samples import Container, Gpu, GpuProcess, NvmlSample
from contract.topics import TOPICS
from tests.support.data.strategies import record_of

GPU = {"uuid": "GPU-1", "index": 0}
TICK = {"v": 1, "node": "a", "collector": "c", "seq": 0, "ts_ms": 1, "interval_ms": 1000, "gpus": [GPU]}
WINDOW: dict[str, Any] = {
    "v": 1, "subject": {"kind": "node", "node": "a"}, "metric": "m", "size_ms": 1, "start_ms": 0, "end_ms": 1,
    "count": 1, "mean": 1, "std": 0, "min": 1, "max": 1, "p50": 1, "p95": 1, "p99": 1,
}  # fmt: skip


def failure(data: bytes, topic: str = "nvml-samples") -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(TOPICS[topic].record, data, topic)
    assert caught.value.topic == topic
    assert str(caught.value) == f"{topic}: {caught.value.field}: {caught.value.detail}"
    return caught.value


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        pytest.param(b"", "byte 0", id="empty"),
        pytest.param(b"\x00\x01\x02", "byte 0", id="binary"),
        pytest.param(b"\xff\xfe{}", "UTF-8", id="not UTF-8"),
        pytest.param(b"hello", "byte 0", id="text"),
        pytest.param(b'{"v":1', "byte 6", id="cut off"),
        pytest.param(b'{"v":1}{"v":1}', "byte 7", id="two objects"),
        pytest.param(b'{"v":1,"seq":NaN}', "not JSON", id="NaN"),
        pytest.param(b'{"v":1,"seq":Infinity}', "not JSON", id="Infinity"),
        pytest.param(b'{"v":1,"seq":1e999}', "infinity", id="overflow to infinity"),
        pytest.param(b"[" * 2000, "not JSON", id="too deep"),
        pytest.param(b"null", "JSON null, not an object", id="null"),
        pytest.param(b"[]", "JSON array, not an object", id="array"),
        pytest.param(b'"{}"', "JSON string, not an object", id="string"),
        pytest.param(b"1.5", "JSON number, not an object", id="number"),
        pytest.param(b"true", "JSON boolean, not an object", id="boolean"),
    ],
)
def test_what_is_no_json_object(data: bytes, detail: str) -> None:
    error = failure(data)
    assert (error.field, error.reason) == ("payload", Reason.DECODE)
    assert detail in error.detail


@pytest.mark.parametrize(
    ("version", "reason", "detail"),
    [
        (2, Reason.VERSION, "version 2, this reader knows 1"),
        (0, Reason.VERSION, "version 0, this reader knows 1"),
        (-1, Reason.VERSION, "version -1, this reader knows 1"),
        ("1", Reason.SCHEMA, "no integer"),
        (1.0, Reason.SCHEMA, "no integer"),
        (True, Reason.SCHEMA, "no integer"),
        (None, Reason.SCHEMA, "missing"),
    ],
)
def test_versions(version: Any, reason: Reason, detail: str) -> None:
    error = failure(orjson.dumps(TICK | {"v": version}))
    assert (error.field, error.reason) == ("v", reason)
    assert detail in error.detail


def test_a_future_version_is_told_before_its_fields() -> None:
    assert failure(b'{"v":7,"entirely":"different"}').reason is Reason.VERSION


@pytest.mark.parametrize(
    ("change", "field", "detail"),
    [
        ({"node": None}, "node", "missing"),
        ({"node": 5}, "node", "5 is no string"),
        ({"node": ""}, "node", "0 characters, not 1 to 253"),
        ({"node": "a" * 254}, "node", "254 characters"),
        ({"node": "a/b"}, "node", "no name of letters"),
        ({"node": "a b"}, "node", "no name of letters"),
        ({"node": "nöde"}, "node", "no name of letters"),
        ({"node": "a\n"}, "node", "no name of letters"),
        ({"collector": "a\x00b"}, "collector", "cannot be printed"),
        ({"seq": -1}, "seq", "not within 0 to inf"),
        ({"seq": 1.5}, "seq", "1.5 is no integer"),
        ({"seq": "1"}, "seq", "'1' is no integer"),
        ({"seq": True}, "seq", "True is no integer"),
        ({"ts_ms": 1_700_000_000_000_000}, "ts_ms", "not within"),
        ({"ts_ms": -1}, "ts_ms", "not within"),
        ({"gpus": {}}, "gpus", "{} is no array"),
        ({"gpus": [GPU, 5]}, "gpus[1]", "5 is no object"),
        ({"gpus": [GPU, {"index": 1}]}, "gpus[1].uuid", "missing"),
        ({"gpus": [GPU | {"gpu_util_pct": 101}]}, "gpus[0].gpu_util_pct", "101 is not within 0 to 100"),
        ({"gpus": [GPU | {"power_w": -1}]}, "gpus[0].power_w", "not within"),
        ({"gpus": [GPU | {"power_w": "1"}]}, "gpus[0].power_w", "no number"),
        ({"gpus": [GPU | {"power_w": False}]}, "gpus[0].power_w", "False is no number"),
        ({"gpus": [GPU | {"temp_c": -300}]}, "gpus[0].temp_c", "not within"),
        ({"gpus": [GPU | {"throttle": [1]}]}, "gpus[0].throttle[0]", "no string"),
        ({"gpus": [GPU | {"throttle": "x"}]}, "gpus[0].throttle", "no array"),
        ({"gpus": [GPU | {"util_burst": [[0, 1], [1]]}]}, "gpus[0].util_burst[1]", "1 items, not 2"),
        ({"gpus": [GPU | {"util_burst": [[0.5, 1]]}]}, "gpus[0].util_burst[0]", "no integer"),
        ({"gpus": [GPU | {"processes": [{"pid": -4}]}]}, "gpus[0].processes[0].pid", "not within"),
    ],
)  # fmt: skip
def test_bad_fields_of_a_tick(change: dict[str, Any], field: str, detail: str) -> None:
    error = failure(orjson.dumps(TICK | change))
    assert (error.field, error.reason) == (field, Reason.SCHEMA)
    assert detail in error.detail


@pytest.mark.parametrize(
    ("topic", "plain", "field"),
    [
        ("window-aggregates", WINDOW | {"subject": "gpu/a/b"}, "subject"),
        ("window-aggregates", WINDOW | {"subject": {"node": "a"}}, "subject.kind"),
        ("window-aggregates", WINDOW | {"mean": None}, "mean"),
        ("cycles", WINDOW | {"ts_ms": 1, "cyclic": 0}, "cyclic"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "metrics": []}, "metrics"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "metrics": {"m": {}}}, "metrics['m'].max"),
    ],
)
def test_bad_fields_of_derived_records(topic: str, plain: dict[str, Any], field: str) -> None:
    error = failure(orjson.dumps(plain), topic)
    assert (error.field, error.reason) == (field, Reason.SCHEMA)


def test_a_huge_value_is_shown_in_part() -> None:
    assert len(str(failure(orjson.dumps(TICK | {"seq": "x" * 1_000_000})))) < 200


@given(st.sampled_from(sorted(TOPICS)), st.binary(max_size=64))
def test_garbage_never_escapes_as_another_error(topic: str, data: bytes) -> None:
    failure(data, topic)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.data(), st.sampled_from(sorted(TOPICS)), JSON)
def test_one_field_replaced_by_anything_decodes_or_names_that_field(
    data: st.DataObject, topic: str, value: Any
) -> None:
    record = TOPICS[topic].record
    plain = orjson.loads(encode(data.draw(record_of(record))))
    field = data.draw(st.sampled_from(sorted(plain)))
    payload = orjson.dumps(plain | {field: value})
    try:
        decode(record, payload, topic)
    except DecodeError as error:
        assert error.field.startswith(field)  # noqa: PT017 - decoding is allowed as well


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda bad: Gpu(uuid="g", index=0, power_w=bad), "power_w"),
        (lambda bad: Gpu(uuid="g", index=0, util_burst=((-1, 5.0), (0, bad))), "util_burst"),
        (lambda bad: Gpu(uuid="g", index=0, processes=(GpuProcess(pid=1, gpu_util_pct=bad),)), "GpuProcess"),
        (lambda bad: Container(id="c", cpu_util_pct=bad), "cpu_util_pct"),
        (
            lambda bad: Trend(
                subject=gpu_subject("a", "g"), metric="m", ts_ms=1, level=1.0, slope_per_s=0.0,
                forecast=(Forecast(horizon_s=1, value=bad, p05=0, p95=1),),
            ),
            "value",
        ),
    ],
)  # fmt: skip
def test_what_json_cannot_carry_is_refused_on_writing(make: Any, field: str, bad: float) -> None:
    with pytest.raises(ValueError, match=field):
        encode(make(bad))


def test_a_string_that_is_no_unicode_is_refused_on_writing() -> None:
    tick = NvmlSample(
        node="a", collector="c", seq=0, ts_ms=1, interval_ms=1,
        gpus=(Gpu(uuid="g", index=0, processes=(GpuProcess(pid=1, name="\udcff"),)),),
    )  # fmt: skip
    with pytest.raises(ValueError, match="NvmlSample"):
        encode(tick)

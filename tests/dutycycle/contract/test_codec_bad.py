"""Goal: every kind of bad payload gives a ``DecodeError`` that names topic, field and reason."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dutycycle.contract.codec import DecodeError, decode, encode
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.records.derived import Forecast, TrendMetric
from dutycycle.contract.records.samples import Container, Gpu, GpuProcess, NvmlSample
from dutycycle.contract.topics import TOPICS
from tests.support.data.strategies import record_of

CGROUP = {
    "v": 1, "node": "a", "collector": "c", "seq": 0, "ts_ms": 1, "interval_ms": 1000, "host": {}, "pods": [],
}  # fmt: skip
GPU = {"uuid": "GPU-1", "index": 0}
TICK = {"v": 1, "node": "a", "collector": "c", "seq": 0, "ts_ms": 1, "interval_ms": 1000, "gpus": [GPU]}
WHOLE = orjson.dumps(TICK)
WINDOW: dict[str, Any] = {
    "v": 1, "subject": {"kind": "node", "node": "a"}, "source": "cgroup",
    "size_ms": 1, "start_ms": 0, "end_ms": 1,
    "metrics": {"m": {"count": 1, "mean": 1, "std": 0, "min": 1, "max": 1, "p50": 1, "p95": 1, "p99": 1}},
}  # fmt: skip
CYCLE: dict[str, Any] = {"v": 1, "subject": {"kind": "node", "node": "a"}, "source": "nvml", "ts_ms": 1}


def failure(data: bytes, topic: str = "nvml-samples") -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        decode(TOPICS[topic].record, data, topic)
    assert caught.value.topic == topic
    assert str(caught.value) == f"{topic}: {caught.value.field}: {caught.value.detail}"
    return caught.value


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        pytest.param(b"", "truncated", id="empty"),
        pytest.param(b"\x00\x01\x02", "byte 0", id="binary"),
        pytest.param(b"\xff\xfe{}", "byte 0", id="UTF-16"),
        pytest.param(b'{"v":1,"node":"\xff"}', "utf-8", id="not UTF-8"),
        pytest.param(b"hello", "byte 0", id="text"),
        pytest.param(b'{"v":1', "truncated", id="cut off"),
        pytest.param(WHOLE + WHOLE, f"byte {len(WHOLE) + 1}", id="two objects"),
        pytest.param(b'{"v":1,"seq":NaN}', "not JSON", id="NaN"),
        pytest.param(b'{"v":1,"seq":Infinity}', "not JSON", id="Infinity"),
        pytest.param(b'{"v":1,"unknown":' + b"[" * 200_000, "not JSON", id="too deep"),
        pytest.param(b"null", "got `null`", id="null"),
        pytest.param(b"[]", "got `array`", id="array"),
        pytest.param(b'"{}"', "got `str`", id="string"),
        pytest.param(b"1.5", "got `float`", id="number"),
        pytest.param(b"true", "got `bool`", id="boolean"),
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
        (2**63, Reason.VERSION, f"version {2**63}, this reader knows 1"),
        ("1", Reason.SCHEMA, "Expected `int`"),
        (1.0, Reason.SCHEMA, "Expected `int`"),
        (True, Reason.SCHEMA, "Expected `int`"),
        (None, Reason.SCHEMA, "Expected `int`"),
    ],
)
def test_versions(version: Any, reason: Reason, detail: str) -> None:
    error = failure(orjson.dumps(TICK | {"v": version}))
    assert (error.field, error.reason) == ("v", reason)
    assert detail in error.detail


def test_a_record_says_its_version() -> None:
    error = failure(orjson.dumps({name: value for name, value in TICK.items() if name != "v"}))
    assert (error.field, error.reason, error.detail) == ("v", Reason.SCHEMA, "missing")


def test_a_future_version_is_told_before_its_fields() -> None:
    assert failure(b'{"entirely":"different","node":1,"v":7}').reason is Reason.VERSION


@pytest.mark.parametrize(
    ("change", "field", "detail"),
    [
        ({"node": None}, "node", "got `null`"),
        ({"node": 5}, "node", "Expected `str`, got `int`"),
        ({"node": ""}, "node", "length >= 1"),
        ({"node": "a" * 254}, "node", "length <= 253"),
        ({"node": "a/b"}, "node", "no name of letters"),
        ({"node": "a b"}, "node", "no name of letters"),
        ({"node": "nöde"}, "node", "no name of letters"),
        ({"node": "a\n"}, "node", "no name of letters"),
        ({"collector": 3}, "collector", "Expected `str`, got `int`"),
        ({"collector": "a\x00b"}, "collector", "cannot be printed"),
        ({"collector": "a\n"}, "collector", "cannot be printed"),
        ({"collector": "a\u202eb"}, "collector", "cannot be printed"),
        ({"collector": "a\x7fb"}, "collector", "cannot be printed"),
        ({"gpus": [GPU, GPU | {"model": "a\\\n"}]}, "gpus[1].model", "cannot be printed"),
        ({"gpus": [GPU | {"throttle": ["heat", "po\tw"]}]}, "gpus[0].throttle[1]", "cannot be printed"),
        ({"seq": -1}, "seq", ">= 0"),
        ({"seq": 1.5}, "seq", "Expected `int`, got `float`"),
        ({"seq": 1.0}, "seq", "Expected `int`, got `float`"),
        ({"seq": "1"}, "seq", "Expected `int`, got `str`"),
        ({"seq": True}, "seq", "Expected `int`, got `bool`"),
        ({"seq": 2**63}, "seq", f"<= {2**63 - 1}"),
        ({"ts_ms": 1_700_000_000_000_000}, "ts_ms", "<= 4102444800000"),
        ({"ts_ms": -1}, "ts_ms", ">= 0"),
        ({"interval_ms": None}, "interval_ms", "got `null`"),
        ({"gpus": {}}, "gpus", "Expected `array`, got `object`"),
        ({"gpus": None}, "gpus", "Expected `array`, got `null`"),
        ({"gpus": [GPU, 5]}, "gpus[1]", "Expected `object`, got `int`"),
        ({"gpus": [GPU, {"index": 1}]}, "gpus[1].uuid", "missing"),
        ({"gpus": [GPU | {"uuid": ""}]}, "gpus[0].uuid", "length >= 1"),
        ({"gpus": [GPU | {"gpu_util_pct": 101}]}, "gpus[0].gpu_util_pct", "<= 100"),
        ({"gpus": [GPU | {"gpu_util_pct": 100.5}]}, "gpus[0].gpu_util_pct", "<= 100"),
        ({"gpus": [GPU | {"power_w": -1}]}, "gpus[0].power_w", ">= 0"),
        ({"gpus": [GPU | {"power_w": 1e22}]}, "gpus[0].power_w", "<= 1e+21"),
        ({"gpus": [GPU | {"power_w": "1"}]}, "gpus[0].power_w", "Expected `int | float | null`, got `str`"),
        ({"gpus": [GPU | {"power_w": False}]}, "gpus[0].power_w", "got `bool`"),
        ({"gpus": [GPU | {"temp_c": -300}]}, "gpus[0].temp_c", ">= -273"),
        ({"gpus": [GPU | {"throttle": [1]}]}, "gpus[0].throttle[0]", "Expected `str`"),
        ({"gpus": [GPU | {"throttle": "x"}]}, "gpus[0].throttle", "Expected `array | null`"),
        ({"gpus": [GPU | {"util_burst": [[0, 1], [1]]}]}, "gpus[0].util_burst[1]", "of length 2"),
        ({"gpus": [GPU | {"util_burst": [[0.5, 1]]}]}, "gpus[0].util_burst[0][0]", "Expected `int`"),
        ({"gpus": [GPU | {"util_burst": [[-5, 900]]}]}, "gpus[0].util_burst[0][1]", "<= 100"),
        ({"gpus": [GPU | {"processes": [7]}]}, "gpus[0].processes[0]", "Expected `object`"),
        ({"gpus": [GPU | {"processes": [{"pid": -4}]}]}, "gpus[0].processes[0].pid", ">= 0"),
        ({"gpus": [GPU | {"processes": [{"pid": 1, "gpu_util_pct": 900}]}]},
         "gpus[0].processes[0].gpu_util_pct", "<= 100"),
        ({"gpus": [GPU | {"mig": [{"uuid": "m", "mem_used_bytes": -1}]}]},
         "gpus[0].mig[0].mem_used_bytes", ">= 0"),
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
        ("window-aggregates", WINDOW | {"metrics": None}, "metrics"),
        ("window-aggregates", WINDOW | {"metrics": {"m": {"mean": 1}}}, "metrics[...].count"),
        ("window-aggregates", WINDOW | {"metrics": {"m": {"count": 1, "std": -1}}}, "metrics[...].std"),
        ("cycles", CYCLE | {"metrics": {"m": {"cyclic": 0}}}, "metrics[...].cyclic"),
        ("cycles", CYCLE | {"metrics": []}, "metrics"),
        ("trends", CYCLE | {"metrics": {"m": {"slope_per_s": 0}}}, "metrics[...].level"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "metrics": []}, "metrics"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "metrics": {"m": {}}}, "metrics[...].max"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "gpus": {"a\x85": {}}}, "gpus[...]"),
        ("pod-parts", {"v": 1, "uid": "u", "source": "nvml", "attribution": {"a": "\ufeff"}},
         "attribution[...]"),
        ("cgroup-samples", CGROUP | {"host": []}, "host"),
        ("cgroup-samples", CGROUP | {"host": {"cpu_util_pct": "1"}}, "host.cpu_util_pct"),
        ("cgroup-samples", CGROUP | {"pods": [{"containers": []}]}, "pods[0].uid"),
        ("cgroup-samples",
         CGROUP | {"pods": [{"uid": "p", "containers": [{"id": "c", "mem_used_bytes": -2}]}]},
         "pods[0].containers[0].mem_used_bytes"),
    ],
)  # fmt: skip
def test_bad_fields_of_derived_records(topic: str, plain: dict[str, Any], field: str) -> None:
    error = failure(orjson.dumps(plain), topic)
    assert (error.field, error.reason) == (field, Reason.SCHEMA)


@pytest.mark.parametrize("around", ["", "ö", "\\"])
def test_all_text_can_be_printed_however_it_is_written(around: str) -> None:
    for character in map(chr, (*range(0x100), 0x2028, 0x4E16, 0x1F600)):
        text, escaped = around + character, "".join(f"\\u{ord(letter):04x}" for letter in around + character)
        written = [orjson.dumps(text)] + [f'"{escaped}"'.encode()] * (ord(character) < 0x10000)
        for sample in (WHOLE.replace(b'"c"', name) for name in written):
            if character == " " or character.isprintable():
                assert decode(NvmlSample, sample, "nvml-samples").collector == text, repr(text)
            else:
                assert failure(sample).field == "collector", repr(text)


def test_a_number_that_overflows_to_infinity() -> None:
    error = failure(orjson.dumps(TICK | {"gpus": [GPU | {"power_w": 7}]}).replace(b"7", b"1e999"))
    assert (error.field, error.reason) == ("gpus[0].power_w", Reason.SCHEMA)


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


FORECAST = Forecast(horizon_s=1, value=0, p05=0, p95=1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda bad: Gpu(uuid="g", index=0, power_w=bad), "power_w"),
        (lambda bad: Gpu(uuid="g", index=0, util_burst=((-1, 5.0), (0, bad))), r"Gpu\.util_burst\[1\]\[1\]"),
        (lambda bad: Gpu(uuid="g", index=0, processes=(GpuProcess(pid=1, gpu_util_pct=bad),)),
         r"Gpu\.processes\[0\]\.gpu_util_pct"),
        (lambda bad: Container(id="c", cpu_util_pct=bad), "cpu_util_pct"),
        (lambda bad: TrendMetric(level=1.0, slope_per_s=0.0, forecast=(replace(FORECAST, value=bad),)),
         r"TrendMetric\.forecast\[0\]\.value"),
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

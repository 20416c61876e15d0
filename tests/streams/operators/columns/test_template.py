"""Records that are read without decoding: what comes out is what decoding says, and nothing more fits."""

import random
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import decode
from dutycycle.contract.records.samples import CgroupSample, CudaSample, NvmlSample
from streams.operators.columns import template
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.cuda import CudaReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.tick import TickRow
from tests.support.data.samples import cgroup, gpu, nvml

_POD = "4f0c0000-0000-4000-8000-000000000001"


def _nvml(seq: int = 1, **fields: Any) -> dict[str, Any]:
    known = {
        "gpu_util_pct": 95,
        "mem_used_bytes": 64_941_456_750,
        "power_w": 262.945,
        "temp_c": -4.5,
    } | fields
    processes = [{"pid": 40, "pod_uid": _POD, "gpu_util_pct": 90.5, "mem_used_bytes": 7}]
    parts = [{"pod_uid": _POD, "namespace": "n", "pod": "p", "gpu_util_pct": 30.5, "mem_used_bytes": 6},
             {"namespace": "n", "pod": "q", "gpu_util_pct": 2}]  # fmt: skip
    slices = [{"uuid": "MIG-1", "gpu_util_pct": 3, "mem_used_bytes": 5}]
    gpus = [
        gpu(0, **known, throttle=[], util_burst=[[-900, 3], [-10, 50.5]], processes=processes),
        gpu(1, **known, power_limit_w=700, util_burst=[[-7, 9]], power_burst=[[0, 1.25]], mig=slices),
        gpu(2, gpu_util_pct=None, allocated=parts),
    ]
    return nvml(seq, gpus)


def _cgroup(seq: int = 1) -> dict[str, Any]:
    containers = [{"id": str(at), "cpu_util_pct": 12.5 * at, "mem_limit_bytes": 9, "io_read_bytes_per_s": at}
                  for at in range(3)]  # fmt: skip
    pods: list[dict[str, Any]] = [
        {"uid": "p", "containers": containers, "net_rx_bytes_per_s": 3},
        {"uid": "q", "containers": []},
    ]
    return cgroup(seq, {"cpu_util_pct": 640.25, "cpu_count": 64, "mem_used_bytes": 17}, pods)


def _cuda(seq: int = 1) -> dict[str, Any]:
    return {"v": 1, "node": "a", "collector": "c", "seq": seq, "ts_ms": 1000 * seq, "interval_ms": 1000,
            "pods": [{"uid": "p", "kernel_burst_pct": 3.5}, {"uid": "q", "memcpys_per_s": 4}]}  # fmt: skip


KINDS: dict[str, tuple[type[Any], Any, Any]] = {
    "nvml": (NvmlSample, lambda: NvmlReader("a"), _nvml),
    "cgroup": (CgroupSample, CgroupReader, _cgroup),
    "cuda": (CudaSample, CudaReader, _cuda),
}


def _decoded(kind: str, data: bytes) -> TickRow:
    record_type, reader, _ = KINDS[kind]
    tick: TickRow = reader().read(decode(record_type, data, f"{kind}-samples"))
    return tick


def _taught(kind: str, data: bytes) -> Any:
    """A reader that has read this record."""
    record_type, reader, _ = KINDS[kind]
    made = reader()
    made.read(decode(record_type, data, f"{kind}-samples"), data)
    return made


def _plain(tick: TickRow) -> list[Any]:
    """All of a tick; two are the same if this is, to the last bit."""
    bursts = [(one, np.array(burst, np.float64).tobytes()) for one, burst in tick.bursts]
    return [*tick[:5], tick.row.tobytes(), bursts]


_CELLS = st.one_of(
    st.integers(0, 100),
    st.floats(0, 100),
    st.decimals(0, 100, places=3).map(float),
    st.sampled_from([0, 100]),
)


def _other_numbers(plain: Any, number: st.SearchStrategy[float], draw: Any) -> Any:
    """The same record with other numbers where these may change, and bursts of other lengths."""
    if isinstance(plain, dict):
        fixed = ("v", "index", "pid", "interval_ms", "cpu_count")
        return {
            name: one if name in fixed
            else draw(st.integers(0, 10**12)) if name in ("seq", "ts_ms")
            else draw(st.lists(st.tuples(st.integers(-1000, 0), number), min_size=1, max_size=5))
            if name.endswith("_burst")
            else _other_numbers(one, number, draw)
            for name, one in plain.items()
        }  # fmt: skip
    if isinstance(plain, list):
        return [_other_numbers(one, number, draw) for one in plain]
    return draw(number) if isinstance(plain, int | float) else plain


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_what_is_read_is_what_decoding_says(kind: str, data: st.DataObject) -> None:
    first = KINDS[kind][2]()
    reader = _taught(kind, orjson.dumps(first))
    for _ in range(3):
        other = orjson.dumps(_other_numbers(first, _CELLS, data.draw))
        found = reader.read_unchanged(other)
        expected = _decoded(kind, other)
        if found is None:  # it has a number of more digits than can be exact
            found = reader.read(decode(KINDS[kind][0], other, "t"), other)
        assert _plain(found) == _plain(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_goes_on_is_not_decoded_again(kind: str) -> None:
    make = KINDS[kind][2]
    reader = _taught(kind, orjson.dumps(make(1)))
    for seq in range(2, 6):
        assert _plain(reader.read_unchanged(orjson.dumps(make(seq)))) == _plain(
            _decoded(kind, orjson.dumps(make(seq)))
        )


_BYTES = st.sampled_from([*b'0123456789-+.eE,:"[]{} \\nulltruea', 0, 200])


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_no_damage_is_accepted_that_decoding_refuses(kind: str, data: st.DataObject) -> None:
    """Bytes that are changed, put in or left out anywhere: what still fits means the same as when decoded."""
    whole = orjson.dumps(KINDS[kind][2]())
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(_BYTES, max_size=3).map(bytes))
    found = _taught(kind, whole).read_unchanged(bytes(damaged))
    if found is not None:
        assert _plain(found) == _plain(_decoded(kind, bytes(damaged)))


NUMBERS: list[tuple[str, str, bool]] = [
    ("whole", "95", True),
    ("with places", "95.25", True),
    ("nothing", "0", True),
    ("zero, with places", "0.0", True),
    ("the largest", "100", True),
    ("too large", "100.001", False),
    ("too small", "-0.001", False),
    ("minus zero", "-0", False),
    ("minus zero, with places", "-0.0", False),
    ("a zero before it", "05", False),
    ("an exponent", "1e1", False),
    ("no digit after the point", "5.", False),
    ("none before it", ".5", False),
    ("two points", "1.2.3", False),
    ("fifteen digits", "1.23456789012345", True),
    ("too many digits to be exact", "1.234567890123456", False),
    ("text", '"5"', False),
    ("none", "", False),
    ("not there", "null", False),
    ("a list", "[5]", False),
    ("a sign", "+5", False),
    ("a space", " 5", False),
]


@pytest.mark.parametrize(("goal", "number", "fits"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_which_numbers_are_read(goal: str, number: str, fits: bool) -> None:
    whole = orjson.dumps(_nvml())
    other = whole.replace(b'"gpu_util_pct":95', b'"gpu_util_pct":' + number.encode(), 1)
    found = _taught("nvml", whole).read_unchanged(other)
    assert (found is not None) == fits, goal
    if found is not None:
        assert _plain(found) == _plain(_decoded("nvml", other))


OTHERS: list[tuple[str, bytes, bytes]] = [
    ("another node", b'"node":"a"', b'"node":"b"'),
    ("another interval", b'"interval_ms":1000', b'"interval_ms":2000'),
    ("another version", b'"v":1', b'"v":2'),
    ("another process", b'"pid":40', b'"pid":41'),
    ("another pod", _POD.encode(), _POD.replace("4f0c", "5f0c").encode()),
    ("a reason to throttle", b'"throttle":[]', b'"throttle":["sw_power_cap"]'),
    ("a number that is gone", b',"power_w":262.945', b""),
    ("a number that came", b'"temp_c":-4.5', b'"temp_c":-4.5,"sm_clock_mhz":1980'),
    ("a moment that is not whole", b"[-900,3]", b"[-900.5,3]"),
    ("a pair of three", b"[-900,3]", b"[-900,3,3]"),
    ("a burst out of range", b"[-900,3]", b"[-900,101]"),
    ("no burst", b"[[-900,3],[-10,50.5]]", b"[]"),
    ("a burst that goes on and on", b"[[-900,3],[-10,50.5]]", b"[[-900,3],[-10,50.5]"),
    ("time that is not whole", b'"ts_ms":1000', b'"ts_ms":1000.5'),
    ("time in microseconds", b'"ts_ms":1000', b'"ts_ms":1700000000000000'),
    ("more behind it", b"]}", b"]} {}"),
    ("nothing", b"", b""),
]


@pytest.mark.parametrize(("goal", "old", "new"), OTHERS, ids=[row[0] for row in OTHERS])
def test_what_is_another_record_is_decoded(goal: str, old: bytes, new: bytes) -> None:
    whole = orjson.dumps(_nvml())
    other = new.join(whole.rpartition(old)[::2]) if old else b""
    assert other != whole, goal
    assert _taught("nvml", whole).read_unchanged(other) is None, goal


@pytest.mark.parametrize("data", [b'{"v":1}', b"[]", b"", None])
def test_before_the_first_record_there_is_nothing(data: bytes | None) -> None:
    assert NvmlReader("a").read_unchanged(data) is None


def test_a_record_that_does_not_fit_ends_the_template() -> None:
    """The reader lays out what it decoded last: a record like the one before would be put into that."""
    one, other = orjson.dumps(_nvml()), orjson.dumps(nvml(2, [gpu(7, power_w=3)]))
    reader = _taught("nvml", one)
    assert reader.read_unchanged(other) is None
    reader.read(decode(NvmlSample, other, "t"))
    assert reader.read_unchanged(one) is None


def test_where_templates_never_fit_few_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    make = template._Template

    def counted(data: bytes, fields: Any) -> Any:
        made.append(data)
        return make(data, fields)

    monkeypatch.setattr(template, "_Template", counted)
    reader, chance = NvmlReader("a"), random.Random(3)  # noqa: S311 - no secret
    for seq in range(1000):
        data = orjson.dumps(nvml(seq, [gpu(0, model=str(chance.random()), power_w=seq)]))
        assert reader.read_unchanged(data) is None
        reader.read(decode(NvmlSample, data, "t"), data)
    assert len(made) == 9, "of twice as many each time one"


@pytest.mark.parametrize(
    ("goal", "data"),
    [
        ("text with an escape", b'"collector":"c\\u0041"'),
        ("text that is not ASCII", '"collector":"\u00fc"'.encode()),
        ("a name that belongs elsewhere", b'"collector":"c","x":{"seq":2,"power_w":3}'),
        ("a list that belongs elsewhere", b'"collector":"c","x":{"util_burst":[[1,2]]}'),
    ],
)
def test_what_is_not_plain_has_no_template(goal: str, data: bytes) -> None:
    whole = orjson.dumps(_nvml()).replace(b'"collector":"c"', data)
    assert _decoded("nvml", whole), goal
    found = _taught("nvml", whole).read_unchanged(whole)
    assert found is None or _plain(found) == _plain(_decoded("nvml", whole)), goal

"""Goal: a trace gives back exactly what was written, in every form that ``kcat -J`` or a user may make."""

import gzip
import io
import sys
import tracemalloc
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.trace import TraceRecord, TraceWriter, decode_line, encode_line
from dutycycle.contract.trace_reader import TraceReader
from tests.support.data.traces import read_trace

SUFFIXES = [".jsonl", ".jsonl.gz", ".jsonl.zst"]
RECORDS = [
    TraceRecord(
        topic="dutycycle.nvml-samples", key="a", payload=b'{"v":1,"node":"a"}', partition=3, offset=7, ts_ms=9
    ),
    TraceRecord(topic="dutycycle.pods", key="4f0c", payload=None),
    TraceRecord(topic="dutycycle.nvml-samples", key=None, payload='{"name":"Zürich\\n\u2028"}'.encode()),
]

ANY_RECORD = st.builds(
    TraceRecord, topic=st.text(), key=st.none() | st.text(), payload=st.none() | st.text().map(str.encode),
    partition=st.integers(0, 2**31), offset=st.none() | st.integers(0, 2**62),
    ts_ms=st.none() | st.integers(0, 2**42),
)  # fmt: skip


def write(path: Path, records: list[TraceRecord]) -> bytes:
    with TraceWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


@given(ANY_RECORD)
def test_a_line_gives_back_its_record(record: TraceRecord) -> None:
    line = encode_line(record)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_line(line) == record


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("records", [RECORDS, [], RECORDS * 500], ids=["a few", "none", "many"])
def test_a_file_gives_back_its_records_and_is_the_same_under_each_name(
    tmp_path: Path, suffix: str, records: list[TraceRecord]
) -> None:
    assert write(tmp_path / ("a" + suffix), records) == write(tmp_path / ("b" + suffix), records)
    assert list(read_trace(str(tmp_path / ("a" + suffix)))) == records


def test_the_suffix_says_the_compression(tmp_path: Path) -> None:
    plain = write(tmp_path / "t.jsonl", RECORDS)
    zipped = write(tmp_path / "t.gz", RECORDS)
    assert (gzip.decompress(zipped), zipped[4:8]) == (plain, bytes(4)), "it carries no time"
    packed = write(tmp_path / "t.zst", RECORDS)
    assert zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed)).read() == plain
    assert [orjson.loads(line)["topic"] for line in plain.splitlines()] == [r.topic for r in RECORDS]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_files_put_one_after_the_other_are_one_trace(tmp_path: Path, suffix: str) -> None:
    part = write(tmp_path / ("part" + suffix), RECORDS)
    whole = tmp_path / ("whole" + suffix)
    whole.write_bytes(part + part)
    assert list(read_trace(str(whole))) == RECORDS * 2


def test_standard_input_and_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TraceWriter("-") as writer:
        writer.write(RECORDS[0])
    assert not sys.stdout.buffer.closed
    written = capfdbinary.readouterr().out
    assert written == encode_line(RECORDS[0])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(written))))
    assert list(read_trace("-")) == [RECORDS[0]]
    assert not sys.stdin.buffer.closed


BY_OTHERS = {
    "as kcat prints it": (
        '{"topic":"t","partition":1,"offset":2,"tstype":"create","ts":3,"broker":0,"headers":["a","b"],'
        '"key":"k","payload":"{\\"v\\":1}"}',
        TraceRecord(topic="t", key="k", payload=b'{"v":1}', partition=1, offset=2, ts_ms=3),
    ),
    "payload as an object": ('{"topic":"t","key":"k","payload":{"v":1,"name":"ü"}}',
                             TraceRecord(topic="t", key="k", payload='{"v":1,"name":"ü"}'.encode())),
    "only what is required": ('{"payload":"x","key":"k","topic":"t"}',
                              TraceRecord(topic="t", key="k", payload=b"x")),
    "tombstone": ('{"topic":"t","key":"k","payload":null}', TraceRecord(topic="t", key="k", payload=None)),
    "no key, empty payload": ('{"topic":"t","key":null,"payload":""}',
                              TraceRecord(topic="t", key=None, payload=b"")),
    "null counts as absent": (
        '{"topic":"t","key":"k","payload":"x","partition":null,"offset":null,"ts":null}',
        TraceRecord(topic="t", key="k", payload=b"x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "record"), BY_OTHERS.values(), ids=BY_OTHERS)
def test_lines_that_others_wrote(line: str, record: TraceRecord) -> None:
    assert decode_line(line.encode()) == record


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\n\n", b""])
def test_line_ends_and_blank_lines(tmp_path: Path, ending: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n" + encode_line(RECORDS[0]) + encode_line(RECORDS[1]).rstrip() + ending)
    assert list(read_trace(str(path))) == RECORDS[:2]


@pytest.mark.parametrize(
    ("key", "payload"),
    [("k", b"\xff\xfe"), ("k", b"caf\xe9 {}"), ("k", b"\x80" * 5), ("\udcff", b"{}"), ("a\udc80b", b"{}")],
)
def test_what_is_no_utf8_is_shown_with_replacement_characters(key: str, payload: bytes) -> None:
    shown = decode_line(encode_line(TraceRecord(topic="t", key=key, payload=payload)))
    assert shown.key == key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    assert shown.payload == payload.decode("utf-8", "replace").encode()


FORMAT = r"a trace is JSON lines, not \w+: name it \.jsonl"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none/t.jsonl", "No such file or directory"), (".", "Is a directory"),
     *((name, FORMAT) for name in ("x.csv", "x.parquet", "x.CSV.gz", "x.tsv.zst"))],
)  # fmt: skip
def test_a_place_that_cannot_be_written(tmp_path: Path, name: str, reason: str) -> None:
    path = tmp_path / name
    with pytest.raises(DutycycleError, match=reason) as caught:
        TraceWriter(str(path)).__enter__()
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_is_there_is_kept_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "keep.jsonl"
    path.write_bytes(b"kept")
    with pytest.raises(DutycycleError, match=r"keep\.jsonl is there already: give another name, or --force"):
        TraceWriter(str(path), overwrite=False).__enter__()
    with pytest.raises(RuntimeError), TraceWriter(str(path)):
        raise RuntimeError
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"kept", [path])
    with TraceWriter(str(path)) as writer:
        writer.write(RECORDS[0])
        assert path.read_bytes() == b"kept"
    assert list(read_trace(str(path))) == RECORDS[:1]
    assert list(tmp_path.iterdir()) == [path]


def test_what_came_before_an_error_is_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    writer = TraceWriter(str(path)).__enter__()
    writer.write(RECORDS[0])
    writer.__exit__(RuntimeError, RuntimeError(), None)
    assert list(read_trace(str(path))) == RECORDS[:1]


def test_records_that_are_all_alike_are_not_copied_again_and_again(tmp_path: Path) -> None:
    """A chunk of such a file holds all of it. With a copy for each piece that is taken, time is quadratic."""
    path, payload, count = str(tmp_path / "t.jsonl.zst"), b"x" * 1000, 5000
    with TraceWriter(path) as trace:
        for _ in range(count):
            trace.write(TraceRecord(topic="t", key=None, payload=payload))
    tracemalloc.start()
    next(iter(TraceReader(path)))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1.5 * count * len(payload)

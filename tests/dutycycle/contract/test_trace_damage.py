"""Goal: damage is told with file, line and reason, and every whole line before it is still given out."""

import codecs
import gzip
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from dutycycle.contract.trace import TraceError, TraceRecord, TraceWriter, encode_line
from dutycycle.contract.trace_reader import TraceReader
from tests.support.data.traces import read_trace, write_trace

SEED = 20_240
_CHANCE = random.Random(SEED)  # noqa: S311 - test data
RECORDS = [
    TraceRecord(topic="t", key=f"k{number}", payload=_CHANCE.randbytes(40).hex().encode(), offset=number)
    for number in range(2000)
]
PLAIN = b"".join(map(encode_line, RECORDS))


def write(path: Path) -> bytes:
    return write_trace(path, RECORDS).read_bytes()


def read_until_error(path: Path) -> tuple[list[TraceRecord], TraceError]:
    found: list[TraceRecord] = []
    with pytest.raises(TraceError) as caught:
        found.extend(read_trace(str(path)))  # what came before the error stays in the list
    place = f"{path}:{caught.value.line}" if caught.value.line else str(path)
    assert str(caught.value) == f"{place}: {caught.value.reason}"
    return found, caught.value


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"garbage", "not JSON: invalid character (byte 0)"),
        (b"\xff\xfe", "not JSON"),
        (b'{"topic":"\xff","key":"k","payload":"p"}', "not JSON: 'utf-8' codec"),
        (b'{"topic":"t","key":"k","payload":' + b'{"a":' * 200_000, "not JSON"),
        (b"[1]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b'{"key":"k","payload":"p"}', "missing required field `topic`: a line has topic, key and payload"),
        (b'{"topic":"t","payload":"p"}', "missing required field `key`"),
        (b'{"topic":"t","key":"k"}', "missing required field `payload`"),
        (b'{"topic":5,"key":"k","payload":"p"}', "Expected `str`, got `int` - at `$.topic`"),
        (b'{"topic":null,"key":"k","payload":"p"}', "got `null` - at `$.topic`"),
        (b'{"topic":"t","key":5,"payload":"p"}', "Expected `str | null`, got `int` - at `$.key`"),
        (b'{"topic":"t","key":"k","payload":5}', "got `int` - at `$.payload`"),
        (b'{"topic":"t","key":"k","payload":[1]}', "got `array` - at `$.payload`"),
        (b'{"topic":"t","key":"k","payload":"p","partition":"0"}', "got `str` - at `$.partition`"),
        (b'{"topic":"t","key":"k","payload":"p","offset":1.5}', "got `float` - at `$.offset`"),
        (b'{"topic":"t","key":"k","payload":"p","ts":true}', "got `bool` - at `$.ts`"),
        (encode_line(RECORDS[0])[:-20], "not JSON"),
    ],
)  # fmt: skip
def test_a_bad_line_in_the_middle(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n" + encode_line(RECORDS[0]) + line + b"\n" + encode_line(RECORDS[1]))
    found, error = read_until_error(path)
    assert found == RECORDS[:1]
    assert error.line == 3
    assert reason in error.reason


@pytest.mark.parametrize(
    ("line", "is_hinted"),
    [
        (b"timestamp, index, power.draw [W]", True), (b'{"_timestamp":1,"system.gpu.0.gpu":5}', True),
        (b":W&B\xe1\xbe\x00", True), (b"PAR1\x15", True), (b'{"topic":"t","key":"k"}', False),
    ],
)  # fmt: skip
def test_a_log_of_another_program_is_hinted_at(tmp_path: Path, line: bytes, is_hinted: bool) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line + b"\n")
    _, error = read_until_error(path)
    assert ("a log of another program becomes a trace by dutycycle import" in error.reason) == is_hinted


@pytest.mark.parametrize("cut", [1, 2, 30, 100])
def test_a_plain_file_cut_off_inside_a_line(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(PLAIN[: -1 - cut])
    found, error = read_until_error(path)
    assert found == RECORDS[:-1]
    assert error.line == len(RECORDS)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.9999])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_file_cut_off(tmp_path: Path, suffix: str, share: float) -> None:
    """Whether an error is raised or told, it comes after the records before it."""
    path = tmp_path / f"t{suffix}"
    data = write(path)
    path.write_bytes(data[: int(len(data) * share)])
    found, error = read_until_error(path)
    assert found == RECORDS[: len(found)]
    assert error.line == len(found) + 1
    assert "damaged or cut off" in error.reason
    if suffix == ".gz":
        left = zlib.decompressobj(wbits=31).decompress(path.read_bytes())
        assert len(found) == left.count(b"\n")
    told = list[TraceError]()
    assert [record for _, record in TraceReader(str(path), bad=told.append)] == found
    assert ["cut off" in error.reason for error in told] == [True]
    assert share != 0.5 or 0 < len(found) < len(RECORDS)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_flipped_bit_is_never_taken_for_data(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / ("t" + suffix)
    data = write(path)
    for seed in range(40):
        at = random.Random(seed).randrange(10, len(data))  # noqa: S311 - past the header, whose bits carry no data
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << (seed % 8)]) + data[at + 1 :])
        found, error = read_until_error(path)
        assert error.line >= 1, seed
        assert len(found) <= len(RECORDS), seed


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("data", [b"no such format", b"\x00" * 100], ids=["text", "zeros"])
def test_a_file_that_is_no_trace(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / ("t" + suffix)
    path.write_bytes(data)
    found, error = read_until_error(path)
    assert found == []
    assert (error.line, error.reason[:8]) == (1, "not JSON")


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_first_bytes_tell_and_not_the_name(tmp_path: Path, packed: str, suffix: str) -> None:
    written = tmp_path / ("written.jsonl" + packed)
    with TraceWriter(str(written)) as writer:
        writer.write(RECORDS[0])
    renamed = written.rename(tmp_path / ("renamed" + suffix))
    assert [record for _, record in TraceReader(str(renamed))] == [RECORDS[0]]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_garbage_after_the_end(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / ("t" + suffix)
    path.write_bytes(write(path) + b"garbage")
    found, error = read_until_error(path)
    assert found == RECORDS
    assert error.line == len(RECORDS) + 1


@pytest.mark.parametrize(("name", "reason"), [("none.jsonl", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_opened(tmp_path: Path, name: str, reason: str) -> None:
    _, error = read_until_error(tmp_path / name)
    assert error.line == 0
    assert reason in error.reason


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_mark_before_utf8_is_passed_over(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "t").write_bytes(pack(codecs.BOM_UTF8 + b'{"topic":"t","key":"a","payload":"x"}\n'))
    assert [record.key for record in read_trace(str(tmp_path / "t"))] == ["a"]


@pytest.mark.parametrize("bad", [None, lambda error: None])
def test_a_trace_in_utf16_is_refused_with_its_mend(
    tmp_path: Path, bad: Callable[[TraceError], None] | None
) -> None:
    (tmp_path / "t").write_bytes('{"topic":"t","key":"a","payload":"x"}\n'.encode("utf-16"))
    with pytest.raises(TraceError, match="is in UTF-16, as what PowerShell redirects: write it by --out"):
        list(TraceReader(str(tmp_path / "t"), bad=bad))


def test_a_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_line(RECORDS[0]) + b"x" * 5000)
    lines = iter(TraceReader(str(path), longest_line=1000))
    assert next(lines) == (1, RECORDS[0])
    with pytest.raises(TraceError, match=r":2: a line of over 1000 bytes"):
        next(lines)


def test_bad_lines_are_told_and_the_others_read(tmp_path: Path) -> None:
    path, told = tmp_path / "t.jsonl", list[TraceError]()
    bad = [b"garbage\n", b"x" * 2500 + b"\n", b"[]\n"]
    path.write_bytes(
        b"".join(part for pair in zip(map(encode_line, RECORDS), bad, strict=False) for part in pair)
    )
    reader = TraceReader(str(path), bad=told.append, longest_line=1000)
    found = list(reader)
    assert [one for _, one in found] == RECORDS[:3]
    assert [one.reason.partition(":")[0] for one in told] == [
        "not JSON", "a line of over 1000 bytes", "Expected `object`, got `array`",
    ]  # fmt: skip
    assert [one.line for one in told] == [2, 4, 6]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_position_ends_at_the_size(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    size = len(write(path))
    reader = TraceReader(str(path))
    lines = iter(reader)
    assert reader.position() == 0
    next(lines)
    assert 0 < reader.position() <= size
    for _ in lines:
        last = reader.position()
    assert last == size

"""Records that are kept until the state that covers them is stored."""

from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.log import ConsumerRecord
from streams.runtime.record_packer import RecordPacker, bytes_of_first
from tests.support.examples import examples

VALUES = st.none() | st.binary(max_size=300) | st.binary(min_size=1, max_size=3).map(lambda few: 70_000 * few)


@given(st.lists(st.tuples(VALUES, st.integers(0, 2**62), st.integers(0, 2**62)), max_size=8))
@settings(max_examples=examples(100))
def test_records_come_back_as_they_were(given_records: list[tuple[bytes | None, int, int]]) -> None:
    packer = RecordPacker()
    records = [ConsumerRecord("t", 2, at, "k", value, ts_ms) for value, at, ts_ms in given_records]
    packed = [packer.pack(record, record.ts_ms + 1) for record in records]
    expected = [(record, record.ts_ms + 1) for record in records]
    together = b"".join(packed)
    assert [*packer.unpack(together, "t", 2, "k")] == expected
    ends = [*accumulate(map(len, packed), initial=0)]
    assert [bytes_of_first(together, count) for count in range(len(packed) + 1)] == ends


def test_what_differs_in_numbers_alone_takes_little_room() -> None:
    packer = RecordPacker()
    values = [b'{"node":"n-%d","gpus":[%b]}' % (at, b'{"util":87,"power":421.5},' * 30) for at in range(2)]
    _, packed = (packer.pack(ConsumerRecord("t", 0, at, "k", v, 0), 0) for at, v in enumerate(values))
    assert len(packed) < len(values[1]) / 10

"""Goal: what is encoded decodes to the same record, for every record type and every mix of absent fields."""

import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from dutycycle.contract.codec import decode, encode, from_plain, to_plain
from dutycycle.contract.records.samples import Gpu
from dutycycle.contract.topics import TOPICS
from tests.support.data.strategies import record_of

ANY_RECORD = st.one_of(
    *(st.tuples(st.just(topic.name), record_of(topic.record)) for topic in TOPICS.values())
)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", TOPICS)
def test_every_record_type_is_generated_and_survives(name: str) -> None:
    @given(record_of(TOPICS[name].record))
    def check(record: Any) -> None:
        data = encode(record)
        again: Any = decode(TOPICS[name].record, data, name)
        assert again == record
        assert encode(again) == data

    check()


@given(ANY_RECORD)
def test_no_null_and_no_absent_field_is_written(case: tuple[str, Any]) -> None:
    _, record = case

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            assert None not in value.values()
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(one)  # of numbers in a list the place says which it is: one that is not known is null

    plain = orjson.loads(encode(record))
    walk(plain)
    present = {one.name for one in fields(record) if getattr(record, one.name) != one.default}
    assert set(plain) == {"v"} | present


@given(ANY_RECORD)
def test_fields_are_written_in_the_order_of_the_contract(case: tuple[str, Any]) -> None:
    _, record = case
    order = ["v", *record.__struct_fields__]
    written = list(orjson.loads(encode(record)))
    assert written == [name for name in order if name in written]
    assert written[0] == "v"


@given(ANY_RECORD, st.dictionaries(st.text(min_size=1).map("x_".__add__), st.booleans()))
def test_unknown_fields_are_ignored(case: tuple[str, Any], unknown: dict[str, int]) -> None:
    name, record = case
    data = orjson.dumps(orjson.loads(encode(record)) | unknown)
    assert decode(TOPICS[name].record, data, name) == record


@given(ANY_RECORD)
def test_plain_values_are_what_the_bytes_say(case: tuple[str, Any]) -> None:
    name, record = case
    assert orjson.loads(orjson.dumps(to_plain(record))) == orjson.loads(encode(record))
    assert from_plain(TOPICS[name].record, orjson.loads(encode(record)), name) == record


def test_null_in_an_optional_field_counts_as_absent() -> None:
    data = b'{"uuid":"GPU-1","index":0,"gpu_util_pct":null,"mig":null}'
    assert from_plain(Gpu, orjson.loads(data), "nvml-samples") == Gpu(uuid="GPU-1", index=0)


def test_idle_and_absent_are_different() -> None:
    idle = encode(Gpu(uuid="GPU-1", index=0, gpu_util_pct=0, throttle=()))
    assert idle == b'{"uuid":"GPU-1","index":0,"gpu_util_pct":0,"throttle":[]}'
    assert encode(Gpu(uuid="GPU-1", index=0)) == b'{"uuid":"GPU-1","index":0}'


@pytest.mark.parametrize("length", [1, 1_000, 30_000])
def test_what_is_encoded_takes_no_more_memory_than_its_length(length: int) -> None:
    record = Gpu(uuid="G" * length, index=0)
    encode(record)
    tracemalloc.start()
    try:
        data = encode(record)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < len(data) + 200

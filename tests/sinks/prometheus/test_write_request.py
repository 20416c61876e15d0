"""Goal: Google's library reads what we encode; labels are sorted; what is gone is ended once."""

import math
import struct

from hypothesis import given
from hypothesis import strategies as st

from sinks.prometheus.write_request import WriteRequests
from tests.support.fakes.remote_write_receiver import decoded

TS_MS = 1_700_000_000_123
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


def stale(value: float) -> bool:
    """By its bits: any other NaN is a value."""
    return struct.pack("<d", value).hex() == "020000000000f07f"


@given(
    st.dictionaries(TEXT.filter(lambda name: name != "__name__"), TEXT, max_size=5),
    st.floats(allow_nan=False),
    st.integers(0, 2**62),
)
def test_what_is_encoded_is_read_again(labels: dict[str, str], value: float, ts_ms: int) -> None:
    (request,) = WriteRequests({}).at(ts_ms, [("up", labels, value)])
    ((found, read, at_ms),) = decoded(request.body)
    assert dict(found) == {**labels, "__name__": "up"}
    assert [name for name, _ in found] == sorted((name for name, _ in found), key=str.encode)
    assert (read, at_ms, request.samples) == (value, ts_ms, 1)


def test_labels_of_all_series_yield_to_their_own_and_empty_ones_are_left_out() -> None:
    requests = WriteRequests({"job": "ours", "cluster": "a", "none": ""})
    (request,) = requests.at(TS_MS, [("up", {"job": "theirs", "pod": ""}, 1)])
    assert decoded(request.body)[0][0] == [("__name__", "up"), ("cluster", "a"), ("job", "theirs")]


def test_a_series_that_is_gone_is_ended_once_and_may_come_again() -> None:
    requests = WriteRequests({})
    both = [("up", {"pod": "a"}, 1.0), ("up", {"pod": "b"}, math.nan)]
    told = []
    for step, samples in enumerate((both, both[:1], both[:1], both, [])):
        found = [row for request in requests.at(TS_MS + step, samples) for row in decoded(request.body)]
        assert all(at_ms == TS_MS + step for _, _, at_ms in found)
        told.append({dict(labels)["pod"]: "end" if stale(value) else "value" for labels, value, _ in found})
    assert told == [
        {"a": "value", "b": "value"},
        {"a": "value", "b": "end"},
        {"a": "value"},
        {"a": "value", "b": "value"},
        {"a": "end", "b": "end"},
    ]


def test_many_samples_are_several_requests() -> None:
    requests = WriteRequests({}).at(TS_MS, [("up", {"pod": str(number)}, number) for number in range(4500)])
    assert [request.samples for request in requests] == [2000, 2000, 500]
    values = [value for request in requests for _, value, _ in decoded(request.body)]
    assert values == list(range(4500))
    assert requests[0].samples == len(decoded(requests[0].body))

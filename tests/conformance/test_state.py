"""Conformance of every stage: what is stored of a key is all there is of it, and a restart is not seen."""

import math
from typing import Any

import pytest

from streams.operators.base import Snapshot, Stage
from streams.state.codec import from_bytes, to_bytes
from tests.support.streams.conformance_feed import (
    EMPTY,
    LONG,
    every_stage,
    every_stage_with_state,
    every_stage_without_state,
    inputs,
    keys_of,
    resumed,
    run,
    stored,
)
from tests.support.targets import slow_after

_GROWTH = 1.08


@every_stage
def test_a_snapshot_is_plain_data_with_a_version(stage: Stage) -> None:
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    for count, one in enumerate(inputs(stage, key)):
        operator.update(one)
        if count % 7 == 0:
            plain = operator.snapshot()
            assert _unlike_plain(plain, stage.name) == []
            assert type(plain["v"]) is int
            assert plain["v"] >= 1


def _unlike_plain(value: Any, path: str) -> list[str]:
    """The places below ``path`` that MessagePack cannot carry as they are; a tuple counts as a list."""
    if type(value) is dict:
        odd = [f"{path}: key {name!r}" for name in value if type(name) is not str]
        return odd + [bad for name, one in value.items() for bad in _unlike_plain(one, f"{path}.{name}")]
    if type(value) in (list, tuple):
        return [bad for at, one in enumerate(value) for bad in _unlike_plain(one, f"{path}[{at}]")]
    if type(value) is float and not math.isfinite(value):
        return [f"{path}: {value}"]
    return (
        [] if value is None or type(value) in (str, bytes, int, float, bool) else [f"{path}: {type(value)}"]
    )


@every_stage
@pytest.mark.parametrize("every", slow_after(1, [5, 1]))
def test_a_restart_changes_nothing(stage: Stage, every: int) -> None:
    """Before each record, or before some: the same emissions, and byte for byte the same state."""
    key = keys_of(stage)[0]
    whole, operator = stage.build(key, None), stage.build(key, None)
    for count, one in enumerate(inputs(stage, key)):
        checkpoint = count % every == 0
        operator = resumed(stage, key, stored(operator)) if checkpoint else operator
        assert operator.update(one) == whole.update(one), one.offset
        if count % 4 == 3:
            operator = resumed(stage, key, stored(operator)) if checkpoint else operator
            assert operator.flush() == whole.flush(), one.offset
    assert stored(operator) == stored(whole)
    assert operator.close() == whole.close()


@every_stage_with_state
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_what_an_operator_goes_on_from_is_left_alone(stage: Stage, share: float) -> None:
    """It is the caller's, who may build from it again."""
    key = keys_of(stage)[0]
    records = inputs(stage, key)
    checkpoint = int(share * len(records))
    operator = stage.build(key, None)
    run(operator, records[:checkpoint])
    state = stored(operator)
    given: Snapshot = from_bytes(state)
    operator = stage.build(key, given)
    run(operator, records[checkpoint:])
    operator.close()
    assert to_bytes(given) == state


@every_stage_with_state
def test_a_snapshot_stays_as_it_was_taken(stage: Stage) -> None:
    """Whoever takes one may send it later."""
    key = keys_of(stage)[0]
    records = inputs(stage, key)
    operator = stage.build(key, None)
    run(operator, records[: len(records) // 2])
    taken = operator.snapshot()
    before = to_bytes(taken)
    run(operator, records[len(records) // 2 :])
    operator.close()
    assert to_bytes(taken) == before


@every_stage_with_state
@pytest.mark.parametrize("version", ["older", "newer", 0, -1, 10**6, "1", None, "missing"])
def test_another_version_is_refused(stage: Stage, version: Any) -> None:
    """With ``ValueError``: the task then begins the key anew, and counts it."""
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    run(operator, inputs(stage, key)[:3])
    plain = operator.snapshot()
    today = plain.pop("v")
    if version != "missing":
        plain["v"] = {"older": today - 1, "newer": today + 1}.get(version, version)
    with pytest.raises(ValueError, match="version"):
        stage.build(key, plain)


@pytest.mark.slow
@every_stage_with_state
def test_the_state_stays_small(stage: Stage) -> None:
    """After a quarter of an hour it is hardly larger than after ten minutes. Earlier, what is forecast five
    minutes ahead is not known yet; and means of ten seconds, of which 600 are kept, fill theirs for hours."""
    key = keys_of(stage, LONG)[0]
    records = inputs(stage, key, LONG)
    operator, most = stage.build(key, None), {2 * len(records) // 3: 0, len(records): 0}
    for count, one in enumerate(records, 1):
        operator.update(one)
        operator.flush()
        for end in most:
            if end - 8 < count <= end:
                most[end] = max(most[end], len(stored(operator)))
    early, late = most.values()
    assert late < _GROWTH * early


@every_stage_with_state
def test_a_key_has_its_state_for_itself(stage: Stage) -> None:
    """A key emits the same alone and in turn with another; one that is new begins with nothing."""
    first, second = keys_of(stage)[:2]
    records, of_other = inputs(stage, first), inputs(stage, second)
    alone = stage.build(first, None)
    emitted = [[*alone.update(record), *alone.flush()] for record in records]
    one, other = stage.build(first, None), stage.build(second, None)
    for at, record in enumerate(records):
        run(other, of_other[at : at + 1])
        other.flush()
        assert [*one.update(record), *one.flush()] == emitted[at]
    assert stored(one) == stored(alone)
    assert stored(stage.build("new", None)) == EMPTY[stage.name]


@every_stage_without_state
def test_a_stage_without_state_keeps_none(stage: Stage) -> None:
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    for one in inputs(stage, key):
        fresh = stage.build(key, None)
        assert operator.update(one) == fresh.update(one)
        assert operator.flush() == []
        assert stored(operator) == stored(stage.build(key, None))

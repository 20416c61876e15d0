"""Whether the log of a source is still the one that the states were made from.

Where it begins anew, its records count from lower offsets than the states say, and would be taken for read.
What is right then can say only who knows what happened: after a deletion every record is new, in a restored
copy each is known. So the worker ends and says what to do.
"""

from collections import defaultdict
from collections.abc import Iterable

from streams.state.record import clock_key, is_ours, name_of, offset_of, partition_of


def read_to(states: Iterable[tuple[bytes, bytes]]) -> dict[int, int]:
    """The offset after the last record that the states of a stage have seen, by partition.

    Two have to say so, as a clock and a state do: a damaged record, or one of somebody's hand, shall not stop
    everybody. Where there is no clock, nothing of ours was ever stored.
    """
    offsets: dict[int, list[int]] = defaultdict(list)
    timed: set[int] = set()
    for key, value in states:
        if not is_ours(key):
            continue
        partition = partition_of(key)
        is_clock = key == clock_key(partition)
        if is_clock or name_of(key) is not None:
            offsets[partition].append(offset_of(value))
        if is_clock and offset_of(value) >= 0:
            timed.add(partition)
    return {partition: sorted(offsets[partition])[-2:][0] + 1 for partition in sorted(timed)}


def how_to_begin_anew(topic: str, changelogs: Iterable[str], group: str) -> str:
    """What to do, in words. ``changelogs`` hold the state that is kept of ``topic``; all by full names."""
    states = "".join(f"the topic {one} and " for one in sorted(changelogs))
    return (
        f"stop the stream workers, delete {states}the offsets that the consumer group {group} has committed "
        f"of {topic}, and start again: they begin with the oldest record that is there"
    )

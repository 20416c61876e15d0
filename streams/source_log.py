"""Whether the log of a source is still the one that the states were made from.

Where it begins anew, its records count from lower offsets than the states say, and would be taken for read.
What is right then can say only who knows what happened: after a deletion every record is new, in a restored
copy each is known. So the worker ends and says what to do.
"""

from collections import defaultdict
from collections.abc import Iterable

from streams.state_record import clock_key, is_ours, name_of, offset_of, partition_of


def read_to(states: Iterable[tuple[bytes, bytes]]) -> dict[int, int]:
    """The offset after the last record that the states of a stage have seen, by partition.

    Two have to say so where there are two, as the clock and a state do: a single damaged record, or one of
    somebody's hand, shall not stop everybody.
    """
    offsets: dict[int, list[int]] = defaultdict(list)
    for key, value in states:
        if is_ours(key) and (name_of(key) is not None or key == clock_key(partition_of(key))):
            offsets[partition_of(key)].append(offset_of(value))
    return {partition: sorted(found)[-2:][0] + 1 for partition, found in offsets.items()}


def how_to_begin_anew(topic: str, changelogs: Iterable[str], group: str) -> str:
    """What to do, in words. ``changelogs`` hold the state that is kept of ``topic``; all by full names."""
    states = "".join(f"the topic {one} and " for one in sorted(changelogs))
    return (
        f"stop the stream workers, delete {states}the offsets that the consumer group {group} has committed "
        f"of {topic}, and start again: they begin with the oldest record that is there"
    )

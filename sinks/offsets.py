"""How far each partition is done: offsets may be acknowledged only below what a sink still holds. Pure."""

from contract.log import TopicPartition


class PendingOffsets:
    """The lowest offset of each partition among the records that something stands for."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        self._lowest: dict[TopicPartition, int] = {}

    def add(self, place: TopicPartition, offset: int) -> None:
        """One more record."""
        if offset < self._lowest.get(place, offset + 1):
            self._lowest[place] = offset

    def merge(self, other: "PendingOffsets") -> None:
        """All the records of another."""
        for place, offset in other._lowest.items():
            self.add(place, offset)

    def lowest(self, place: TopicPartition) -> int | None:
        """The lowest offset; None without a record of that partition."""
        return self._lowest.get(place)

    @property
    def empty(self) -> bool:
        """Whether it stands for no record at all."""
        return not self._lowest

    def __bool__(self) -> bool:
        return not self.empty


class OffsetProgress:
    """What was taken of each partition, and what of it is done."""

    def __init__(self) -> None:
        self._taken: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}

    def took(self, place: TopicPartition, offset: int) -> None:
        """The record was given to every sink, or to the dead letters."""
        self._taken[place] = offset

    def done(self, held: PendingOffsets) -> list[tuple[TopicPartition, int]]:
        """For each partition that got further since the last call, the offset up to which all is done.

        ``held`` stands for the records that some sink still has to see to.
        """
        news = []
        for place, taken in self._taken.items():
            lowest = held.lowest(place)
            done = taken if lowest is None else lowest - 1
            if done > self._told.get(place, -1):
                self._told[place] = done
                news.append((place, done))
        return news

    def forget(self) -> None:
        """The partitions were assigned anew."""
        self._taken.clear()
        self._told.clear()

"""Tells whether the states that were recovered are of the logs that there are now.

Somebody may delete a changelog, or a source, and make it again: the offsets in the states are then of a log
that is no more. The state is made again from the first record, where that is exact or was allowed; else the
worker ends, with words on what to do.
"""

from collections.abc import Iterable, Mapping

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import describe_failure
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.faust.app import ExactApp
from dutycycle.kafka.faust.offsets import describe_truncation
from streams.names import changelog_name
from streams.runtime.checkpoint import CheckpointCoordinator
from streams.runtime.events import STATE_RESET
from streams.runtime.faust_port import StateTable
from streams.runtime.port import StreamsPort
from streams.state.partition_clock import topic_id_of
from streams.state.record import clock_key
from streams.state.recovery import read_to


class SourceLogs:
    """Keeps the sources of one worker, and the states that were made from them.

    ``sources``: full names of what the stages with a state read, and their ``tables``, both by stage;
    ``topic_ids`` by the full names of sources, filled here after each recovery.
    """

    def __init__(
        self,
        app: ExactApp,
        coordinator: CheckpointCoordinator,
        sources: Mapping[str, str],
        tables: Mapping[str, StateTable],
        port: StreamsPort,
        settings: Settings,
        topic_ids: dict[str, str],
    ) -> None:
        self._app = app
        self._coordinator = coordinator
        self._sources = sources
        self._tables = tables
        self._port = port
        self._settings = settings
        self._topic_ids = topic_ids
        self._discarded: set[TopicPartition] = set()
        """Partitions of sources whose states were of another log, and do not count."""

    async def verify_states(self) -> None:
        """Let no state count that was made from another log than its source has now; once after a recovery,
        before its states are used."""
        self._discarded.clear()  # read from its beginning once, and not at each assignment
        is_first, ids = not self._topic_ids, dict[str, str]()
        try:
            ids = await self._ask_ids()
        except BrokerError as error:  # what is not known is not passed over
            self._coordinator.fail(f"asking for the ids of the sources: {error}")
        self._refuse_changed(ids)
        self._topic_ids.update(ids)
        assigned = self._app.consumer.assignment()
        for place, stage in sorted(
            (TopicPartition(source, place.partition), stage)
            for stage, source in self._sources.items()
            for place in assigned
            if place.topic == source
        ):
            table, now = self._tables[stage], ids.get(place.topic)
            then = topic_id_of(table.stored(clock_key(place.partition)))
            if now is None or then is None or now == then:
                continue
            what = (
                f"{place.topic} was deleted and created again: its id is {now}, and the state of partition "
                f"{place.partition} in {changelog_name(self._settings, stage)} is of {then}"
            )
            # A first recovery alone has read every key.
            if self._settings.lost_state == "refuse" or not is_first:
                self.refuse(place, f"{what}; DUTYCYCLE_LOST_STATE=begin-anew, or")
                return
            table.discard(place.partition)
            self._discarded.add(place)
            self._app.telemetry.emit(STATE_RESET, f"{what}; it is made again", stage=stage)

    async def verify_sources(self) -> None:
        """End if a source was deleted and created again since its partitions were assigned: what would be
        committed is of both logs. A broker that does not answer commits nothing either."""
        if not self._topic_ids:  # not begun, or a broker without ids: there is nothing to compare
            return
        try:
            self._refuse_changed(await self._ask_ids())
        except BrokerError:
            return

    async def _ask_ids(self) -> dict[str, str]:
        names = sorted(set(self._sources.values()))
        return await self._app.exact_consumer.topic_ids(names) if names else {}

    def _refuse_changed(self, ids: Mapping[str, str]) -> None:
        for topic, now in ids.items():
            then = self._topic_ids.get(topic, now)
            if then != now:
                what = f"{topic} was deleted and created again while it was read: its id was {then}, is {now}"
                self.refuse(TopicPartition(topic, 0), what)
                return

    async def refuse_other_log(self) -> None:
        """End if a source ends before the last record that its states have seen; once after a recovery."""
        known = {
            TopicPartition(self._sources[stage], partition): read
            for stage, table in self._tables.items()
            for partition, read in read_to(table.everything()).items()
        }
        if not known:
            return
        try:
            ends = await self._app.exact_consumer.ends(known.keys() & self._app.consumer.assignment())
        except Exception as error:  # noqa: BLE001 - whatever it was: what is not known is not passed over
            self._coordinator.fail(f"asking how far the sources go: {describe_failure(error)}")
            return
        for place, end in sorted((TopicPartition(*place), end) for place, end in ends.items()):
            if known[place] > end:
                self.refuse(place, describe_truncation(*place, known[place], end))

    async def begins_anew(self, place: TopicPartition, committed: int) -> bool:
        """Tell whether a source is read from its first record, as the state of what is committed of it is
        gone.

        Where no record of the source is gone, all is made again. Else the worker ends, unless
        ``DUTYCYCLE_LOST_STATE=begin-anew``: what the state knew is not in the records that are left. A state
        that others have written since it was recovered is not lost: then the worker ends, too.
        """
        if place in self._discarded:
            return True
        for stage, source in self._sources.items():
            table = self._tables.get(stage)
            if source != place.topic or table is None or table.seen_to(place.partition) >= committed:
                continue
            changelog = changelog_name(self._settings, stage)
            if await self._port.is_sole_writer(stage) is False:
                self._coordinator.fail(f"states of {changelog}-{place.partition} are older than the commit")
                return False
            lost = (
                f"state lost: {committed} records of {source}-{place.partition} are committed, and "
                f"{changelog}-{place.partition} has the state of {table.seen_to(place.partition)}"
            )
            short = place.topic.removeprefix(self._settings.topic_prefix)
            first = await self._port.first_offset(TopicPartition(short, place.partition), 0)
            if first != 0 and self._settings.lost_state == "refuse":
                how = how_to_begin_anew(source, (), self._app.conf.id)
                self._coordinator.fail(f"{lost}; DUTYCYCLE_LOST_STATE=begin-anew, or: {how}")
                return False
            self._app.telemetry.emit(STATE_RESET, lost, stage=stage)
            return True
        return False

    def refuse(self, place: TopicPartition, what: str) -> None:
        """End with words on how to go on: a log is shorter than what was read of it, or is another one.

        It may be a new one, all of whose records are new, or a restored copy of which each is known. Only who
        knows what happened can say which. A partition whose states were discarded is read from its beginning.
        """
        if place in self._discarded:
            return
        states = [
            changelog_name(self._settings, stage)
            for stage, source in self._sources.items()
            if source == place.topic
        ]
        self._coordinator.fail(f"{what}; {how_to_begin_anew(place.topic, states, self._app.conf.id)}")

    def missing_states(self) -> list[str]:
        """Return partitions of sources that were assigned without their changelog."""
        assigned = {(place.topic, place.partition) for place in self._app.consumer.assignment()}
        return [
            f"{source}-{partition}"
            for stage, source in self._sources.items()
            for topic, partition in assigned
            if topic == source and (changelog_name(self._settings, stage), partition) not in assigned
        ]


def how_to_begin_anew(topic: str, changelogs: Iterable[str], group: str) -> str:
    """Say in words what to do. ``changelogs`` hold the state that is kept of ``topic``; all by full names."""
    states = "".join(f"the topic {name} and " for name in sorted(changelogs))
    return (
        f"stop the stream workers, delete {states}the offsets that the consumer group {group} has committed "
        f"of {topic}, and start again: they begin with the oldest record that is there"
    )

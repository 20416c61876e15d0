"""Makes Faust's consumer exact: nothing counts as done but what the application says is done.

Stock Faust acknowledges a record when an agent fails on it, when it cannot be decoded and when it is skipped
around a rebalance, and takes gaps in its own reading for compaction. See docs/decisions/0004-exactness.md.
All that is known of Faust's insides lies in this package; the version is pinned for that.
"""

import math
import time
from asyncio import (
    FIRST_COMPLETED,
    CancelledError,
    Event,
    ensure_future,
    gather,
    sleep,
    timeout,
    to_thread,
    wait,
)
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from aiokafka.errors import KafkaConnectionError, KafkaError, NoError, RebalanceInProgressError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage, Message
from mode.services import Service

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.clients import (
    describe_failure,
    mend_cancellation,
    note_throttling,
    pace_metadata,
    translated,
)
from dutycycle.kafka.faust.offsets import describe_truncation
from dutycycle.kafka.faust.topic_ids import read_topic_ids
from dutycycle.kafka.membership import NamedProtocol
from dutycycle.telemetry.events import SOURCE_GAP

_NO_GENERATION = -1
_NOT_COMPACTED = frozenset(name for name, topic in TOPICS.items() if topic.cleanup != "compact")
"""Topics, without prefix, of which a record is gone only because it expired."""
_LEAVE_S = 1.0
_REBALANCE = JoinGroupRequest, SyncGroupRequest
"""Requests that are answered when all members have sent theirs."""
_PROLONG = HeartbeatRequest, SyncGroupRequest
_COUNTED_IN = NoError.errno, RebalanceInProgressError.errno
_LEASE_SHARE = 0.8
"""Of the session: so long after a heartbeat we write, and no longer."""
_FETCH_WAIT_MS = 100
_FETCH_BYTES = 256 * 1024
"""The broker answers a fetch when it has so many bytes, or after so long. A fetch costs some milliseconds for
all partitions: Faust's way, one byte or 1.5 s, costs a worker that keeps up more than its records do. And a
partition is not in the next fetch while records of it wait to be taken: its newer ones wait so long."""
_BATCHES = 2
"""So many batches of a partition may be with its agent, one in work and one that waits. A batch is a quarter
of a MiB, or what a producer sent as one."""
_LOOK_S = 0.02
"""So often it is looked whether a partition has fewer: shorter than the work on one batch."""


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Runs the consumer in a thread, which ends in an outage as well."""

    counted_in_s: float = math.inf
    """When the newest request was sent by whose answer the group counts us in, by ``time.monotonic``; before
    the first, the end of time: nothing has gone by since then."""
    _sought: Collection[Any] = ()

    async def on_start(self) -> None:
        """Connect, and note from now on which answers prolong the session."""
        await super().on_start()
        consumer: Any = self._ensure_consumer()
        self.watch(consumer._coordinator)
        ask_positions_together(consumer._fetcher)

    def watch(self, coordinator: Any) -> None:
        """Note which answers to this member of a group prolong its session; leave a rebalance at the end."""
        ask: Callable[[Any], Awaitable[Any]] = coordinator._send_req

        async def noted(request: Any) -> Any:
            sent_s = time.monotonic()
            asking = ensure_future(ask(request))
            try:
                if isinstance(request, _REBALANCE):
                    await wait({asking, coordinator._closing}, return_when=FIRST_COMPLETED)
                    if not asking.done():
                        await _leave_rebalance(coordinator)
                        raise KafkaConnectionError("left while the group was in a rebalance")
                answer = await asking
            finally:
                asking.cancel()
            if isinstance(request, _PROLONG) and answer.error_code in _COUNTED_IN:
                self.counted_in_s = sent_s
            return answer

        coordinator._send_req = noted

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        app: Any = self.app
        consumer._partition_assignment_strategy = [
            NamedProtocol(assignor, app.group_protocol)
            for assignor in consumer._partition_assignment_strategy
        ]
        consumer._fetch_max_wait_ms, consumer._fetch_min_bytes = _FETCH_WAIT_MS, _FETCH_BYTES
        pace_metadata(consumer._client)
        note_throttling(consumer._client, app.telemetry)
        mend_cancellation(consumer._client)
        return consumer

    async def seek_to_committed(self) -> Mapping[TP, Any]:
        """Seek to what is committed, and return it by partition; None where nothing is.

        The client asks for each partition by itself, which takes most of a second for a thousand of them.
        """
        offsets: Mapping[TP, Any] = await self.call_thread(self._seek_to_committed)
        return offsets

    async def _seek_to_committed(self) -> Mapping[TP, Any]:
        consumer: Any = self._ensure_consumer()
        places = consumer._subscription.assigned_partitions()
        committed = await consumer._coordinator.fetch_committed_offsets(places)
        offsets = {place: committed[place].offset if place in committed else None for place in places}
        for place, offset in offsets.items():
            if offset:
                consumer._fetcher.seek_to(place, offset)
        return offsets

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        """Seek, and note the client's states of these partitions: they are changelogs, which Faust reads
        next."""
        subscription = consumer._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        states = [] if assignment is None else map(assignment.state_value, partitions)
        self._sought = [state for state in states if state is not None]
        await super()._seek_wait(consumer, partitions)

    async def pause_sought(self) -> None:
        """Fetch nothing more of the partitions that were sought last. Assigned anew they have other states,
        also where that has just happened."""
        for state in self._sought:
            state.pause()

    async def stop(self) -> None:
        """End the thread, also one that was started a moment ago.

        Mode's own ``stop`` does nothing until the thread has begun to run: it would go on alone. And it waits
        for the thread's last steps in the event loop, where all else would stand still.
        """
        thread = self._thread
        if thread is not None and thread.is_alive():
            await Service.stop(self)
            await to_thread(thread.join)

    def on_crash(self, msg: str, *fmt: Any, **kwargs: Any) -> None:
        """Print nothing: the app fails with the same words."""

    async def on_thread_stop(self) -> None:
        """Leave the group and disconnect."""
        try:
            await super().on_thread_stop()
        except CancelledError:
            # Nobody cancels this: the client lets the cancellation of its own waiting fetches out, and the
            # thread would die without saying that it has ended.
            if self._consumer is not None:
                await self._consumer._client.close()


def ask_positions_together(fetcher: Any) -> None:
    """Have the client ask in one request from where all partitions are read, and not in one for each."""
    update: Callable[..., Awaitable[bool]] = fetcher._update_fetch_positions

    async def update_together(assignment: Any, node: int, places: Collection[Any]) -> bool:
        states = [assignment.state_value(place) for place in places]
        unknown = [state for state in states if not (state.has_valid_position or state.awaiting_reset)]
        try:
            committed = await gather(*(state.fetch_committed() for state in unknown))
        except CancelledError:  # as the client's own: the assignment is another one now
            return False
        for state, offset in zip(unknown, committed, strict=True):
            if state.has_valid_position or state.awaiting_reset:  # by somebody else meanwhile
                continue
            if offset.offset >= 0:
                state.reset_to(offset.offset)
            else:
                state.await_reset(fetcher._default_reset_strategy)
        return await update(assignment, node, places)

    fetcher._update_fetch_positions = update_together


async def _leave_rebalance(coordinator: Any) -> None:
    """Leave a group whose answer comes when its last member has joined, or was given up: half a minute.

    By another connection: the broker takes the requests of one after the other. Who is not known to the group
    yet has nothing to leave.
    """
    request = LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
    if coordinator.member_id != JoinGroupRequest.UNKNOWN_MEMBER_ID:
        with suppress(KafkaError, TimeoutError):
            async with timeout(_LEAVE_S):
                await coordinator._client.send(coordinator.coordinator_id, request)
    coordinator.reset_generation()


@dataclass(eq=False)
class FetchedBatch:
    """Holds records of one partition, in order, which an agent takes at once."""

    tp: TP
    records: list[Any]


class BatchScheduler:
    """Takes of each partition all records of a fetch at once; those of a changelog, which Faust reads, one by
    one.

    Faust's way of a message costs more than most of what is done with one.
    """

    def __init__(self, is_changelog: Callable[[TP], bool]) -> None:
        self._is_changelog = is_changelog

    def iterate(self, records: Mapping[TP, list[Any]]) -> Iterator[tuple[TP, Any]]:
        """Yield what becomes a message each."""
        for place, batch in records.items():
            if self._is_changelog(place):
                yield from ((place, message) for message in batch)
            elif batch:
                yield place, batch


class ExactConsumer(driver.Consumer):
    """Commits, for each partition, what ``acknowledge`` was last given, and nothing else."""

    def on_init(self) -> None:
        super().on_init()
        self._done: dict[TP, int] = {}
        self._counted_to: dict[TP, int] = {}
        """To where a log had begun later than what was committed of it."""
        self._fetched: dict[TP, int] = {}
        """Holds the last offset that was fetched of a partition since it was sought."""
        self._empty_handed = Event()
        self._empty_handed.set()
        self._batches: defaultdict[TP, WeakSet[FetchedBatch]] = defaultdict(WeakSet)
        self._delivering = False
        self.scheduler: Any = BatchScheduler(self._is_changelog_tp)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """Note that everything up to and including ``offset`` is done and may be committed."""
        self._done[TP(topic, partition)] = offset + 1

    def begins_at(self, topic: str, partition: int) -> int | None:
        """Return the committed offset, from which reading began or goes on; None if nothing was ever
        committed."""
        offset: int | None = self._committed_offset.get(TP(topic, partition))
        return offset

    def is_member(self) -> bool:
        """Tell whether the group still counts us in. Not so after a stall: then others own the partitions."""
        client: Any = self._thread._consumer
        coordinator = None if client is None else client._coordinator  # none while it connects
        return coordinator is not None and bool(coordinator.generation != _NO_GENERATION)

    def is_counted_out(self) -> bool:
        """Tell whether the group has counted us in, and does so no longer."""
        return self.counted_in_s < math.inf and not self.is_member()

    def may_be_replaced(self) -> bool:
        """Tell whether the group may have given our partitions away without our knowledge: its answers may
        not reach us, or too late. It does so no earlier than a session after our last heartbeat."""
        lease_s = _LEASE_SHARE * self.app.conf.broker_session_timeout
        return time.monotonic() - self.counted_in_s > lease_s

    @property
    def counted_in_s(self) -> float:
        """See ``ConsumerThread``. For any thread."""
        thread: Any = self._thread
        seen: float = thread.counted_in_s
        return seen

    def trouble(self) -> str | None:
        """Tell why this consumer will never read again, or None. May be called from another thread."""
        client: Any = self._thread._consumer
        if client is None or client._closed:
            return None
        waiting = getattr(client._coordinator, "_pending_exception", None)
        if waiting is not None:
            return describe_failure(waiting, f"consumer group {client._coordinator.group_id}")
        tasks = {
            "group": getattr(client._coordinator, "_coordination_task", None),
            "fetch": getattr(client._fetcher, "_fetch_task", None),
        }
        ended = [name for name, task in tasks.items() if task is not None and task.done()]
        return f"the consumer's {ended[0]} task has ended" if ended else None

    def missing_topics(self) -> list[str]:
        """Return those of the topics to be read that do not exist, as far as is known. For any thread."""
        client: Any = self._thread._consumer
        subscription = None if client is None else client._subscription.subscription
        if subscription is None:
            return []
        cluster = client._client.cluster
        return sorted(topic for topic in subscription.topics if not cluster.partitions_for_topic(topic))

    def positions(self) -> list[tuple[TP, int | None, int | None]]:
        """Return of each partition of a source that is read its end, and how far the client has come. For any
        thread."""
        client: Any = self._thread._consumer
        subscription = None if client is None else client._subscription.subscription
        assignment: Any = None if subscription is None else subscription.assignment
        partitions = () if assignment is None else list(assignment.tps)
        states = [(tp, assignment.state_value(tp)) for tp in partitions if not self._is_changelog_tp(tp)]
        return [(tp, state.highwater, state._position) for tp, state in states]

    def behind(self) -> str | None:
        """Tell how far reading has come, if there is more to read; None if not. For any thread."""
        positions = self.positions()
        # By the client's place: behind the last record may lie one that expired, or a transaction's mark.
        unread = any(
            (end or 0) > (position or 0) or (self._read_offset.get(tp) or 0) < self._fetched.get(tp, 0)
            for tp, end, position in positions
        )
        return f"read to {sum(position or 0 for _, _, position in positions)}" if unread else None

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust only logs here, and takes its times from the monitor; ``behind`` is watched
        instead."""

    async def commit_all(self) -> None:
        """Commit what is done, now; a commit that is under way has perhaps not seen all of it."""
        while await self.maybe_wait_for_commit_to_finish():
            pass
        await self.commit()

    def finish(self, batch: FetchedBatch) -> None:
        """Note that its agent has done a batch."""
        batches = self._batches[batch.tp]
        batches.discard(batch)
        if not batches:
            del self._batches[batch.tp]
        self._release_if_idle()

    def _release_if_idle(self) -> None:
        """Have what follows from a fetch sent once no agent has a batch of it, nor is about to get one."""
        if not self._delivering and not any(self._batches.values()):
            app: Any = self.app
            app.exact_producer.release()

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Message]]:  # noqa: ASYNC109 - Faust's
        """Yield one batch, as Faust takes it; notes how long it is in hand."""
        self._empty_handed.clear()
        try:
            async for place, message in super().getmany(timeout):
                yield place, message
        finally:
            self._delivering = False
            self._empty_handed.set()
            self._release_if_idle()

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:  # noqa: ASYNC109 - Faust's
        """Return the next batches, of no partition whose agent has enough of them.

        Faust takes all that there is and keeps it: its topics forget the ``maxsize`` that ``App.topic`` is
        given, and 2,048 batches of each are more than a log. A batch counts until its agent has done it, or
        the partitions are assigned anew. It is weakly known here, since Faust may drop it on its way.
        """
        full = {tp for tp, batches in self._batches.items() if len(batches) >= _BATCHES}
        wanted = active_partitions
        if full:
            timeout = _LOOK_S
            wanted = (self.assignment() if active_partitions is None else active_partitions) - full
            if not wanted:
                await sleep(_LOOK_S)
                return {}
        records = await super()._getmany(wanted, timeout)
        self._fetched.update({TP(*tp): batch[-1].offset for tp, batch in records.items() if batch})
        self._delivering = bool(records)
        return records

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        """Make a batch a message with the offset of its last record: Faust goes on after it."""
        if not isinstance(record, list):
            return super()._to_message(tp, record)
        last: Any = record[-1]
        batch: Any = FetchedBatch(tp, record)
        self._batches[tp].add(batch)
        return ConsumerMessage(
            last.topic, last.partition, last.offset, 0.0, last.timestamp_type, [], None, batch, None,
            tp=tp, generation_id=self.app.consumer_generation_id,
        )  # fmt: skip

    async def pause_changelogs(self) -> None:
        """Fetch nothing more of changelogs, which were read: of what is written there from now on the client
        would keep the first quarter of a MiB of each partition, and nobody takes it."""
        thread: Any = self._thread
        await thread.call_thread(thread.pause_sought)

    async def perform_seek(self) -> None:
        """Go back to what is committed; where nothing is, to the beginning, which Faust leaves out.

        The flow is stopped afterwards, and Faust resumes it. It opens the sources before it seeks, and a
        batch that was fetched in between would be judged by the place reached before the rebalance: its
        first records for repeats, while the rest moves that place past what is read again after the seek.
        """
        if self.flow_active:  # else it is asked for by who has the batch in hand
            self.stop_flow()
            await self._empty_handed.wait()
        app: Any = self.app
        sources = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        ends = await self.ends(sources)  # before the seek: what is fetched right after it must not wait
        await super().perform_seek()
        self._fetched.clear()
        # What is committed beyond the end of a log was another log's.
        committed = {tp: self._committed_offset.get(tp) or 0 for tp in ends}
        suspects = [tp for tp, end in ends.items() if committed[tp] > end]
        for tp, end in (await self.ends(suspects)).items():  # it may have grown since
            if committed[tp] > end:
                self._committed_offset[tp] = self._read_offset[tp] = None
                app.on_log_truncated(tp, describe_truncation(tp.topic, tp.partition, committed[tp], end))
        for tp in sources:
            offset = self._committed_offset.get(tp)
            if offset and await app.begins_anew(TopicPartition(*tp), offset):
                self._committed_offset[tp] = self._read_offset[tp] = None
        await self._count_expired(sources)
        fresh = [tp for tp in sources if not self._committed_offset.get(tp)]
        if fresh:
            await self._thread.seek_to_beginning(*map(driver.ensure_aiokafka_TP, fresh))

    async def _count_expired(self, sources: Iterable[TP]) -> None:
        """Count the records that were not read and are gone, also where no other comes after them; reading
        begins after them. Of a compacted topic, or one that is none of ours, it is unknown what is gone."""
        app: Any = self.app
        names = {tp: tp.topic.removeprefix(app.topic_prefix) for tp in sources}
        committed = {
            tp: offset
            for tp, name in names.items()
            if (offset := self._committed_offset.get(tp)) and name in _NOT_COMPACTED
        }
        wanted = map(driver.ensure_aiokafka_TP, committed)
        for tp, first in (await self.earliest_offsets(*wanted)).items() if committed else ():
            place = TP(tp.topic, tp.partition)
            if first <= committed[place]:
                continue
            self._committed_offset[place] = first
            # What was counted is not committed before a record follows, and is found at each rebalance.
            read = max(committed[place], self._counted_to.get(place, 0))
            self._counted_to[place] = first
            if first > read:
                detail = f"{names[place]}-{tp.partition}: {read}-{first - 1} are gone from the broker"
                app.telemetry.emit(SOURCE_GAP, detail, count=first - read, topic=names[place])

    async def ends(self, places: Iterable[tuple[str, int]]) -> dict[TP, int]:
        """Return the offset after the newest record of each of these partitions, now. Asks the broker."""
        wanted = [driver.ensure_aiokafka_TP(TP(*place)) for place in places]
        offsets = await self.highwaters(*wanted) if wanted else {}
        return {TP(tp.topic, tp.partition): end for tp, end in offsets.items()}

    async def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the identity of each topic (full name) that the broker knows one of. Raises
        ``BrokerError``."""
        thread: Any = self._thread
        with translated():
            ids: dict[str, str] = await thread.call_thread(
                read_topic_ids, thread._ensure_consumer()._client, topics
            )
        return ids

    def ack(self, message: Message) -> bool:
        """Ignore Faust's own acknowledgements, among them those of records that failed: they count for
        nothing."""
        return False

    async def commit_and_end_transactions(self) -> None:
        """Do nothing: at the end all was committed before, and a broker that is away would hold it up."""

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Forget what nobody reads: the group deals its partitions out anew, perhaps by another worker."""
        app: Any = self.app
        app.unread_partitions = {}
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Forget what is done, in a new generation: what was done in an older one may lie behind what others
        have committed. Its batches are with no agent, though Faust's loops may hold the last ones."""
        self._done.clear()
        self._batches.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterable[TP]:  # type: ignore[override] # narrower by design
        return [tp for tp in self._done if topics is None or tp in topics or tp.topic in topics]

    def _new_offset(self, tp: TP) -> int | None:
        return self._done.get(tp)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: Faust would take a gap for compaction. The reader classifies gaps
        (``kafka.faust.offsets``)."""

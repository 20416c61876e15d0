"""Faust's Kafka driver, made exact: nothing counts as done but what the application says is done.

Stock Faust acknowledges a record when an agent fails on it, when it cannot be decoded and when it is skipped
around a rebalance; it takes holes in its own reading for compaction; its producer is not idempotent and
rounds timestamps. See docs/decisions/0004-exactness.md. All that is known of Faust's insides lies here, in
``bus.faust``; the version is pinned for that.
"""

import math
from asyncio import CancelledError, Event, Future, wait
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar

import faust
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaTimeoutError
from faust.assignor import PartitionAssignor
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import Message

from bus.faust.truncation import shorter
from bus.kafka.clients import pace_metadata

# Faust gives an app without tables round robin, whatever assignor it asks for. By ranges, partition i of all
# topics with equally many partitions goes to one worker: what is keyed alike is then read together.
driver.RoundRobinPartitionAssignor = RangePartitionAssignor  # type: ignore[attr-defined]  # it is there
_NO_GENERATION = -1
_LAST_REQUESTS_S = 1.0


class ExactProducer(driver.Producer):
    """Idempotent, acknowledged by all replicas in sync, with timestamps in whole milliseconds."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        client = super()._new_producer(transactional_id)
        # An idempotent batch is tried without end, but not while its partition has no leader: it would fail
        # after the request timeout, and with a number missing in the sequence all that follow.
        client._message_accumulator._batch_ttl = math.inf
        pace_metadata(client.client)
        self._guard(client._sender)
        return client

    def _guard(self, sender: Any) -> None:
        """Let nothing leave once this process stood still for so long that others do its work.

        What waited in line then, or was to be tried again, is older than what they have written since; and
        the line would move before anybody looks.
        """
        send: Callable[..., Awaitable[None]] = sender._send_produce_req
        app: Any = self.app

        async def send_if_fresh(node_id: int, batches: Any) -> None:
            if app.telemetry.stall_detector.process_stalled():
                app.fail("the process stalled for too long")
                await Event().wait()  # until the producer is stopped
            await send(node_id, batches)

        sender._send_produce_req = send_if_fresh

    async def flush(self) -> None:
        """Nothing: whoever needs an acknowledgement waits for it, and an outage would hold up all others."""

    async def on_stop(self) -> None:
        """Disconnect at once; the driver's own stop waits for a line that never empties in an outage."""
        client, self._producer = self._producer, None
        if client is None:
            return
        sender = client._sender.sender_task
        for _ in range(2):  # the first time it still waits for the requests that are on their way
            if sender is not None and not sender.done():
                sender.cancel()
                await wait([sender], timeout=_LAST_REQUESTS_S)
        await client.client.close()
        client._closed = True

    async def post(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        ts_ms: int | None,
        partition: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> "Future[Any]":
        """Put a record in line and return the future of its acknowledgement. ``ts_ms`` None is now.

        Waits while the line is full. Records of one partition arrive in the order of the calls.
        """
        client = self._ensure_producer()
        while True:
            try:
                sent: Future[Any] = await client.send(
                    topic, value, key=key, partition=partition, timestamp_ms=ts_ms, headers=headers
                )
            except KafkaTimeoutError:
                continue  # the broker is away and the line is full: the record was not taken, ask again
            return sent


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread of the consumer, which ends in an outage as well."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        pace_metadata(consumer._client)
        return consumer

    async def on_thread_stop(self) -> None:
        """Leave the group and disconnect."""
        try:
            await super().on_thread_stop()
        except CancelledError:
            # Nobody cancels this: the client lets the cancellation of its own waiting fetches out, and the
            # thread would die without saying that it has ended.
            if self._consumer is not None:
                await self._consumer._client.close()


class ExactConsumer(driver.Consumer):
    """Commits, for each partition, what ``acknowledge`` was last told, and nothing else."""

    def on_init(self) -> None:
        super().on_init()
        self._done: dict[TP, int] = {}
        self._empty_handed = Event()
        self._empty_handed.set()

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """Everything up to and including ``offset`` is done and may be committed."""
        self._done[TP(topic, partition)] = offset + 1

    def begins_at(self, topic: str, partition: int) -> int | None:
        """The committed offset, from which reading began or goes on; None if nothing was ever committed."""
        found: int | None = self._committed_offset.get(TP(topic, partition))
        return found

    def is_member(self) -> bool:
        """Whether the group still counts us in. Not so after a stall: then others own the partitions."""
        client = self._thread._consumer
        return client is not None and bool(client._coordinator.generation != _NO_GENERATION)

    def trouble(self) -> str | None:
        """Why this consumer will never read again, or None. May be called from another thread."""
        client: Any = self._thread._consumer
        if client is None or client._closed:
            return None
        waiting = getattr(client._coordinator, "_pending_exception", None)
        if waiting is not None:
            return f"the group coordinator waits since {waiting!r}"
        tasks = {
            "group": getattr(client._coordinator, "_coordination_task", None),
            "fetch": getattr(client._fetcher, "_fetch_task", None),
        }
        ended = [name for name, task in tasks.items() if task is not None and task.done()]
        return f"the consumer's {ended[0]} task has ended" if ended else None

    def behind(self) -> str | None:
        """How far reading has come, if there is more to read; None if not. For any thread."""
        client: Any = self._thread._consumer
        subscription = None if client is None else client._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        if assignment is None:
            return None
        places = {tp: read for tp, read in list(self._read_offset.items()) if not self._is_changelog_tp(tp)}
        ends = {tp: getattr(assignment.state_value(tp), "highwater", None) for tp in places}
        unread = any((ends[tp] or 0) - (read or 0) > 1 for tp, read in places.items())
        return f"read to {sum(read or 0 for read in places.values())}" if unread else None

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust only logs here, and takes its times from the monitor; ``behind`` is watched instead."""

    async def commit_all(self) -> None:
        """Commit what is done, now; a commit that is under way has perhaps not seen all of it."""
        while await self.maybe_wait_for_commit_to_finish():
            pass
        await self.commit()

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Message]]:  # noqa: ASYNC109 - Faust's
        """One batch, as Faust takes it; notes how long it is in hand."""
        self._empty_handed.clear()
        try:
            async for place, message in super().getmany(timeout):
                yield place, message
        finally:
            self._empty_handed.set()

    async def perform_seek(self) -> None:
        """Go back to what is committed; where nothing is, to the beginning, which Faust leaves out.

        The flow stands still afterwards, which Faust resumes. It opens the sources before it seeks, and a
        batch that was fetched in between would be judged by the place reached before the rebalance: its
        first records for repeats, while the rest moves that place past what is read again after the seek.
        """
        if self.flow_active:  # else it is asked for by who has the batch in hand
            self.stop_flow()
            await self._empty_handed.wait()
        sources = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        ends = await self.ends(sources)  # before the seek: what is fetched right after it must not wait
        await super().perform_seek()
        await self._forget_beyond(ends)
        fresh = [tp for tp in sources if not self._committed_offset.get(tp)]
        if fresh:
            await self._thread.seek_to_beginning(*map(driver.ensure_aiokafka_TP, fresh))

    async def _forget_beyond(self, ends: Mapping[TP, int]) -> None:
        """What is committed beyond the end of a log was another log's."""
        committed = {tp: self._committed_offset.get(tp) or 0 for tp in ends}
        suspects = [tp for tp, end in ends.items() if committed[tp] > end]
        app: Any = self.app
        for tp, end in (await self.ends(suspects)).items():  # it may have grown since
            if committed[tp] > end:
                self._committed_offset[tp] = self._read_offset[tp] = None
                app.on_shorter_log(tp, shorter(tp.topic, tp.partition, committed[tp], end))

    async def ends(self, places: Iterable[tuple[str, int]]) -> dict[TP, int]:
        """The offset after the newest record of each of these partitions, now. Asks the broker."""
        wanted = [driver.ensure_aiokafka_TP(TP(*place)) for place in places]
        found = await self.highwaters(*wanted) if wanted else {}
        return {TP(tp.topic, tp.partition): end for tp, end in found.items()}

    def ack(self, message: Message) -> bool:
        """Faust's own acknowledgements, among them those of records that failed: they count for nothing."""
        return False

    async def commit_and_end_transactions(self) -> None:
        """Nothing: at the end all was committed before, and a broker that is away would hold it up."""

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """A new generation: what was done in an older one may lie behind what others have committed."""
        self._done.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Iterable[TP]:  # type: ignore[override] # narrower by design
        return [tp for tp in self._done if topics is None or tp in topics or tp.topic in topics]

    def _new_offset(self, tp: TP) -> int | None:
        return self._done.get(tp)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing to note: a hole is judged by who reads (``faustapp_intake``), not taken for compaction."""


class ExactAssignor(PartitionAssignor):
    """Assigns nothing as long as it does not know all topics.

    A leader whose view of the cluster is old would hand out a source without its changelog, and whoever gets
    it would begin from nothing where there is a state.
    """

    def assign(self, cluster: Any, member_metadata: Any) -> Any:
        """What each member gets; called in the consumer's thread and loop."""
        wanted = {topic for one in member_metadata.values() for topic in one.subscription}
        if all(cluster.partitions_for_topic(topic) for topic in wanted):
            return super().assign(cluster, member_metadata)
        consumer: Any = self.app.consumer
        consumer._thread._consumer._client.force_metadata_update()  # once it has come, the group joins anew
        return super().assign(_NO_TOPICS, member_metadata)


class _NoTopics:
    def partitions_for_topic(self, topic: str) -> set[int]:
        return set()


_NO_TOPICS: Any = _NoTopics()


class NoMonitor(faust.Monitor):
    """Keeps no statistics of Faust's: ours are in ``telemetry``, and these cost a tenth of every record."""

    def on_message_in(self, tp: TP, offset: int, message: Any) -> None:
        """Nothing."""

    def on_stream_event_in(self, tp: TP, offset: int, stream: Any, event: Any) -> None:
        """Nothing."""

    def on_stream_event_out(self, tp: TP, offset: int, stream: Any, event: Any, state: Any = None) -> None:
        """Nothing."""

    def on_message_out(self, tp: TP, offset: int, message: Any) -> None:
        """Nothing."""

    def track_tp_end_offset(self, tp: TP, offset: int) -> None:
        """Nothing."""


class ExactTransport(driver.Transport):
    """Makes the two above."""

    Consumer: ClassVar[Any] = ExactConsumer
    Producer: ClassVar[Any] = ExactProducer

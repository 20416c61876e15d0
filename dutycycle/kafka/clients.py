"""Is the gate to the Kafka driver: the only module that imports aiokafka, but for Faust's own driver.

It makes clients from settings, and translates what they fail with into the errors of ``kafka.errors``.
"""

import asyncio
import logging
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka import client as aiokafka_client
from aiokafka import conn as aiokafka_conn
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.conn import create_conn
from aiokafka.consumer.fetcher import OffsetResetStrategy
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.memory_records import MemoryRecords

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.errors import BrokerError, BrokerRefusedError, BrokerUnreachableError, RecordRefusedError
from dutycycle.kafka.security import bootstrap_servers, security_kwargs
from dutycycle.telemetry.events import THROTTLED, Telemetry

_REQUEST_MS = 10_000
"""How long an answer of the broker may take."""
_MISSING_TOPIC_S = 10.0
"""Then a topic that a broker does not know is gone: one that was just made is not known at once."""
_PROBE_MS = 5_000
_LAST_REQUESTS_S = 1.0
"""How long a producer that disconnects waits for the requests that are on their way."""
_DISCONNECT_S = 5.0
"""How long a cancellation waits for a client that disconnects."""
_METADATA_FIRST_S = 0.05
_METADATA_LONGEST_S = 1.0
BATCH_BYTES = 256 * 1024
"""Of a batch that a producer sends, where the topics take so much."""
_LONGEST_REQUEST = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Rule:
    """Says which error the driver's ``errors`` become, with the label and the words that explain them."""

    errors: tuple[type[BaseException], ...]
    becomes: type[BrokerError]
    reason: str
    says: str


_RULES = (
    _Rule(
        (errors.AuthenticationFailedError, errors.SaslAuthenticationFailed),
        BrokerRefusedError, "authentication", "user name, password or token is wrong (DUTYCYCLE_SASL_*)",
    ),
    _Rule(
        (errors.UnsupportedSaslMechanismError, errors.AuthenticationMethodNotSupported),
        BrokerRefusedError, "authentication", "does not offer this DUTYCYCLE_SASL_MECHANISM",
    ),
    _Rule(
        (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError),
        BrokerRefusedError, "rights",
        "the user may not do this (Kafka's ACLs; dutycycle topics --acls USER prints what is needed)",
    ),
    _Rule(
        (errors.GroupAuthorizationFailedError,), BrokerRefusedError, "rights",
        "the user may not read by this consumer group (Kafka's ACLs; see dutycycle topics --acls USER)",
    ),
    _Rule(
        (errors.InconsistentGroupProtocolError,), BrokerRefusedError, "group",
        "another program, or a worker of another release or with other settings, uses this consumer group: "
        "stop it, or take another DUTYCYCLE_TOPIC_PREFIX",
    ),
    _Rule(
        (errors.UnsupportedVersionError, errors.IncompatibleBrokerVersion),
        BrokerRefusedError, "version", "does not know this request",
    ),
    _Rule(
        (errors.InvalidReplicationFactorError,), BrokerRefusedError, "topic_settings",
        "there are fewer brokers than DUTYCYCLE_REPLICATION: start the others, or give at most their number",
    ),
    _Rule(
        (errors.InvalidPartitionsError,), BrokerRefusedError, "topic_settings",
        "it takes no such number of partitions: give another DUTYCYCLE_PARTITIONS, such as 8",
    ),
    _Rule(
        (errors.PolicyViolationError,), BrokerRefusedError, "topic_settings",
        "its policy forbids this: give a DUTYCYCLE_PARTITIONS and DUTYCYCLE_REPLICATION that it allows",
    ),
    _Rule(
        (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError),
        RecordRefusedError, "too_large", "the record is larger than the topic's max.message.bytes",
    ),
    _Rule(
        (errors.InvalidTopicError,), BrokerRefusedError, "topic_settings",
        "it takes no such name, or one that differs from it by '.' and '_' alone is there: give another "
        "DUTYCYCLE_TOPIC_PREFIX",
    ),
    _Rule(
        (errors.InvalidTimestampError,), RecordRefusedError, "invalid",
        "its time is further from the broker's clock than the topic's message.timestamp.after.max.ms or "
        "message.timestamp.before.max.ms allow",
    ),
    _Rule(
        (errors.CorruptRecordException,),
        RecordRefusedError, "invalid", "the record is invalid for its topic",
    ),
    _Rule(
        (errors.UnknownTopicOrPartitionError,),
        BrokerUnreachableError, "topic", "the topic does not exist (yet)",
    ),
    _Rule((ssl.SSLCertVerificationError,), BrokerRefusedError, "tls", "its certificate is not trusted"),
    _Rule((ssl.SSLError,), BrokerUnreachableError, "tls", "the TLS handshake failed (a port without TLS?)"),
    _Rule((socket.gaierror,), BrokerUnreachableError, "name", "the host name cannot be resolved"),
    _Rule((ConnectionRefusedError,), BrokerUnreachableError, "refused", "nothing listens there"),
    _Rule(
        (errors.KafkaTimeoutError, errors.RequestTimedOutError, TimeoutError),
        BrokerUnreachableError, "timeout", "no answer in time",
    ),
    _Rule(
        (errors.KafkaConnectionError, OSError, EOFError),
        BrokerUnreachableError, "connection", "the connection broke",
    ),
)  # fmt: skip


def translate(error: BaseException, where: str = "Kafka") -> BrokerError:
    """Return the ``BrokerError`` for what the driver raised, with its cause; the unlisted is passing trouble.
    What is one already stays as it is."""
    if isinstance(error, BrokerError):
        return error
    unknown = _Rule((), BrokerUnreachableError, "error", type(error).__name__)
    rule = next((candidate for candidate in _RULES if isinstance(error, candidate.errors)), unknown)
    text = " ".join(str(error).split())
    detail = f" ({text[:200]})" if text and text != type(error).__name__ else ""
    translated = rule.becomes(rule.reason, f"{where}: {rule.says}{detail}")
    translated.__cause__ = error
    return translated


def describe_failure(error: BaseException, where: str = "Kafka") -> str:
    """Tell what happened, in words for the log of a process that ends by it; the class too, where it is no
    error of Kafka or of ours."""
    if isinstance(error, DutycycleError):
        return str(error)
    if isinstance(error, errors.KafkaError | OSError | EOFError):
        return str(translate(error, where))
    return f"{where}: {error!r}"


def outlast_outages(producer: Any) -> None:
    """Let an idempotent producer of the driver try each record without end while its topic exists. Where the
    broker has said for ``_MISSING_TOPIC_S`` that it does not, its records fail.

    By itself the driver fails a batch whose partition has no leader for the request timeout, and with a
    number missing in the sequence all that follow.
    """
    accumulator, cluster = producer._message_accumulator, producer.client.cluster
    _wait_for_answer(producer.client)
    accumulator._batch_ttl = math.inf
    drain: Callable[..., Any] = accumulator.drain_by_nodes
    missing_since: dict[str, float] = {}

    def drain_known(*args: Any, **options: Any) -> Any:
        waiting = {place.topic for place in accumulator._batches}
        missing = {topic for topic in waiting if topic not in cluster._partitions}
        for topic in missing_since.keys() - missing:
            del missing_since[topic]
        for topic in missing:
            if time.monotonic() - missing_since.setdefault(topic, time.monotonic()) > _MISSING_TOPIC_S:
                for place in [place for place in accumulator._batches if place.topic == topic]:
                    while place in accumulator._batches:
                        accumulator._pop_batch(place).failure(errors.UnknownTopicOrPartitionError())
        return drain(*args, **options)

    accumulator.drain_by_nodes = drain_known


def _wait_for_answer(client: Any) -> None:
    """Let the first record of a topic wait for a broker that answers whether the topic exists.

    By itself the driver takes the topic for missing where none has answered within the request timeout.
    """
    cluster = client.cluster
    wait_on_metadata: Callable[[str], Awaitable[Any]] = client._wait_on_metadata

    async def wait_for_answer(topic: str) -> Any:
        while True:
            asked_ms = time.time() * 1000  # the clock of the driver's own note
            try:
                return await wait_on_metadata(topic)
            except errors.UnknownTopicOrPartitionError:
                if cluster._last_successful_refresh_ms >= asked_ms:
                    raise

    client._wait_on_metadata = wait_for_answer


class _NamingBatch(MessageBatch):  # type: ignore[misc]  # the driver has no types
    """Fails with a ``BrokerError`` that names its topic: the driver says only what the broker answered."""

    def failure(self, exception: BaseException) -> None:
        """Fail with the translated ``exception``."""
        where = f"topic {self.tp.topic}"
        if isinstance(exception, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
            where += f", {_name_largest_record(self)}"
        super().failure(translate(exception, where))


def name_topics_in_failures(producer: Any) -> None:
    """Let each record that a producer of the driver cannot deliver fail with a ``BrokerError`` that names its
    topic.

    Its batches become of a class: a function of each batch that knows the batch would keep its buffer until
    garbage is looked for.
    """
    accumulator = producer._message_accumulator
    append: Callable[[Any, Any], Any] = accumulator._append_batch

    def append_named(builder: Any, place: Any) -> Any:
        batch = append(builder, place)
        batch.__class__ = _NamingBatch
        return batch

    accumulator._append_batch = append_named


def _name_largest_record(batch: Any) -> str:
    """Say which record of a refused batch is the largest: its key, and the bytes of key and value."""
    records = MemoryRecords(bytes(batch.get_data_buffer()))
    sizes: list[tuple[int, bytes]] = []
    while (inner := records.next_batch()) is not None:
        sizes += [(len(record.key or b"") + len(record.value or b""), record.key or b"") for record in inner]
    size, key = max(sizes)
    among = f", the largest of {len(sizes)}" if len(sizes) > 1 else ""
    return f"key {key.decode(errors='replace')[:200]!r} of {size} bytes{among}"


async def stop_producer(driver: Any) -> None:
    """Disconnect a producer now: the driver's own ``stop`` waits for its queue, which never empties while the
    broker is away."""

    async def stop() -> None:
        sender = driver._sender.sender_task
        for _ in range(2):  # at the first time it still waits for the requests that are on their way
            if sender is not None and not sender.done():
                sender.cancel()
                await asyncio.wait([sender], timeout=_LAST_REQUESTS_S)
        await driver.client.close()
        driver._closed = True

    (await _run_apart(stop())).result()


async def stop_consumer(driver: Any) -> None:
    """Disconnect a consumer. Where its fetcher waits to try again, the driver's ``stop`` raises the
    cancellation of its own task, and leaves the connections open.
    """

    async def stop() -> None:
        stopping = await _run_apart(driver.stop())
        if stopping.cancelled():
            await driver._client.close()
        else:
            stopping.result()

    (await _run_apart(stop())).result()


async def _run_apart(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run ``work``, which disconnects, in a task of its own, and return that when it has ended.

    To end, the driver cancels its parts and swallows what they raise then. It would swallow a cancellation of
    ours that comes in that moment, too, and whoever waits for our end would wait for ever. And cut short it
    leaves connections open: so a cancellation waits for it, seconds at most.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_DISCONNECT_S)
        if task.done() and not task.cancelled():
            task.exception()  # seen: the cancellation is the news
        raise
    finally:
        task.cancel()
    return task


@contextmanager
def translated(where: str = "Kafka") -> Iterator[None]:
    """Let what the driver raises inside leave as a ``BrokerError``, with its cause."""
    try:
        yield
    except (errors.KafkaError, OSError, EOFError) as error:
        raise translate(error, where) from error


def client_kwargs(settings: Settings, name: str) -> dict[str, Any]:
    """Return what every client of the driver takes; ``name`` is what the broker's logs call it."""
    _hush()
    return {
        "bootstrap_servers": bootstrap_servers(settings),
        "client_id": f"dutycycle-{name}",
        "request_timeout_ms": _REQUEST_MS,
        "retry_backoff_ms": 200,
        **security_kwargs(settings),
    }


def new_producer(settings: Settings, name: str, *, linger_ms: int, compression: str, batch_bytes: int) -> Any:
    """Return a producer that is not started: idempotent, acknowledged by all replicas in sync."""
    driver = AIOKafkaProducer(
        **client_kwargs(settings, name),
        acks="all",
        enable_idempotence=True,
        linger_ms=linger_ms,
        compression_type=compression,
        max_batch_size=batch_bytes,
        max_request_size=_LONGEST_REQUEST,
    )
    harden_producer(driver)
    return driver


def harden_producer(driver: Any) -> None:
    """Let a producer of the driver that is not started last through outages, and say what it fails with."""
    outlast_outages(driver)
    pace_metadata(driver.client)
    mend_cancellation(driver.client)
    name_topics_in_failures(driver)


def new_consumer(settings: Settings, name: str, *topics: str, reset: str, wait_ms: int = 250) -> Any:
    """Return a consumer that is not started, of all partitions of ``topics``, in no group, committing
    nothing.

    ``wait_ms``: how long the broker keeps a request while it has nothing.
    """
    driver = AIOKafkaConsumer(
        *topics,
        **client_kwargs(settings, name),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset=reset,
        fetch_max_wait_ms=wait_ms,
    )
    pace_metadata(driver._client)
    mend_cancellation(driver._client)
    keep_places(driver._subscription)
    return driver


def keep_places(subscription: Any) -> None:
    """Let a consumer of the driver that is in no group (its ``SubscriptionState``) stay where it is when
    partitions are added, or are missing in one answer of a broker, as of one that has just started.

    The driver begins all of them anew then: with a gap, or with what was given out already. A partition that
    is added is read from its first record.
    """
    assign: Callable[[Any], None] = subscription.assign_from_subscribed
    states: dict[Any, Any] = {}

    def assign_and_keep(partitions: Any) -> None:
        known = states.copy()
        assign(partitions)
        for place in subscription.subscription.assignment.tps:
            state = states[place] = subscription.subscription.assignment.state_value(place)
            before = known.get(place)
            if before is not None and before.has_valid_position:
                state.seek(before.position)
            elif known:
                state.await_reset(OffsetResetStrategy.EARLIEST if before is None else before.reset_strategy)
            if before is not None and before.paused:
                state.pause()

    subscription.assign_from_subscribed = assign_and_keep


@asynccontextmanager
async def admin_client(settings: Settings, name: str) -> AsyncIterator[Any]:
    """Give an admin client that is connected, for as long as it is needed. What it raises leaves as a
    ``BrokerError``."""
    driver = AIOKafkaAdminClient(**client_kwargs(settings, name))
    mend_cancellation(driver._client)
    try:
        with translated():
            await driver.start()
            yield driver
    finally:
        await driver.close()


_opened: ContextVar[list[Any]] = ContextVar("connections that the client opens while it starts")


async def _create_noted(*args: Any, **kwargs: Any) -> Any:
    connection = await create_conn(*args, **kwargs)
    _opened.get([]).append(connection)
    return connection


aiokafka_client.create_conn = _create_noted


class _RefusableToken(aiokafka_conn.OAuthAuthenticator):  # type: ignore[misc]  # the driver has no types
    """Hears that a token is refused. The driver goes on as if it were accepted, and loses the connection."""

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Return the next message of the client: after the broker's reasons an empty one, which it answers by
        an error (RFC 7628, 3.2.3)."""
        answer: tuple[bytes, bool] | None = await super().step(payload)
        return (b"\x01", True) if answer is None and payload else answer


aiokafka_conn.OAuthAuthenticator = _RefusableToken


def mend_cancellation(client: Any) -> None:
    """Let a client (``AIOKafkaClient``, not started) take cancellations as everybody does.

    It closes what it opened when its start is cut short: the driver forgets the connection on which it waits
    for the first metadata, and when that is collected later, the log has an error of it. A cancellation while
    it disconnects is not lost.
    """
    close: Callable[[], Coroutine[Any, Any, None]] = client.close

    async def close_apart() -> None:
        (await _run_apart(close())).result()

    client.close = close_apart
    bootstrap: Callable[[], Awaitable[None]] = client.bootstrap

    async def bootstrap_or_close() -> None:
        opened: list[Any] = []
        token = _opened.set(opened)
        try:
            await bootstrap()
        except BaseException:
            for connection in opened:
                connection.close()
            raise
        finally:
            _opened.reset(token)

    client.bootstrap = bootstrap_or_close


def pace_metadata(
    client: Any,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Keep a client of the driver (``AIOKafkaClient``, not started) from asking for metadata in a circle.

    It asks again without a pause, in the producer and in the consumer, while a partition has no leader:
    hundreds of times a second while its broker is stopped. Java's client waits in between, and so does this.
    """
    update: Callable[..., Awaitable[bool]] = client._metadata_update
    backoff = Backoff(_METADATA_FIRST_S, _METADATA_LONGEST_S, spread=0)

    async def paced(*args: Any) -> bool:
        await sleep(max(backoff.due_s - clock(), 0.0))
        good = await update(*args)
        if good:
            backoff.reset()
        backoff.wait_from(clock())
        return good

    client._metadata_update = paced


def note_throttling(client: Any, telemetry: Telemetry) -> None:
    """Count each answer to a client of the driver (``AIOKafkaClient``) that the broker delayed, as a quota is
    used up. It is no failure: the delay is what the quota asks for."""

    def note(request: Any, answer: Any) -> None:
        delay_ms = getattr(answer, "throttle_time_ms", 0)
        if delay_ms:
            name = type(request).__name__.removesuffix("Request").lower()
            detail = (
                f"{client._client_id}: answered {delay_ms} ms late, as a quota of this user or client is "
                "used up: producer_byte_rate, consumer_byte_rate or request_percentage"
            )
            telemetry.emit(THROTTLED, detail, request=name)

    note_answers(client, note)


def note_answers(client: Any, note: Callable[[Any, Any], None]) -> None:
    """Call ``note`` with each request of a client of the driver (``AIOKafkaClient``) and its answer. The
    driver itself does not say that answers are late, or that none come any more."""
    send: Callable[..., Awaitable[Any]] = client.send

    async def send_and_note(node_id: int, request: Any, **options: Any) -> Any:
        answer = await send(node_id, request, **options)
        note(request, answer)
        return answer

    client.send = send_and_note


def new_topic(name: str, partitions: int, replication: int, config: dict[str, str]) -> Any:
    """Return a topic as the admin client takes it."""
    return NewTopic(name, partitions, replication, topic_configs=config)


def topic_resource(name: str, settings: dict[str, str] | None = None) -> Any:
    """Return a topic as requests name it that read its settings, or replace them by ``settings``."""
    return ConfigResource(ConfigResourceType.TOPIC, name, settings)


def partition(topic: str, number: int) -> Any:
    """Return a partition as the driver names it."""
    return TopicPartition(topic, number)


def check_code(code: int, where: str) -> None:
    """Raise the ``BrokerError`` of a non-zero error code in a broker's answer."""
    if code:
        raise translate(errors.for_code(code)(), where)


def is_code(code: int, name: str) -> bool:
    """Tell whether an answer's code is the driver's error of that name."""
    return bool(code) and errors.for_code(code).__name__ == name


async def probe(settings: Settings) -> None:
    """Connect and log in to one of the brokers, and to an address that it gives its clients, where these are
    others. Raises a ``BrokerError`` if none answers."""
    _hush()
    kwargs = {"client_id": "dutycycle-probe", "request_timeout_ms": _PROBE_MS, **security_kwargs(settings)}
    errors: list[BrokerError] = []
    bootstrap = bootstrap_servers(settings)
    for where in bootstrap:
        try:
            with translated(where):
                connection = await create_conn(*_host_port(where), **kwargs)
        except BrokerError as error:
            errors.append(error)
            continue
        try:
            with translated(where):
                metadata = await connection.send(MetadataRequest([]))
        finally:
            await connection.close()
        advertised = [f"{broker[1]}:{broker[2]}" for broker in metadata.brokers]
        if not advertised or set(advertised) & set(bootstrap):
            return
        # Its clients are given other addresses than its own: every request but the first would go there.
        failures = []
        for address in advertised:
            try:
                with translated(address):
                    connection = await create_conn(*_host_port(address), **kwargs)
            except BrokerError as error:
                failures.append(str(error))
            else:
                await connection.close()
                return
        raise BrokerUnreachableError(
            "advertised",
            f"{where} answers, and sends its clients to {', '.join(advertised)} (its advertised.listeners), "
            f"where nobody can be reached: {'; '.join(failures)}",
        )
    raise next((error for error in errors if isinstance(error, BrokerRefusedError)), errors[0])


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _hush() -> None:
    """Let the driver's own log be silent unless somebody asked for it: the same is said by our events."""
    log = logging.getLogger("aiokafka")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)

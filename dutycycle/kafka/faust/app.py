"""Makes the Faust app that streams and sinks share: hardened once, here.

It speaks bytes, serves no web pages, creates no topics, writes no files, reads no ``APP_*`` or ``BROKER_*``
environment variables, and commits only what the application says is done.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar

import faust
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from faust.assignor import PartitionAssignor
from faust.tables.manager import TableManager
from faust.transport.drivers import aiokafka as driver
from faust.types import settings as faust_settings

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.faust.consumer import ExactConsumer
from dutycycle.kafka.faust.logs import route_library_logs
from dutycycle.kafka.faust.producer import ExactProducer
from dutycycle.kafka.membership import name_protocol
from dutycycle.kafka.reachability import Reachability
from dutycycle.kafka.security import bootstrap_servers, ssl_context, token_provider
from dutycycle.telemetry.events import Telemetry

# Faust gives an app without tables round robin, whatever assignor it asks for. By ranges, partition i of all
# topics with equally many partitions goes to one worker: what is keyed alike is then read together.
driver.RoundRobinPartitionAssignor = RangePartitionAssignor  # type: ignore[attr-defined]  # it is there
_STALL_SHARE = 0.6
"""Of the session: after a stall of the process that is longer, others may own its partitions."""
_LOOK_S = 0.01
"""So often it is looked whether all agents have named their topics."""
_REBALANCE_S = 30.0
"""How long the group waits for a worker to hand in its partitions."""
BeginsAnew = Callable[[TopicPartition, int], Awaitable[bool]]
"""Whether a partition (full name of its topic) is read from its first record, although it is committed up to
the offset that is given. Called once the tables are recovered."""
NextOffset = Callable[[str, int], int | None]
"""The offset to be taken next of a topic (without prefix) and partition; None where that is not known."""
OnLogTruncated = Callable[[TopicPartition, str], None]
"""Gets a partition and what happened to it. If it does not end the app, it is read from its beginning."""
_PRODUCER: dict[str, Any] = {
    "producer_acks": -1,
    "producer_linger": 0.0,  # the producer is paced as a whole
    "producer_max_batch_size": 128 * 1024,
    "producer_max_request_size": 1024**2,
    # A tenth of the CPU of aiokafka's lz4, which is at level 9, and smaller.
    "producer_compression_type": "zstd",
    "producer_request_timeout": 30.0,
}


class ExactAssignor(PartitionAssignor):
    """Assigns nothing as long as it does not know all topics.

    A leader whose view of the cluster is old would hand out a source without its changelog, and whoever gets
    it would begin from nothing where there is a state.
    """

    def assign(self, cluster: Any, member_metadata: Any) -> Any:
        """Return what each member gets; called in the consumer's thread and loop."""
        app: Any = self.app
        topics = {topic for member in member_metadata.values() for topic in member.subscription}
        partitions = {topic: cluster.partitions_for_topic(topic) or () for topic in topics}
        if all(partitions.values()):
            assignments = super().assign(cluster, member_metadata)
        else:
            app.consumer._thread._consumer._client.force_metadata_update()  # then the group joins anew
            assignments = super().assign(_NO_TOPICS, member_metadata)
        assigned = Counter(
            topic
            for assignment in assignments.values()
            for topic, numbers in assignment.assignment
            for _ in numbers
        )
        app.unread_partitions = {
            topic: len(numbers) - assigned[topic] for topic, numbers in partitions.items()
        }
        return assignments


_NO_TOPICS: Any = SimpleNamespace(partitions_for_topic=lambda _topic: set())
"""As much of a cluster as the assignors ask."""


async def _goes_on(_place: TopicPartition, _committed: int) -> bool:
    return False


class _FaustSettings(faust_settings.Settings):
    def getenv(self, env_name: str) -> Any:
        """Return nothing: Faust lets the environment overrule the program, and its names are everybody's."""
        return None


class PromptTables(TableManager):
    """Lets a worker join its group once its agents have named their topics: Faust waits a second for them."""

    async def on_start(self) -> None:
        """Wait for them: a topic that is named after the worker has joined is read 45 s later."""
        agents: Any = self.app.agents
        wanted = {name for agent in agents.values() for name in agent.get_topic_names()}
        while wanted - {name for topic in self.app.topics for name in topic.topics}:
            await asyncio.sleep(_LOOK_S)
            if self.should_stop:
                return
        await self._update_channels()
        await self.recovery.start()


class ExactTransport(driver.Transport):
    """Makes our consumer and producer."""

    Consumer: ClassVar[Any] = ExactConsumer
    Producer: ClassVar[Any] = ExactProducer


class ExactApp(faust.App):
    """Is a Faust app with the exact driver. Made by ``create_app``, run by
    ``dutycycle.kafka.faust.runner``."""

    Settings: ClassVar[Any] = _FaustSettings
    telemetry: Telemetry
    failure: str | None = None
    """Why it cannot go on, once it cannot."""
    topic_prefix: str = ""
    group_protocol: str
    """What its members of the group have in common, as ``name_protocol`` says it."""
    unread_partitions: Mapping[str, int] = MappingProxyType({})
    """Of each topic how many partitions no member of the group has, where this worker deals them out."""
    reachability: Reachability
    """Says when the broker goes silent, and when it answers again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.failed = asyncio.Event()
        self.next_offset: NextOffset = lambda _topic, _partition: None
        """How far the application has come, where it knows better than the consumer."""
        self.on_log_truncated: OnLogTruncated = lambda _, what: self.fail(what)
        """Called at the start of reading, for a partition whose log ends before what was committed of it."""
        self.begins_anew: BeginsAnew = _goes_on
        self.is_backpressured: Callable[[], bool] = lambda: False
        """Whether the application reads no further on purpose, and says so itself."""

    @property
    def exact_consumer(self) -> ExactConsumer:
        """Return the consumer, under its real type."""
        consumer: Any = self.consumer
        assert isinstance(consumer, ExactConsumer)  # noqa: S101 - narrows what _new_transport makes
        return consumer

    @property
    def exact_producer(self) -> ExactProducer:
        """Return the producer, under its real type."""
        producer: Any = self.producer
        assert isinstance(producer, ExactProducer)  # noqa: S101 - narrows what _new_transport makes
        return producer

    @property
    def ready(self) -> bool:
        """Tell whether records are being read: in the group, partitions assigned, tables recovered."""
        tables: Any = self.tables
        return tables.recovery.completed.is_set() and not self.rebalancing

    def may_write(self) -> bool:
        """Tell whether this worker still owns what it was assigned, as far as it can know."""
        return not self.telemetry.stall_detector.process_stalled() and self.exact_consumer.is_member()

    def replaced(self) -> str | None:
        """Tell why what waits to be sent is older than what others have sent since, if it is."""
        if self.telemetry.stall_detector.process_stalled():
            return "the process stalled for too long"
        if self.exact_consumer.is_counted_out() and not self.should_stop:
            return "the group counted this worker out while it had records to send"
        return None

    def fail(self, reason: str) -> None:
        """End the process, with ``reason`` as its last words: going on would lose something."""
        if self.failure is None:
            self.failure = reason
        self.failed.set()

    async def on_first_start(self) -> None:
        """Create no folders: nothing is kept on disk."""

    def _new_transport(self) -> Any:
        return ExactTransport(self.conf.broker_consumer, self)


def create_app(
    settings: Settings, app_id: str, telemetry: Telemetry, group_protocol: str | None = None
) -> ExactApp:
    """Return a new app, not started. ``app_id`` is its consumer group, whose members all have
    ``group_protocol``, by default the release alone; call inside a running event loop.

    Raises ``SettingError`` for a broker that is not set or certificates that are none.
    """
    route_library_logs(telemetry)
    context = ssl_context(settings)
    credentials: Any = None
    if (provider := token_provider(settings)) is not None:
        credentials = faust.OAuthCredentials(oauth_cb=provider, ssl_context=context)
    elif settings.sasl_mechanism is not None:
        credentials = faust.SASLCredentials(
            username=settings.sasl_username, password=settings.sasl_password,
            mechanism=settings.sasl_mechanism, ssl_context=context,
        )  # fmt: skip
    elif context is not None:
        credentials = faust.SSLCredentials(context)
    group = {
        "broker_session_timeout": settings.session_timeout,
        "broker_heartbeat_interval": settings.session_timeout / 5,
        "broker_rebalance_timeout": _REBALANCE_S,
        # A join is answered when the last worker has joined; and Faust refuses less than the session.
        "broker_request_timeout": max(_REBALANCE_S, settings.session_timeout) + 10.0,
        "broker_commit_interval": 2.0,
    }
    app = ExactApp(
        app_id,
        broker=";".join(f"kafka://{address}" for address in bootstrap_servers(settings)),
        broker_credentials=credentials,
        broker_client_id=app_id,
        **group,
        **_PRODUCER,
        **_PLAIN,
    )
    app.telemetry = telemetry
    app.topic_prefix = settings.topic_prefix
    app.group_protocol = group_protocol or name_protocol(settings, ())
    app.reachability = Reachability(settings, telemetry)
    telemetry.stall_detector.process_limit_s = _STALL_SHARE * settings.session_timeout
    app.finalize()
    _ = app.ready  # Faust creates the manager of tables at its first use: here, in the loop's own thread
    return app


def raw_topic(app: ExactApp, name: str, **options: Any) -> Any:
    """Return a topic of bytes whose records may be tombstones; ``name`` in full."""
    return app.topic(
        name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw",
        allow_empty=True, **options,
    )  # fmt: skip


_PLAIN: dict[str, Any] = {
    "autodiscover": False,
    "web_enabled": False,
    "topic_allow_declare": False,
    "topic_disable_leader": True,
    "key_serializer": "raw",
    "value_serializer": "raw",
    "store": "memory://",
    "table_standby_replicas": 0,
    # With acknowledgements that are withheld until a snapshot, waiting for them would never end.
    "stream_wait_empty": False,
    "PartitionAssignor": ExactAssignor,
    "TableManager": PromptTables,
    "HttpClient": object,
    # An assignment made with an old view of the cluster is put right when the view is renewed.
    "consumer_metadata_max_age_ms": 10_000,
    "stream_buffer_maxsize": 2048,
    "consumer_max_fetch_size": 256 * 1024,
    "worker_redirect_stdouts": False,
}

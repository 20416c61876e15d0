"""Declares the metrics of a process beside its events: every one that is declared, and the registry that
holds them.

``docs/operations.md`` lists them. What is counted for each record is counted in plain integers and read at
the scrape (``Metrics.read``): an increment of prometheus_client costs six times as much.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

PREFIX = "dutycycle_"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Labels = tuple[str, ...]
Family = CounterMetricFamily | GaugeMetricFamily
Read = Callable[[], float | Mapping[Labels, float] | None]
"""A value as it is now, or one for each tuple of label values; None: there is none yet.

It is called in the thread of whoever scrapes: it waits for nothing and changes nothing.
"""
ReadMany = Callable[[], Iterable[tuple["Metric", Mapping[Labels, float]]]]
"""Metrics whose label values come and go, each with all of its values; called like ``Read``."""
M = TypeVar("M", Counter, Gauge)
# A time stamp beside each counter would double the page, and a restart shows in process_start_time_seconds.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it is not annotated


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """Declares a metric, once. A name that ends in ``_total`` is a counter, every other a gauge.

    The unit is the last part of the name (before ``_total``). The values of a label are few: no pod, no key.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Tell whether it only ever grows."""
        return self.name.endswith("_total")


# Every process.
BUILD_INFO = Metric("build_info", "Always 1; the label is the version", ("version",))
HEALTHY = Metric("healthy", "1 while the process is alive, 0 when it has to be restarted")
READY = Metric("ready", "1 while the process does its work, 0 while it waits for something")
CONDITIONS = Metric("conditions", "Lasting events now, by their name", ("event",))

# Readers of Kafka: stream and sink.
LAG = Metric("consumer_lag_records", "Records not yet read, over all partitions assigned here", ("topic",))
LAG_MAX = Metric("consumer_lag_max_records", "The same for the partition with the largest lag", ("topic",))
ASSIGNED = Metric("assigned_partitions", "Partitions that this worker reads", ("topic",))
UNASSIGNED = Metric(
    "unassigned_partitions",
    "Partitions that no worker of the group reads, as its leader dealt them out",
    ("topic",),
)
REBALANCES = Metric("rebalances_total", "Rebalances of the consumer group")
RECOVERY = Metric("recovery_seconds", "How long the last recovery of state took")
RECORDS_TAKEN = Metric("records_taken_total", "Records read, used or not", ("topic",))
RECORDS_USED = Metric("records_used_total", "Records that are part of the results", ("topic",))
WATERMARK_DELAY = Metric(
    "watermark_delay_seconds", "Age of the newest record read, by its own timestamp", ("topic",)
)

# Stream.
COMMITS = Metric("commits_total", "Commits of state, outputs and offsets")
COMMIT_SECONDS = Metric("commit_seconds_total", "Time spent in commits")
SNAPSHOT_AGE = Metric("snapshot_age_seconds", "Time since the last commit, or since the assignment")
SNAPSHOTS = Metric("snapshots_total", "Stored states of a key", ("stage",))
SNAPSHOT_BYTES = Metric("snapshot_bytes_total", "Their bytes in the changelog", ("stage",))
LIVE_KEYS = Metric("live_keys", "Keys whose operator is in memory", ("stage",))

# Sink; and sink --metrics, whose sink remote_write writes samples.
WRITES = Metric("writes_total", "Rows, objects or samples written", ("sink",))
PENDING = Metric("pending_writes", "Rows, objects or samples that wait to be written", ("sink",))
SINK_UP = Metric(
    "sink_up",
    "1 while the database, the API server or the receiver of series accepts writes, 0 while it does not",
    ("sink",),
)
LAST_WRITE = Metric("last_write_timestamp_seconds", "Time of the last successful write", ("sink",))

# Sink of metrics.
SERIES_PODS_OMITTED = Metric(
    "series_pods_omitted",
    "Pods that use GPUs and have no series, because there are more than DUTYCYCLE_METRICS_PODS",
)

# Adapter.
ADAPTER_ANSWERS = Metric("adapter_answers_total", "Answers to the API server, by HTTP status", ("code",))

# Extender.
EXTENDER_ANSWERS = Metric(
    "extender_answers_total", "Answers to kube-scheduler, by what it asked and HTTP status", ("verb", "code")
)
EXTENDER_SECONDS = Metric("extender_answer_seconds_total", "Time that they took", ("verb",))

# Webhook.
WEBHOOK_PODS = Metric(
    "webhook_pods_total", "Pods that the API server asked about, by what was done", ("result",)
)
WEBHOOK_SECONDS = Metric("webhook_answer_seconds_total", "Time that the answers took")
PRIORITY_CLASSES = Metric("priority_classes", "PriorityClasses that a pod may get now")

# Collector.
TICKS = Metric("ticks_total", "Ticks that were started")
SOURCE_UP = Metric("source_up", "1 while the source measures, 0 while it does not", ("collector",))
SOURCE_RESTARTS = Metric(
    "source_restarts_total", "How often a source measured again after a failure", ("collector",)
)
LAST_MEASURE_SECONDS = Metric(
    "last_measure_seconds", "How long the source took for its last tick", ("collector",)
)
MEASURES = Metric("measures_total", "Ticks that the source answered in time", ("collector",))
MEASURE_SECONDS = Metric("measure_seconds_total", "Time that they took", ("collector",))
RECORDS_SENT = Metric("records_sent_total", "Records that the broker acknowledged", ("topic",))
QUEUED = Metric("queued_records", "Records that wait to be sent, in memory and on disk")
SPOOL_RECORDS = Metric("spool_records", "Records on disk because the broker is unreachable")
SPOOL_BYTES = Metric("spool_bytes", "Their bytes on disk")
SPOOL_LIMIT_BYTES = Metric(
    "spool_limit_bytes", "How many may be there, `DUTYCYCLE_SPOOL_BYTES`: beyond it the oldest are dropped"
)

# ``dutycycle up``.
RESTARTS = Metric("restarts", "How often `dutycycle up` has restarted this process")

GROUPS: dict[str, tuple[Metric, ...]] = {
    "every process": (BUILD_INFO, HEALTHY, READY, CONDITIONS, RESTARTS),
    "stream and sink": (
        LAG, LAG_MAX, ASSIGNED, UNASSIGNED, REBALANCES, RECOVERY, RECORDS_TAKEN, RECORDS_USED,
        WATERMARK_DELAY,
    ),
    "stream": (COMMITS, COMMIT_SECONDS, SNAPSHOT_AGE, SNAPSHOTS, SNAPSHOT_BYTES, LIVE_KEYS),
    "sink, and sink --metrics with remote write": (WRITES, PENDING, SINK_UP, LAST_WRITE),
    "sink --metrics": (SERIES_PODS_OMITTED,),
    "adapter": (ADAPTER_ANSWERS,),
    "extender": (EXTENDER_ANSWERS, EXTENDER_SECONDS),
    "webhook": (WEBHOOK_PODS, WEBHOOK_SECONDS, PRIORITY_CLASSES),
    "collect": (
        TICKS, SOURCE_UP, SOURCE_RESTARTS, MEASURES, MEASURE_SECONDS, LAST_MEASURE_SECONDS, RECORDS_SENT,
        QUEUED, SPOOL_RECORDS, SPOOL_BYTES, SPOOL_LIMIT_BYTES,
    ),
}  # fmt: skip
"""Who serves what, in the order of the page."""


class Metrics(Collector):
    """Holds the metrics of one process, in a registry of its own. Safe to call from several threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._made: dict[Metric, Counter | Gauge] = {}
        self._reads: dict[Metric, Read] = {}
        self._reads_of_many: list[ReadMany] = []
        self._lock = threading.Lock()

    def counter(self, metric: Metric, **labels: str) -> Counter:
        """Return the counter with these label values, shown from 0 on. Whoever counts keeps it."""
        metric_made = self._get(metric, Counter)
        return metric_made.labels(**labels) if labels else metric_made

    def gauge(self, metric: Metric, **labels: str) -> Gauge:
        """Return the gauge with these label values."""
        metric_made = self._get(metric, Gauge)
        return metric_made.labels(**labels) if labels else metric_made

    def read(self, metric: Metric, read: Read) -> None:
        """Ask ``read`` for the value at every scrape; the last one given counts."""
        self._reads[metric] = read

    def read_many(self, read: ReadMany) -> None:
        """Ask ``read`` for all that it has at every scrape. If it fails, so does the scrape."""
        self._reads_of_many.append(read)

    def collect(self) -> Iterator[Family]:
        """Yield what is read at a scrape. Called by the registry."""
        for read_many in self._reads_of_many:
            for metric, values in read_many():
                yield family(metric, values)
        for metric, read in list(self._reads.items()):
            try:
                answer = read()
            except Exception:  # noqa: BLE001 - it looks into what other threads change, and is asked again
                answer = None
            if not isinstance(answer, Mapping):
                answer = {} if answer is None else {(): float(answer)}
            yield family(metric, answer)

    def samples(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """Yield everything as it is now: name, labels and value of each series."""
        for family in self.registry.collect():
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def page(self) -> bytes:
        """Return everything as it is now, in Prometheus' text format."""
        return generate_latest(self.registry)

    def _get(self, metric: Metric, kind: type[M]) -> M:
        with self._lock:
            if metric not in self._made:
                self._made[metric] = kind(
                    PREFIX + metric.name, metric.help, metric.labels, registry=self.registry
                )
            metric_made = self._made[metric]
        assert isinstance(metric_made, kind)  # noqa: S101 - narrows what is made above
        return metric_made


def family(metric: Metric, values: Mapping[Labels, float]) -> Family:
    """Return ``values`` by their label values as the family that the registry takes."""
    kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
    family = kind(PREFIX + metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def release() -> str:
    """Return the version of Dutycycle that is installed; "unknown" where it is run from a folder of
    sources."""
    try:
        return version("dutycycle")
    except PackageNotFoundError:
        return "unknown"

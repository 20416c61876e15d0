"""Every figure that a process serves beside its events, by name. ``docs/operations.md`` lists them."""

from telemetry.meter import Metric

# Every process.
BUILD_INFO = Metric("build_info", "Always 1; the label is the version", ("version",))
HEALTHY = Metric("healthy", "1 while the process is alive, 0 when it has to be started anew")
READY = Metric("ready", "1 while the process does its work, 0 while it waits for something")
CONDITIONS = Metric("conditions", "Lasting troubles now, by the event that began them", ("event",))

# Readers of Kafka: stream and sink.
LAG = Metric("consumer_lag_records", "Records not yet read, over all partitions assigned here", ("topic",))
LAG_MAX = Metric("consumer_lag_max_records", "The same of the partition that is furthest behind", ("topic",))
ASSIGNED = Metric("assigned_partitions", "Partitions that this worker reads", ("topic",))
REBALANCES = Metric("rebalances_total", "How often the group gave out its partitions anew")
RECOVERY = Metric("recovery_seconds", "How long the last recovery of state took")
RECORDS_TAKEN = Metric("records_taken_total", "Records read, whatever became of them", ("topic",))
RECORDS_USED = Metric("records_used_total", "Records that count in the results", ("topic",))
WATERMARK_DELAY = Metric(
    "watermark_delay_seconds", "Age of the newest record taken, by its own time", ("topic",)
)

# Stream.
COMMITS = Metric("commits_total", "Commits of state, outputs and offsets")
COMMIT_SECONDS = Metric("commit_seconds_total", "Time spent in commits")
SNAPSHOT_AGE = Metric("snapshot_age_seconds", "Time since the last commit, or since the assignment")
SNAPSHOTS = Metric("snapshots_total", "States of a key that were stored", ("stage",))
SNAPSHOT_BYTES = Metric("snapshot_bytes_total", "What they took in the changelog", ("stage",))
LIVE_KEYS = Metric("live_keys", "Keys whose operator is in memory", ("stage",))

# Sink.
WRITES = Metric("writes_total", "Rows or objects written", ("sink",))
PENDING = Metric("pending_writes", "Rows or objects that wait to be written", ("sink",))
SINK_UP = Metric("sink_up", "1 while what the sink writes to takes it, 0 while it does not", ("sink",))
LAST_WRITE = Metric("last_write_timestamp_seconds", "When a write last succeeded", ("sink",))

# Collector.
TICKS = Metric("ticks_total", "Ticks that were begun")
SOURCE_UP = Metric("source_up", "1 while the source measures, 0 while it does not", ("collector",))
SOURCE_RESTARTS = Metric(
    "source_restarts_total", "How often a source that had failed measured again", ("collector",)
)
MEASURE_SECONDS = Metric("measure_seconds", "How long the source took for its last tick", ("collector",))
MEASURES = Metric("measures_total", "Ticks that the source answered in time", ("collector",))
MEASURE_SECONDS_SUM = Metric("measure_seconds_total", "Time that these took", ("collector",))
RECORDS_SENT = Metric("records_sent_total", "Records that the broker acknowledged", ("topic",))
QUEUED = Metric("queued_records", "Records that wait to be sent, in memory and on disk")
SPOOL_RECORDS = Metric("spool_records", "Records on disk because the broker is away")
SPOOL_BYTES = Metric("spool_bytes", "What they take there")

# ``dutycycle up``.
RESTARTS = Metric("restarts", "How often `dutycycle up` has started this process again")

GROUPS: dict[str, tuple[Metric, ...]] = {
    "every process": (BUILD_INFO, HEALTHY, READY, CONDITIONS, RESTARTS),
    "stream and sink": (
        LAG, LAG_MAX, ASSIGNED, REBALANCES, RECOVERY, RECORDS_TAKEN, RECORDS_USED, WATERMARK_DELAY,
    ),
    "stream": (COMMITS, COMMIT_SECONDS, SNAPSHOT_AGE, SNAPSHOTS, SNAPSHOT_BYTES, LIVE_KEYS),
    "sink": (WRITES, PENDING, SINK_UP, LAST_WRITE),
    "collect": (
        TICKS, SOURCE_UP, SOURCE_RESTARTS, MEASURES, MEASURE_SECONDS, MEASURE_SECONDS_SUM, RECORDS_SENT,
        QUEUED, SPOOL_RECORDS, SPOOL_BYTES,
    ),
}  # fmt: skip
"""Who serves what, in the order of the page."""

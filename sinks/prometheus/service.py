"""``dutycycle sink --metrics``: a process that serves the series, from a broker that may not be there yet."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS
from dutycycle.kafka.reachability import StoppedError, unless, wait_for_topics
from dutycycle.telemetry import events
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import RECORDS_TAKEN, SERIES_PODS_OMITTED, WATERMARK_DELAY, Labels, Metric
from sinks import events as sink_events
from sinks.prometheus.reader import COMPACTED, FOLLOWED, MetricsReader
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from sinks.tasks import together

_CLOSE_S = 5.0


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Serve until ``stop`` is set. Raises ``DutycycleError`` where the start is refused."""
    sinks = ["remote_write"] if settings.remote_write else []
    telemetry.expect(events, sink_events, topic=[*COMPACTED, *FOLLOWED], sink=sinks)
    status = telemetry.status
    status.waiting = f"waiting for the broker at {settings.broker}"
    outputs = [name for name in (*COMPACTED, *FOLLOWED) if name not in ALIKE_TOPICS]
    try:
        await unless(stop, wait_for_topics(settings, telemetry, ALIKE_TOPICS, outputs=outputs))
    except StoppedError:
        return
    reader = MetricsReader(settings, telemetry, MetricsView(round(settings.metrics_window * 1000)))
    serve(settings, telemetry, reader)
    status.waiting = None
    working = asyncio.create_task(_work(settings, telemetry, reader))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        working.result()
    working.cancel()
    with suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_CLOSE_S):
            await working


async def _work(settings: Settings, telemetry: Telemetry, reader: MetricsReader) -> None:
    work = [reader.run()]
    if settings.remote_write is not None:
        from sinks.prometheus.remote_write import RemoteWriter  # most do without, and without aiohttp

        work.append(RemoteWriter(settings, telemetry).run())
    await together(*work)


def serve(
    settings: Settings, telemetry: Telemetry, reader: MetricsReader, wall: Callable[[], float] = time.time
) -> None:
    """Show what ``reader`` knows at every scrape."""
    series = SeriesRows(reader.view, settings.pod_labels, settings.metrics_stale, settings.metrics_pods)

    def rows() -> Iterable[tuple[Metric, Mapping[Labels, float]]]:
        if not reader.caught_up:
            return ()
        with reader.lock:
            return series.rows(round(wall() * 1000))

    metrics = telemetry.metrics
    metrics.read_many(rows)
    metrics.read(SERIES_PODS_OMITTED, lambda: float(series.omitted))
    metrics.read(RECORDS_TAKEN, lambda: {(topic,): float(count) for topic, count in reader.taken.items()})
    metrics.read(
        WATERMARK_DELAY,
        lambda: {(topic,): wall() - ms / 1000 for topic, ms in list(reader.newest_ms.items())},
    )
    telemetry.status.ready["topics"] = lambda: None if reader.caught_up else "reads the topics"

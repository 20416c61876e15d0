"""Holds the role ``metrics``, which serves series of GPUs, pods and jobs on the process's ``/metrics``, or by
remote write."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.tasks import together
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import SERIES_PODS_OMITTED, Labels, Metric
from dutycycle.view.follower import Subscription
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from sinks.serve.base import Admission, Models, Role

if TYPE_CHECKING:
    from sinks.prometheus.remote_write import RemoteWriter

COMPACTED = ("node-parts", "pods", "trends", "cycles", "insights", "gpu-health")
FOLLOWED = ("nvml-samples", "window-aggregates", "processes")
_FORGET_EVERY_S = 30.0


class MetricsRole(Role):
    """Shows nothing before it has come to the end of the topics: the newest part of each node has the
    counters, so that none is ever seen to go down. Any two processes show the same."""

    name = "metrics"

    def __init__(
        self,
        settings: Settings,
        telemetry: Telemetry,
        models: Models,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(settings, telemetry, models)
        self.view = MetricsView(round(settings.metrics_window * 1000))
        recent = dict.fromkeys(FOLLOWED, settings.metrics_window + settings.metrics_stale)
        self.subscriptions = [Subscription(dict.fromkeys(COMPACTED) | recent, self.view.hear)]
        self._wall = wall
        self._writer: RemoteWriter | None = None
        series = SeriesRows(self.view, settings.pod_labels, settings.metrics_stale, settings.metrics_pods)

        def rows() -> Iterable[tuple[Metric, Mapping[Labels, float]]]:
            is_read = telemetry.status.ready.get(self.name, lambda: None)() is None
            return series.rows(round(wall() * 1000)) if is_read else ()

        telemetry.metrics.read_many(rows)
        telemetry.metrics.read(SERIES_PODS_OMITTED, lambda: float(series.omitted))

    async def open(self) -> None:
        """Raises ``SettingError`` for a CA of the receiver that cannot be used."""
        if self.settings.remote_write is not None:
            from sinks.prometheus.remote_write import RemoteWriter  # most do without, and without aiohttp

            self._writer = RemoteWriter(self.settings, self.telemetry)

    async def work(self, admission: Admission | None) -> None:
        """Forget what is gone; send the series, where a receiver is given."""

        async def forget() -> None:
            while True:
                await asyncio.sleep(_FORGET_EVERY_S)
                if self.telemetry.status.ready[self.name]() is None:
                    self.view.forget(round(self._wall() * 1000))

        work = [forget()]
        if self._writer is not None:
            work.append(self._writer.run())
        await together(*work)

"""A process's figures in Prometheus' text format, read at the moment of the scrape."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from telemetry.events import Telemetry
from telemetry.meter import Labels, Metric
from telemetry.metrics import CONDITIONS

PREFIX = "dutycycle_"
CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_TOTAL = "_total"
Family = CounterMetricFamily | GaugeMetricFamily


class Exposition:
    """The page of one process: its events, its figures, and what the system knows of it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(telemetry))
        ProcessCollector(registry=self._registry)

    def page(self) -> bytes:
        """The page as it is now."""
        return generate_latest(self._registry)


class _Figures(Collector):
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterable[Family]:
        """Called by the registry."""
        for event, counts in sorted(self._telemetry.tally().items(), key=lambda one: one[0].name):
            yield _family(Metric(event.name + _TOTAL, event.help, event.labels), counts)
        now = self._telemetry.meter.now()
        now[CONDITIONS] = dict(Counter((event,) for event, _ in list(self._telemetry.conditions)))
        for metric, values in sorted(now.items(), key=lambda one: one[0].name):
            yield _family(metric, values)

    def describe(self) -> Iterator[Family]:
        """Nothing: what there is shows when it is read."""
        yield from ()


def _family(metric: Metric, values: Mapping[Labels, float]) -> Family:
    kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
    family: Family = kind(PREFIX + metric.name, metric.help, labels=metric.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family

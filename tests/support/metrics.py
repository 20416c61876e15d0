"""What a process would show of a metric, for tests."""

from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import PREFIX, Metric


def metric_value(telemetry: Telemetry, metric: Metric, **labels: str) -> float | None:
    """The value that a scrape would read now; None where there is none."""
    return telemetry.metrics.registry.get_sample_value(PREFIX + metric.name, labels)

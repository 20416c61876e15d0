"""What a collector counts, from 0 on: a rate needs a value before the first increment."""

from collectors.nvml.session import GPUS_UNAVAILABLE
from collectors.publish.outbox import SPOOL_FAILED
from collectors.publish.publisher import RECORD_REFUSED
from contract.topics import SAMPLE_TOPICS
from telemetry.events import (
    ATTRIBUTION_FAILED,
    BROKER_UNREACHABLE,
    COLLECTOR_FAILED,
    DEVICE_LOST,
    KUBERNETES_AWAY,
    NOT_MEASURED,
    PROMETHEUS_QUERY_FAILED,
    RECORD_TOO_LARGE,
    SPOOL_DROPPED,
    SPOOLED,
    TICK_LATE,
    Telemetry,
)
from telemetry.meter import product
from telemetry.metrics import RECORDS_SENT, TICKS


def expect(telemetry: Telemetry) -> None:
    """Declare what may be counted."""
    for event in (
        ATTRIBUTION_FAILED, BROKER_UNREACHABLE, COLLECTOR_FAILED, DEVICE_LOST, GPUS_UNAVAILABLE, NOT_MEASURED,
        RECORD_REFUSED, SPOOLED, SPOOL_DROPPED, TICK_LATE,
    ):  # fmt: skip
        telemetry.expect(event)
    telemetry.expect(KUBERNETES_AWAY, [("pods",)])
    telemetry.expect(PROMETHEUS_QUERY_FAILED, product(["gpus", "containers", "hosts", "kube_pod_info"]))
    telemetry.expect(RECORD_TOO_LARGE, product(SAMPLE_TOPICS))
    telemetry.expect(SPOOL_FAILED, [("disk",)])
    telemetry.meter.expect(RECORDS_SENT, *product(SAMPLE_TOPICS))
    telemetry.meter.expect(TICKS)

"""Goal: nothing is shown too early, and a scrape does not wait for records, nor records for a scrape."""

import threading
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from sinks.prometheus.role import MetricsRole
from tests.support.data.samples import gpu, nvml

NOW_S = 1_700_000_000.0
SETTINGS = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
NODES, ROUNDS = 500, 10


def sample(node: str, at_ms: int, gpus: int = 1) -> NvmlSample:
    plain = nvml(1, [gpu(gpu_util_pct=50, uuid=f"{node}-{n}") for n in range(gpus)], ts_ms=at_ms, node=node)
    return decode(NvmlSample, orjson.dumps(plain), "nvml-samples")


def role_of(telemetry: Telemetry) -> MetricsRole:
    return MetricsRole(SETTINGS, telemetry, {}, wall=lambda: NOW_S)


def test_nothing_is_served_before_the_end_of_the_topics() -> None:
    telemetry, waits = Telemetry("metrics"), "reading nvml-samples"
    role = role_of(telemetry)
    error: str | None = waits
    telemetry.status.ready[role.name] = lambda: error
    role.view.hear("nvml-samples", "a", sample("a", round(NOW_S * 1000)))
    assert b"dutycycle_gpu" not in telemetry.metrics.page()
    telemetry.status.waiting = None
    assert telemetry.status.readiness_error() == f"metrics: {waits}"
    error = None
    assert b"dutycycle_gpu_utilization_ratio" in telemetry.metrics.page()
    assert telemetry.status.readiness_error() is None


def test_records_are_taken_while_a_scrape_is_rendered() -> None:
    telemetry, over = Telemetry("metrics"), threading.Event()
    role = role_of(telemetry)
    now_ms, errors = round(NOW_S * 1000), []

    def feed() -> None:
        for number in range(NODES):
            role.view.hear("nvml-samples", f"n{number}", sample(f"n{number}", now_ms, gpus=2))
            if number % 50 == 0:
                role.view.forget(now_ms)
            if over.wait(0.001):
                return

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        pages = [telemetry.metrics.page()]
        # A quick machine has rendered its rounds before the feed has begun.
        while len(pages) < ROUNDS or (len(pages[-1]) <= len(pages[0]) and feeding.is_alive()):
            pages.append(telemetry.metrics.page())
    except RuntimeError as error:  # a dictionary that grew while it was gone over
        errors.append(error)
    over.set()
    feeding.join()
    assert not errors
    assert len(pages[-1]) > len(pages[0])


async def test_a_ca_of_the_receiver_that_is_none_ends_the_start(tmp_path: Path) -> None:
    """The broker may be away for long, and nobody would look."""
    authority = tmp_path / "ca.crt"
    authority.write_text("no PEM")
    given = {"DUTYCYCLE_REMOTE_WRITE": "https://receiver", "DUTYCYCLE_REMOTE_WRITE_CA": str(authority)}
    role = MetricsRole(load({"DUTYCYCLE_NODE": "any", **given}), Telemetry("metrics"), {})
    with pytest.raises(SettingError, match=r"DUTYCYCLE_REMOTE_WRITE_CA=.*: no certificate in PEM"):
        await role.open()

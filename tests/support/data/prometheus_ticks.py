"""A Prometheus collector under test, and what it gave out."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from collectors.base import Tick
from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.collector import PrometheusCollector
from collectors.prometheus.query import Prometheus as PrometheusSource
from dutycycle.contract.codec import decode
from dutycycle.contract.records.health import GpuEvent
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from dutycycle.contract.settings.groups import PrometheusSettings
from dutycycle.telemetry.events import Telemetry
from tests.support.servers.prometheus import Prometheus
from tests.support.waiting import wait_until

SCRAPE_S = 0.25
GB = 10**9
Start = Callable[..., Prometheus]


class Records:
    """Ticks a collector, and keeps what it gives out."""

    def __init__(self, url: str, **access: Any) -> None:
        self.telemetry = Telemetry("test")
        settings = PrometheusSettings(prometheus=url, **access)
        self.reader = AnswerReader(settings)
        self.collector = PrometheusCollector(
            PrometheusSource(settings), self.telemetry, self.reader, uid_of=None, retire_s=600
        )
        self.gpus: list[NvmlSample] = []
        self.use: list[CgroupSample] = []
        self.pods: list[Pod] = []
        self.events: list[GpuEvent] = []
        self._seq = count()

    def tick(self) -> None:
        tick = Tick(
            node="me", collector="c", seq=next(self._seq), ts_ms=round(time.time() * 1000), interval_ms=1000,
            monotonic_s=time.monotonic(),
        )  # fmt: skip
        for one in self.collector.collect(tick):
            assert one.value is not None
            if one.topic == "nvml-samples":
                self.gpus.append(decode(NvmlSample, one.value, one.topic))
                assert (one.key, one.ts_ms) == (self.gpus[-1].node, self.gpus[-1].ts_ms)
            elif one.topic == "cgroup-samples":
                self.use.append(decode(CgroupSample, one.value, one.topic))
                assert (one.key, one.ts_ms) == (self.use[-1].node, self.use[-1].ts_ms)
            elif one.topic == "gpu-events":
                self.events.append(decode(GpuEvent, one.value, one.topic))
                assert one.key == self.events[-1].node
            else:
                self.pods.append(decode(Pod, one.value, one.topic))
                assert one.key == self.pods[-1].uid

    def until(self, reached: Callable[[], object]) -> None:
        wait_until(reached, pause_s=0.05, meanwhile=self.tick)

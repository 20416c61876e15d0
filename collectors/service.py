"""Puts the node collector together: what measures, the loop, the publisher and its spool."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from collectors.attribution.kubelet_allocations import allocations
from collectors.attribution.processes import Attribution
from collectors.base import Collector
from collectors.cgroup.collector import CgroupCollector
from collectors.cuda.collector import CudaCollector
from collectors.nvml.collector import NvmlCollector
from collectors.pods.collector import PodsCollector, pods_collector
from collectors.process.collector import ProcessCollector
from collectors.process.socket import DEFAULT_PATH, StepSocket
from collectors.publish.link import KafkaLink
from collectors.publish.outbox import Outbox
from collectors.publish.publisher import Publisher
from collectors.publish.spool import Spool
from collectors.runner import Runner
from dutycycle.contract.catalogue import ACTIVITY_METRICS, ENGINE_METRICS, USUAL_ACTIVITY
from dutycycle.contract.settings.folders import state_folder
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS
from dutycycle.kafka.reachability import Reachability
from dutycycle.kafka.security import security_kwargs
from dutycycle.telemetry import events
from dutycycle.telemetry.events import SPOOL_DROPPED, STEPS_UNREACHABLE, Telemetry
from dutycycle.telemetry.metrics import QUEUED, SPOOL_BYTES, SPOOL_LIMIT_BYTES, SPOOL_RECORDS

_MEMORY_BYTES = 16 * 1024 * 1024
_FLUSH_S = 5.0


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Measure and publish until ``stop`` is set; then end within seconds.

    An unreachable broker is waited for; what it did not acknowledge is in the spool at the end. Raises
    ``DutycycleError`` for what the user has to mend: a setting, the spool's folder, credentials, topics.
    """
    security_kwargs(settings)  # refuses wrong files now, and not when the broker is first reached
    pods = None if settings.demo == "on" else await pods_collector(settings, telemetry)
    measuring = list(collectors(settings, telemetry, pods))
    telemetry.expect(events, topic=SAMPLE_TOPICS, collector=[collector.name for collector in measuring])
    outbox = Outbox(open_spool(settings, telemetry, os.environ), telemetry, _MEMORY_BYTES)
    publisher = Publisher(
        outbox,
        telemetry,
        Reachability(settings, telemetry),
        lambda: KafkaLink.open(settings, telemetry),
    )
    telemetry.metrics.read(QUEUED, lambda: float(len(outbox)))
    telemetry.metrics.read(SPOOL_RECORDS, lambda: float(outbox.spooled))
    telemetry.metrics.read(SPOOL_BYTES, lambda: float(outbox.spooled_bytes))
    telemetry.metrics.read(SPOOL_LIMIT_BYTES, lambda: float(settings.spool_bytes))
    telemetry.status.ready["publisher"] = publisher.readiness_error
    telemetry.status.remark = publisher.status_line
    telemetry.status.waiting = None
    sending = publisher.start()
    try:
        runner = Runner(
            measuring, publisher.publish, telemetry, node=settings.node, interval_s=settings.interval
        )
        telemetry.status.ready["ticks"] = runner.metrics.readiness_error
        ticking = asyncio.create_task(runner.run(stop))
        await asyncio.wait({sending, ticking}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()  # a signal came, or the broker refuses us for good
        await ticking
    finally:
        await publisher.close(_FLUSH_S)
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


def collectors(settings: Settings, telemetry: Telemetry, pods: PodsCollector | None) -> Iterator[Collector]:
    """Yield what measures: this node itself, a Prometheus for all nodes, or a simulation; and who the pods
    are."""
    if settings.demo == "on":
        from collectors.demo.machine import DemoMachine  # only here: a node's own does without

        yield DemoMachine()
    elif settings.prometheus is not None:
        # Only here: its client takes 5 MB, and a node's own collector does without.
        from collectors.prometheus.answers import AnswerReader
        from collectors.prometheus.collector import PrometheusCollector
        from collectors.prometheus.query import Prometheus

        chosen = settings.gpu_activity
        known = {*ACTIVITY_METRICS, *ENGINE_METRICS}
        left_out = set() if chosen == "on" else known - {*_activity(chosen)}
        yield PrometheusCollector(
            Prometheus(settings),
            telemetry,
            AnswerReader(settings, left_out),
            uid_of=None if pods is None else pods.uid_of,
            retire_s=settings.retire,
            health=settings.gpu_health == "on",
        )
    else:
        yield CgroupCollector(
            telemetry=telemetry,
            host_root=settings.host_root,
            containers=settings.containers,
            retire_s=settings.retire,
        )
        # Without an API server no uid is known.
        uid_of = pods.uid_of if pods else lambda _namespace, _name: None
        if settings.cuda_logs is not None:
            yield CudaCollector(telemetry, Path(settings.cuda_logs), uid_of)
        nvml = NvmlCollector(
            telemetry,
            _attribution(settings, telemetry),
            allocations=allocations(settings, telemetry, uid_of),
            host_root=settings.host_root,
            health=settings.gpu_health == "on",
            activity=_activity(settings.gpu_activity),
            pod_of=pods.pod_of if pods else lambda _: None,
        )
        yield nvml
        yield ProcessCollector(
            telemetry,
            _attribution(settings, telemetry),
            lambda: nvml.pids,
            steps=_steps(settings, telemetry),
            host_root=settings.host_root,
        )
    if pods is not None:
        yield pods


def open_spool(settings: Settings, telemetry: Telemetry, environ: Mapping[str, str]) -> Spool:
    """Open the spool in ``DUTYCYCLE_SPOOL``, or in a folder of this user's state, one for each node and
    prefix.

    Its lock refuses a second collector on this machine. Records that wait for one topic prefix never go to
    another; a broker that moved to another address gets what waits for it.

    Raises ``SpoolBusyError`` while another collector runs, ``SpoolError`` for a folder that cannot be used.
    """
    # Neither a node nor a prefix may have an "@" in its name.
    name = settings.node + ("" if settings.topic_prefix == DEFAULT_PREFIX else f"@{settings.topic_prefix}")
    folder = state_folder(environ) / "spool" / name if settings.spool is None else Path(settings.spool)
    spool = Spool(folder, settings.spool_bytes)
    if spool.was_damaged:
        telemetry.emit(SPOOL_DROPPED, f"{spool.folder} was damaged, and is put aside as spool.damaged")
    return spool


def _attribution(settings: Settings, telemetry: Telemetry) -> Attribution:
    """Return one for each thread that asks."""
    return Attribution(
        node=settings.node,
        telemetry=telemetry,
        host_root=settings.host_root,
        containers=settings.containers,
    )


def _steps(settings: Settings, telemetry: Telemetry) -> StepSocket | None:
    """Tell where training loops report; None where they cannot. All else is measured all the same."""
    path = Path(settings.steps_socket)
    if settings.steps_socket == "auto":
        path = Path(DEFAULT_PATH)
        if not os.access(path.parent, os.W_OK):
            return None
    elif settings.steps_socket == "off":
        return None
    try:
        return StepSocket(path, telemetry, _attribution(settings, telemetry))
    except OSError as error:
        detail = f"DUTYCYCLE_STEPS_SOCKET={settings.steps_socket}: {error.strerror or error}"
        telemetry.raise_condition(STEPS_UNREACHABLE, str(path), detail)
        return None


def _activity(chosen: str) -> tuple[str, ...]:
    """Return the metrics that the setting ``gpu_activity`` stands for."""
    return {"on": USUAL_ACTIVITY, "off": ()}.get(chosen, tuple(chosen.split(",")))

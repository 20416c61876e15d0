"""Runs a worker of the sinks: from a broker that may not be there yet to an orderly end."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS, TOPICS
from dutycycle.kafka.faust.port import WorkerPort
from dutycycle.kafka.faust.runner import run_app
from dutycycle.kafka.membership import verify_membership
from dutycycle.kafka.reachability import StoppedError, run_until, wait_for_topics
from dutycycle.kube.client import Limits
from dutycycle.kube.objects import connect
from dutycycle.telemetry.events import SINK, Telemetry
from sinks.analyses import check_analyses
from sinks.annotations.core import desired
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from sinks.app import SinksApp, app_id, group_protocol
from sinks.base import Sink
from sinks.deadletters import DeadLetters
from sinks.events import ANNOTATIONS_OFF, SINK_AWAY
from sinks.records.location import default_records_url
from sinks.records.prices import PriceList
from sinks.records.rollup import Retention
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore, RecordsUnreachableError
from sinks.thread import in_thread

_CLOSE_S = 3.0


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Work until ``stop`` is set, which takes effect at any moment; returns within 20 s of it.

    A database server that does not answer is waited for. Raises ``DutycycleError`` where the start is refused
    (a database that cannot be written, an API server that was asked for and is not there), or the worker has
    failed and must be started again.
    """
    store = RecordsStore(
        settings.records or default_records_url(),
        prices=PriceList.of(settings),
        retention=Retention.of(settings),
    )
    # Open the API server to annotate through; None, said once, where annotations are off or there is none
    if settings.annotations == "on" and settings.kubernetes == "off":
        raise SettingError("DUTYCYCLE_ANNOTATIONS=on needs the API server, but DUTYCYCLE_KUBERNETES=off")
    off = "off" in (settings.annotations, settings.kubernetes)
    needed = settings.annotations == "on"
    mode, asked_by = ("on", "DUTYCYCLE_ANNOTATIONS=on") if needed else (settings.kubernetes, "")
    limits = Limits(requests_per_s=settings.annotation_rate)
    mode = "off" if off else mode
    server = await connect(mode, asked_by=asked_by, limits=limits, user_agent="dutycycle-sink")
    if server is None:
        detail = "by the settings" if off else "this is no Kubernetes pod, and KUBECONFIG is not set"
        telemetry.emit(ANNOTATIONS_OFF, detail, reason="off" if off else "no_api_server")
    check_analyses(SINK, settings, telemetry)
    status = telemetry.status
    try:
        status.waiting = "waiting for the database"
        await run_until(stop, _opened(store, telemetry))
        status.waiting = f"waiting for the broker at {settings.broker}"
        await run_until(stop, wait_for_topics(settings, telemetry, ALIKE_TOPICS, outputs=_DERIVED))
        await run_until(stop, verify_membership(settings, app_id(settings), group_protocol(settings)))
    except StoppedError:
        store.close()
        if server is not None:
            await server.close()
        return

    def make(letters: DeadLetters, port: WorkerPort) -> Sequence[Sink]:
        records = RecordsSink(store, letters, telemetry)
        if server is None:
            return [records]
        policy = WritePolicy.of(settings)
        return [records, AnnotationSink(server, policy, letters, telemetry, may_write=port.may_write)]

    sinks = SinksApp(settings, make, telemetry)
    writing = asyncio.create_task(sinks.write())
    try:
        await run_app(sinks.app, stop, last_work=sinks.dispatcher.drain)
    finally:
        writing.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(
                    *(sink.close() for sink in sinks.dispatcher.sinks), return_exceptions=True
                )


async def _opened(store: RecordsStore, telemetry: Telemetry) -> None:
    """Open the database; one whose server does not answer is waited for, and that is said."""
    backoff = Backoff()
    while True:
        try:
            await in_thread(store.open)
        except RecordsUnreachableError as error:
            telemetry.raise_condition(SINK_AWAY, RecordsSink.name, f"{error}; trying again")
            await asyncio.sleep(backoff.next_s())
        else:
            telemetry.clear_condition(SINK_AWAY, RecordsSink.name, f"{store.name} answers")
            return


_DERIVED = tuple(
    name
    for name, topic in TOPICS.items()
    if name not in ALIKE_TOPICS and (not topic.internal or name in desired.TOPICS)
)

"""Runs a worker of the streams: from a broker that may not be there yet to an orderly end."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.faust import logs
from dutycycle.kafka.faust.runner import run_app
from dutycycle.kafka.membership import verify_membership
from dutycycle.kafka.reachability import StoppedError, run_until, wait_for_topics
from dutycycle.telemetry import events
from dutycycle.telemetry.events import Telemetry
from streams.app import app_id, changelog_topics, create_streams_app, group_protocol
from streams.names import split_topics
from streams.operators.base import Stage
from streams.runtime import events as state_events
from streams.runtime.metrics import STUCK_S
from streams.topology import stages as all_stages


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Work until ``stop`` is set, which takes effect at any moment; returns within 20 s of it.

    Raises ``DutycycleError`` where the start is refused or the worker has failed and must be started again.
    """
    await run_stages(settings, all_stages(settings), telemetry, stop)


async def run_stages(
    settings: Settings, stages: Sequence[Stage], telemetry: Telemetry, stop: asyncio.Event
) -> None:
    """Do as ``run``, for any list of stages."""
    telemetry.expect(
        events,
        state_events,
        logs,
        topic=[stage.source for stage in stages],
        stage=[stage.name for stage in stages],
    )
    status = telemetry.status
    with suppress(StoppedError):
        status.waiting = f"waiting for the broker at {settings.broker}"
        alike, outputs = split_topics(stage.source for stage in stages)
        changelogs = changelog_topics(settings, stages)
        partitions = await run_until(
            stop, wait_for_topics(settings, telemetry, alike, outputs=outputs, changelogs=changelogs)
        )
        await run_until(stop, verify_membership(settings, app_id(settings), group_protocol(settings)))
        streams = create_streams_app(settings, stages, telemetry, partitions)
        overdue_s = STUCK_S + 2 * settings.snapshot_interval
        status.ready["commits"] = lambda: streams.coordinator.metrics.overdue(overdue_s)
        committing = asyncio.create_task(streams.commit_steadily(settings.snapshot_interval))
        try:
            await run_app(streams.app, stop, last_work=streams.coordinator.commit)
        finally:
            committing.cancel()

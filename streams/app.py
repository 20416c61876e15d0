"""Makes the Faust app of the streams: per stage a table, a task and an agent; one coordinator commits."""

import asyncio
import ctypes
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from dutycycle.contract.settings.groups import OperatorSettings, Settings, StreamSettings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.faust.agent import add_agent
from dutycycle.kafka.faust.app import ExactApp, create_app
from dutycycle.kafka.membership import name_protocol
from dutycycle.telemetry.events import Telemetry
from streams.names import changelog_name
from streams.operators.base import Stage
from streams.runtime.checkpoint import CheckpointCoordinator
from streams.runtime.faust_port import FaustStreamsPort, add_table
from streams.runtime.stage_task import StageTask
from streams.source_logs import SourceLogs

_FLUSH_S = 2.0
"""So often coalesced outputs are sent."""
TRIM_S = 2.0
"""So often free memory is given back."""
_COMMIT_SHARE = 4
"""The pauses of a commit are at least this many times as long as it takes without them: at most a fifth of
the time goes into commits, and large states are stored less often."""
_STATE_BYTES_PER_S = 500_000
"""Commits write at most this much on average. A state is written as a whole each time, and a recovery reads
what compaction has left of all that."""
_STATES_AT_ONCE = 16
"""The states of so many keys are stored together, or those of one partition: it costs some requests."""
_LONGEST_PAUSE_S = 60.0
"""The longest pauses: how long a commit waited for an unreachable broker says nothing about the next."""
_VERIFY_S = 300.0
"""So often the broker is asked whether others have written into our changelogs: well within the half hour in
which compaction leaves alone what they have superseded (``dutycycle.kafka.topics.CHANGELOG_CONFIG``)."""


_C = ctypes.CDLL(None)  # the C library of this process


async def _trim_heap() -> None:
    """Give the system back what is free, steadily, also while a commit is under way: glibc's malloc keeps it
    else, a third of a worker after a backlog.

    Takes some milliseconds with a thousand nodes. Other C libraries than glibc have no such function.
    """
    trim = getattr(_C, "malloc_trim", None)
    while trim is not None:
        await asyncio.sleep(TRIM_S)
        trim(0)


def pause_s(interval_s: float, took_s: float, written_bytes: int) -> float:
    """Return seconds of the commit after one that took ``took_s`` and wrote states of ``written_bytes``."""
    wanted_s = max(took_s * _COMMIT_SHARE, written_bytes / _STATE_BYTES_PER_S)
    return max(interval_s, min(wanted_s, _LONGEST_PAUSE_S))


def app_id(settings: Settings) -> str:
    """Return the consumer group of the streams."""
    return f"{settings.topic_prefix}streams"


def group_protocol(settings: Settings) -> str:
    """Return what all workers of the streams have in common: every setting that decides what a result is."""
    names = {setting.name for group in (StreamSettings, OperatorSettings) for setting in fields(group)}
    return name_protocol(settings, names - {"snapshot_interval", "lost_state", "session_timeout"})


def changelog_topics(settings: Settings, stages: Sequence[Stage]) -> dict[str, str]:
    """Return full names of the changelogs: name of the source that must have as many partitions."""
    return {changelog_name(settings, stage.name): stage.source for stage in stages if not stage.stateless}


@dataclass(frozen=True, slots=True)
class StreamsApp:
    """Holds the app with the coordinator inside it."""

    app: ExactApp
    coordinator: CheckpointCoordinator
    logs: SourceLogs

    async def commit_steadily(self, interval_s: float) -> None:
        """Flush every two seconds and commit over ``interval_s``, more slowly where that is dear, until
        cancelled."""
        works = (
            self._flush_steadily(interval_s),
            self._commit_steadily(interval_s),
            _trim_heap(),
        )
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.gather(*tasks)
        except Exception as error:  # noqa: BLE001 - a worker that commits no longer would read on as if it did
            self.app.fail(f"commits ended: {error!r}")
        finally:
            for task in tasks:
                task.cancel()

    async def _flush_steadily(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(min(_FLUSH_S, interval_s))
            await self.coordinator.flush()

    async def _commit_steadily(self, interval_s: float) -> None:
        coordinator = self.coordinator
        over_s, verified = interval_s, time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_s):
                await coordinator.commit_due.wait()
        while True:
            await self.logs.verify_sources()
            before = coordinator.metrics.state_bytes
            took_s = await coordinator.commit_gradually(_STATES_AT_ONCE, over_s)
            over_s = pause_s(interval_s, took_s, coordinator.metrics.state_bytes - before)
            if time.monotonic() - verified > _VERIFY_S:
                verified = time.monotonic()
                await coordinator.verify_ownership()

    async def hand_over(self, *_: Any, **__: Any) -> None:
        """Commit what was taken, as the partitions are revoked, and keep nothing.

        If the group has given them to others already, what waits in the producer would come after theirs.
        """
        if self.coordinator.has_unsent and (reason := self.app.replaced()) is not None:
            self.coordinator.fail(reason)
            return
        await self.coordinator.commit()
        await self.app.exact_consumer.commit_all()
        self.coordinator.forget()

    async def begin_again(self) -> None:
        """Begin with the recovered tables: only they count. Called once, before reading goes on."""
        missing = self.logs.missing_states()
        if missing:
            self.app.fail(f"assigned {missing[0]} without its state: begun from nothing, it would be wrong")
        await self.logs.verify_states()
        await self.app.exact_consumer.pause_changelogs()
        # Faust now seeks, and then empties every queue: what it fetched in between would be lost (faust#596).
        self.app.flow_control.suspend()
        self.coordinator.begin()
        await self.logs.refuse_other_log()


def create_streams_app(
    settings: Settings,
    stages: Sequence[Stage],
    telemetry: Telemetry,
    partitions: dict[str, int],
) -> StreamsApp:
    """Return the app, not started. ``partitions`` has those of each changelog by its full name."""
    app = create_app(settings, app_id(settings), telemetry, group_protocol(settings))
    stateful = [stage for stage in stages if not stage.stateless]
    tables = {}
    for stage in stateful:
        changelog = changelog_name(settings, stage.name)
        tables[stage.name] = add_table(app, stage.name, changelog, partitions[changelog])
    topic_ids: dict[str, str] = {}
    port = FaustStreamsPort(app, settings, tables, topic_ids)
    tasks = [StageTask(stage, port, telemetry, settings.topic_prefix) for stage in stages]
    coordinator = CheckpointCoordinator(port, tasks, telemetry)
    app.next_offset, app.is_backpressured = coordinator.next_offset, coordinator.is_backpressured
    for task in tasks:
        add_agent(app, task.stage.source, partial(coordinator.process, task), name=task.stage.name)
    sources = {stage.name: full_name(settings.topic_prefix, stage.source) for stage in stateful}
    logs = SourceLogs(app, coordinator, sources, tables, port, settings, topic_ids)
    streams = StreamsApp(app, coordinator, logs)
    app.on_log_truncated, app.begins_anew = logs.refuse, logs.begins_anew
    for table in list(tables.values())[:1]:  # all are recovered before the first of them is called
        table.on_recover(streams.begin_again)
    app.on_partitions_revoked.connect(streams.hand_over)
    return streams

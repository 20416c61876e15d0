"""Runs ``dutycycle top``: follows the topics of a broker that others feed, and starts nothing."""

import asyncio

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.live.follow import ClusterFollower
from dutycycle.live.lines import say
from dutycycle.live.model.processes import local_processes
from dutycycle.live.model.state import LiveState
from dutycycle.live.picture import written
from dutycycle.live.show import show
from dutycycle.live.source import Source, WithPage
from dutycycle.process import stop_on_signals, stopped_within

_SETTLED_TICKS = 2.5
"""After so many intervals since the first sample every node has been heard."""
_LOOK_S = 0.1


async def top(settings: Settings, state: LiveState, with_page: WithPage) -> int:
    """Show until a key or a signal ends it."""
    stop = stop_on_signals()
    state.local = local_processes(settings)
    follower = ClusterFollower(settings, state)
    source = Source(state, "dutycycle top", f"broker: {settings.broker}", follower.problems, stop)
    ended = asyncio.Event()
    async with with_page(source, settings) as source:
        showing = asyncio.create_task(show(source, ended))
        reading = asyncio.create_task(follower.run(stop))
        try:
            await stop.wait()
            await reading
        finally:
            ended.set()
            await showing
    return 0


async def once(settings: Settings, state: LiveState, form: str, timeout_s: float) -> int:
    """Print one picture. Raises ``DutycycleError`` where no sample came in for ``timeout_s``."""
    stop = stop_on_signals()
    follower = ClusterFollower(settings, state)
    reading = asyncio.create_task(follower.run(stop))
    try:
        if await settled(follower, stop, timeout_s):
            say(written(state, follower.problems(), form))
        elif not stop.is_set():
            why = follower.away or "does a collector run, and is DUTYCYCLE_TOPIC_PREFIX right?"
            raise DutycycleError(f"no sample came in from {settings.broker} in {timeout_s:g} s: {why}")
    finally:
        stop.set()
        await reading
    return 0


async def settled(follower: ClusterFollower, stop: asyncio.Event, timeout_s: float) -> bool:
    """Wait until every node was heard once; whether one was, within ``timeout_s``."""
    state, end_s = follower.state, asyncio.get_running_loop().time() + timeout_s
    while not (state.ticks and follower.is_caught_up):
        if asyncio.get_running_loop().time() > end_s or await stopped_within(stop, _LOOK_S):
            return False
    interval_s = max((row.interval_ms for row in state.rows.values()), default=1000) / 1000
    return not await stopped_within(stop, _SETTLED_TICKS * interval_s)

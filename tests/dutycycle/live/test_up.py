"""When the time of ``up`` begins and ends."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dutycycle.live.children import Child
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.live.up import _run


class _Waiting(Child):
    """A child without a process: it waits to be stopped."""

    async def run(self) -> None:
        await self._stopping.wait()


async def _idle() -> None:
    """Nothing is left to be read."""


@pytest.mark.parametrize(("ending", "duration_s"), [("begun", 0.0), ("stopped", 600.0)])
async def test_a_duration_begins_when_the_streams_have_begun(
    ending: str, duration_s: float, tmp_path: Path
) -> None:
    sink, stream, collect = (_Waiting(name, {}, tmp_path / name) for name in ("sink", "stream", "collect"))
    source = Source(LiveState(), "title", "place", list, asyncio.Event())
    follower: Any = SimpleNamespace(run=lambda ended: ended.wait(), wait_until_idle=_idle)
    running = asyncio.create_task(_run([sink, stream, collect], follower, source, duration_s, None))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not collect._stopping.is_set(), "its loops are being compiled"
    (stream.begun if ending == "begun" else source.stop).set()
    assert await running is (ending == "stopped")

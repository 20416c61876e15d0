"""The annotation sink at work on the fake API server, behind a dispatcher."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from tests.support.fakes.api_server import FakeApi
from tests.support.sinks.rig import AtWork, Rig, at_work

POLICY = WritePolicy(interval_s=1)


@asynccontextmanager
async def annotating(
    api: FakeApi,
    rig: Rig | None = None,
    *,
    policy: WritePolicy = POLICY,
    timeout_s: float = 5.0,
    may_write: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[AtWork[AnnotationSink]]:
    """A sink that writes to the fake, behind a dispatcher."""
    rig = rig or Rig()
    sink = AnnotationSink(
        api.client(timeout_s), policy, rig.letters, rig.telemetry, may_write=may_write, clock=clock
    )
    try:
        async with at_work(rig, sink) as work:
            yield work
    finally:
        await sink.close()

"""``python -m tests.support.show_fleet 40``: the screen, of a fleet with so many GPUs, until ``q``."""

import asyncio
import sys
import time

from dutycycle.live.show import show
from dutycycle.live.source import Source
from tests.support.fleet import fleet

_AHEAD_MS = 3_600_000
"""The state's clock stands still for so long: nothing falls silent."""


async def main(gpus: int) -> None:
    """Show it; time stands still."""
    state = fleet(gpus, now_ms=time.time_ns() // 1_000_000 + _AHEAD_MS)
    source = Source(state, "dutycycle on gpu-a", "broker: kafka://kafka.example:9092", lambda: ())
    await show(source, source.stop)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

"""A toy stage whose result is known: per key, how many records and the sum of their numbers, with a trail.

Run as a program (``python -m tests.support.streams.toy``, settings in the environment) it is a worker.
"""

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import orjson

from dutycycle.contract.codec import DecodeError
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from streams.operators.base import CountedEvent, Emission, Operator, Snapshot, Stage
from streams.service import run_stages

SOURCE = "nvml-samples"
RESULT = "trends"
"""Settled: the newest count and sum of a key."""
TRAIL = "window-aggregates"
"""At once: one record for every tenth."""


class Counter(Operator):
    """Counts and adds. ``boom`` makes it fail halfway, ``bad`` is refused, ``pad`` makes its state large."""

    def __init__(self, key: str, snapshot: Snapshot | None) -> None:
        if snapshot is not None and snapshot["v"] != 1:
            raise ValueError(f"state of version {snapshot['v']}")
        self._key = key
        self._state: dict[str, Any] = (
            dict(snapshot) if snapshot else {"v": 1, "count": 0, "sum": 0, "last": -1, "pad": ""}
        )
        self._changed = False

    def update(self, record: ConsumerRecord) -> list[Emission]:
        if record.value is None or not record.value.startswith(b"{"):
            raise DecodeError(record.topic, "payload", Reason.DECODE, "no object")
        given = orjson.loads(record.value)
        self._state["count"] += 1
        if "boom" in given:
            raise RuntimeError("boom")
        self._state["sum"] += given["n"]
        self._state["pad"] = "".join(map(str, range(given.get("pad", 0)))) or self._state["pad"]
        self._changed = True
        emissions: list[Emission] = [CountedEvent("sample_late")] if given["n"] < self._state["last"] else []
        self._state["last"] = given["n"]
        if self._state["count"] % 10 == 0:
            emissions.append(self._out(TRAIL, record.ts_ms))
        return emissions

    def flush(self) -> list[Emission]:
        changed, self._changed = self._changed, False
        return [self._out(RESULT, self._state["count"])] if changed else []

    def close(self) -> list[Emission]:
        return self.flush()

    def snapshot(self) -> Snapshot:
        return dict(self._state)

    def _out(self, topic: str, ts_ms: int) -> ProducerRecord:
        return ProducerRecord(
            topic, self._key, orjson.dumps([self._state["count"], self._state["sum"]]), ts_ms
        )


STAGE = Stage(name="toy", source=SOURCE, build=Counter)


async def work(settings: Settings) -> None:
    """Run a worker until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, tell_tasks)
    print("hears SIGTERM", flush=True)
    telemetry = Telemetry("toy")
    try:
        await run_stages(settings, [STAGE], telemetry, stop)
    finally:
        print({" ".join((name, *labels)): n for (name, labels), n in telemetry.counts.items()}, flush=True)


def tell_tasks() -> None:
    """Where every task waits, on stderr: what to look at in a worker that does nothing."""
    for task in asyncio.all_tasks():
        task.print_stack(limit=6)
    sys.stderr.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    try:
        asyncio.run(work(load(os.environ)))
    except DutycycleError as error:
        sys.exit(f"dutycycle: {error}")

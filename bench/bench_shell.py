"""What the exact-state shell costs per record, beside an empty Faust agent, in one run on one machine.

    python -m bench.bench_shell [--records 40000] [--keys 200] [--rounds 5]

Each variant is a worker process of its own on the embedded broker, reading the same records; measured is its
CPU time from its first record to its last, all threads. The operator keeps 2 kB of state per key and does
next to nothing, so that the difference to the empty agent is the shell.

Variants take turns, round after round. The ratio is the middle one of those taken within a round: what else
runs on the machine then weighs on both. The microseconds are the least of all rounds: it only ever adds.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.faust.app import create_app, raw_topic
from dutycycle.kafka.faust.runner import run_app
from dutycycle.kafka.producer import Producer
from dutycycle.telemetry.events import Telemetry
from streams.operators.base import Emission, Snapshot, Stage
from streams.service import run_stages

SOURCE = "nvml-samples"
VARIANTS = {
    "empty Faust agent": 0.0,
    "shell, no snapshots": 300.0,
    "shell, snapshots every second": 1.0,
    "the same, keys that are idle leave": 1.0,
}
"""Seconds between two commits; 0 for no shell at all."""
EVICT_MS = {"the same, keys that are idle leave": 86_400_000}
"""A record is a second later than the one before it, so that idle keys are looked for at every 3,600th."""


class Meter:
    """Sees records go by; sets ``done`` at the last of them, with ``us_per_record`` of CPU time."""

    def __init__(self, records: int) -> None:
        self._left = self._records = records
        self._began = 0.0
        self.done = asyncio.Event()
        self.us_per_record = 0.0

    def tick(self) -> None:
        if self._left == self._records:
            self._began = time.process_time()
        self._left -= 1
        if self._left == 0:
            self.us_per_record = (time.process_time() - self._began) / self._records * 1e6
            self.done.set()


class Holder:
    """An operator that holds 2 kB and counts."""

    def __init__(self, meter: Meter, snapshot: Snapshot | None) -> None:
        self._meter = meter
        self._state = snapshot or {"v": 1, "count": 0, "columns": [index * 1.5 for index in range(400)]}

    def update(self, record: ConsumerRecord) -> list[Emission]:
        self._state["count"] += 1
        self._meter.tick()
        return []

    def flush(self) -> list[Emission]:
        return []

    def close(self) -> list[Emission]:
        return []

    def snapshot(self) -> Snapshot:
        return self._state


async def shell(settings: Settings, meter: Meter, evict_ms: int | None) -> None:
    stage = Stage(
        name="bench", source=SOURCE, build=lambda key, snapshot: Holder(meter, snapshot), evict_ms=evict_ms
    )
    await run_stages(settings, [stage], Telemetry("bench"), meter.done)


async def empty(settings: Settings, meter: Meter) -> None:
    app = create_app(settings, settings.topic_prefix + "empty", Telemetry("bench"))

    async def read(stream: object) -> None:
        async for _ in stream.noack().events():  # type: ignore[attr-defined] # Faust's stream
            meter.tick()

    app.agent(raw_topic(app, settings.topic_prefix + SOURCE), name="empty")(read)
    await run_app(app, meter.done)


async def variant(broker: str, name: str, records: int) -> None:
    meter, interval = Meter(records), VARIANTS[name]
    settings = Settings(broker=broker, topic_prefix="bench.", snapshot_interval=interval or 1.0, partitions=4)
    await (shell(settings, meter, EVICT_MS.get(name)) if interval else empty(settings, meter))
    print(json.dumps(meter.us_per_record))


async def fill(broker: str, records: int, keys: int) -> None:
    settings = Settings(broker=broker, topic_prefix="bench.")
    producer = Producer(settings, "bench")
    await producer.start()
    for number in range(records):
        await producer.send("bench." + SOURCE, f"node-{number % keys}", b'{"n":%d}' % number, 1_000 * number)
    await producer.stop()


def measure(name: str, records: int, keys: int) -> float:
    """CPU microseconds per record of one variant."""
    topics = ["bench." + topic for topic in TOPICS] + ["bench.state-bench"]
    # A broker of its own for each: groups and changelogs begin empty.
    with EmbeddedBroker(dict.fromkeys(topics, 4)) as broker:
        asyncio.run(fill(broker.url, records, keys))
        command = [sys.executable, "-m", "bench.bench_shell", "--variant", name, "--broker", broker.url]
        done = subprocess.run(
            [*command, "--records", str(records)], check=True, stdout=subprocess.PIPE, text=True
        )
        return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=40_000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variant", choices=list(VARIANTS), help=argparse.SUPPRESS)
    parser.add_argument("--broker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        asyncio.run(variant(options.broker, options.variant, options.records))
        return
    rounds = [
        {name: measure(name, options.records, options.keys) for name in VARIANTS}
        for _ in range(options.rounds)
    ]
    for name in VARIANTS:
        ratios = sorted(one[name] / one["empty Faust agent"] for one in rounds)
        print(
            f"{name:36s} {min(one[name] for one in rounds):7.1f} µs/record   "
            f"{statistics.median(ratios):5.2f} × empty ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()

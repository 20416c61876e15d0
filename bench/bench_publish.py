"""What publishing costs: CPU a record and records a second, to a broker and through the spool.

    python bench/bench_publish.py                         # the embedded broker
    python bench/bench_publish.py --broker kafka://host:9092

Each record is a whole tick of a node with 8 GPUs, values drawn by a seeded generator. Run it twice: the
figures of a busy machine differ by a third.
"""

import argparse
import asyncio
import random
import resource
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from collectors.base import Outgoing
from collectors.publish.link import KafkaLink
from collectors.publish.outbox import Outbox
from collectors.publish.publisher import Publisher
from collectors.publish.spool import Spool
from dutycycle.contract.codec import encode
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.reachability import Reachability
from dutycycle.kafka.topics import ensure_topics
from dutycycle.telemetry.events import Telemetry

MIB = 1024**2
GPUS = 8


def ticks(count: int, nodes: int) -> list[Outgoing]:
    """``count`` ticks over ``nodes`` nodes, each of 8 GPUs with bursts."""
    source = random.Random(7)  # noqa: S311 - not a secret
    return [_tick(source, f"gpu-{n % nodes:03}", n // nodes) for n in range(count)]


def _tick(source: random.Random, node: str, seq: int) -> Outgoing:
    gpus = tuple(_gpu(source, node, index) for index in range(GPUS))
    ts_ms = 1_700_000_000_000 + 1000 * seq
    sample = NvmlSample(node=node, collector="0" * 32, seq=seq, ts_ms=ts_ms, interval_ms=1000, gpus=gpus)
    return Outgoing(topic="nvml-samples", key=node, payload=encode(sample), ts_ms=ts_ms)


def _gpu(source: random.Random, node: str, index: int) -> Gpu:
    burst = tuple((-1000 + 166 * n, source.randint(80, 100)) for n in range(6))
    return Gpu(
        uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, node + str(index))}", index=index, model="NVIDIA H200",
        gpu_util_pct=source.randint(80, 100), mem_copy_util_pct=source.randint(20, 60),
        mem_used_bytes=source.randrange(10**11), mem_total_bytes=150_754_820_096,
        power_w=round(source.uniform(300, 700), 1), power_limit_w=700,
        energy_j=round(source.uniform(1e6, 1e9), 1), temp_c=source.randint(40, 80),
        sm_clock_mhz=1980, mem_clock_mhz=3201, util_burst=burst, throttle=(),
    )  # fmt: skip


class Meter:
    """Prints what a stretch of work cost, by record."""

    def __init__(self, what: str, records: int) -> None:
        self._what, self._records = what, records
        self._wall, self._cpu = time.perf_counter(), _cpu_s()

    def stop(self, extra: str = "") -> None:
        wall, cpu = time.perf_counter() - self._wall, _cpu_s() - self._cpu
        each = 1e6 / self._records
        figures = f"{self._records / wall:9.0f}/s {wall * each:8.1f} µs wall {cpu * each:8.1f} µs CPU"
        print(f"{self._what:32} {figures} {extra}")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def bench_producer(settings: Settings, records: Sequence[Outgoing], compression: str) -> None:
    """The bare producer, batches awaited by 2,000."""
    producer = Producer(settings, "bench", linger_ms=20, compression=compression)
    await producer.start()
    topic = full_name(settings.topic_prefix, "nvml-samples")
    meter = Meter(f"producer, {compression}", len(records))
    for first in range(0, len(records), 2000):
        part = records[first : first + 2000]
        await producer.settle([await producer.send(topic, one.key, one.payload, one.ts_ms) for one in part])
    meter.stop()
    await producer.stop()


async def bench_publisher(settings: Settings, records: Sequence[Outgoing], folder: Path) -> None:
    """The collector's publisher: first straight from memory, then everything through a left-over spool."""
    await _drain("publisher, from memory", settings, folder / "a", records, records)
    with Spool(folder / "b", 1024 * MIB) as spool:
        meter = Meter("spool, append by ticks of 3", len(records))
        for first in range(0, len(records), 3):
            spool.append(records[first : first + 3])
        size = sum(path.stat().st_size for path in (folder / "b").iterdir())
        meter.stop(f"{size / len(records):.0f} bytes a record on disk")
    await _drain("publisher, from the spool", settings, folder / "b", (), records)


async def _drain(
    what: str, settings: Settings, folder: Path, given: Sequence[Outgoing], records: Sequence[Outgoing]
) -> None:
    telemetry = Telemetry("bench")
    outbox = Outbox(Spool(folder, 1024 * MIB), telemetry, 1024 * MIB)
    publisher = Publisher(
        outbox, telemetry, Reachability(settings, telemetry), lambda: KafkaLink.open(settings)
    )
    meter = Meter(what, len(records))
    publisher.publish(given)
    publisher.start()
    await publisher.close(300)
    meter.stop(f"{dict(telemetry.counts) or ''}")


def bench_compression(records: Sequence[Outgoing]) -> None:
    """Bytes a record and CPU of each codec, on batches of 50 ticks of one node and of many."""
    import cramjam

    codecs: dict[str, Callable[[bytes], object]] = {
        "zstd": cramjam.zstd.compress,
        "lz4": cramjam.lz4.compress,
    }
    for name, compress in codecs.items():
        batches = [b"".join(one.payload or b"" for one in records[n : n + 50]) for n in range(0, 1000, 50)]
        meter = Meter(f"{name} alone", 1000)
        sizes = [len(bytes(compress(batch))) for batch in batches]  # type: ignore[call-overload]
        meter.stop(f"{sum(sizes) / 1000:.0f} of {sum(map(len, batches)) / 1000:.0f} bytes a record")


async def run(url: str | None, count: int) -> None:
    with ExitStack() as stack:
        if url is None:
            topics = {full_name("bench.", name): 8 for name in SAMPLE_TOPICS}
            url = stack.enter_context(EmbeddedBroker(topics)).url
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = load_settings(
            {"DUTYCYCLE_BROKER": url, "DUTYCYCLE_TOPIC_PREFIX": "bench.", "DUTYCYCLE_NODE": "bench"}
        )
        await ensure_topics(settings, SAMPLE_TOPICS)
        records = ticks(count, nodes=50)
        print(f"{count} ticks of {GPUS} GPUs, {len(records[0].payload or b'')} bytes each")
        bench_compression(records)
        for compression in ("zstd", "lz4"):
            await bench_producer(settings, records, compression)
        await bench_publisher(settings, records, folder)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", help="default: the embedded broker")
    parser.add_argument("--count", type=int, default=20_000)
    args = parser.parse_args()
    asyncio.run(run(args.broker, args.count))


if __name__ == "__main__":
    main()

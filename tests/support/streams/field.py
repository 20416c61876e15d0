"""Workers in processes of their own, a feed whose result is known, and the judge of what came out."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.support.processes.commands import environ, mortal
from tests.support.streams.toy import RESULT, SOURCE, TRAIL
from tests.support.waiting import DEADLINE_S, until

KEYS = 20
PARTITIONS = 4
_TOY = (sys.executable, "-m", "tests.support.streams.toy")


class Worker(NamedTuple):
    """One worker process, and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    async def hears(self) -> None:
        """Wait until it has installed its signal handlers."""
        await until(lambda: "hears SIGTERM" in self.log.read_text())

    def terminate(self) -> tuple[int, float]:
        """SIGTERM; its exit status and the seconds it took."""
        began = time.monotonic()
        self.process.terminate()
        return self.process.wait(240), time.monotonic() - began


class Field:
    """A prefix on a broker, with workers, a feed and a judge. Ends every worker when it is left."""

    def __init__(self, broker_url: str, prefix: str, folder: Path) -> None:
        self._env = environ(
            broker=broker_url, topic_prefix=prefix, session_timeout="6s", partitions=str(PARTITIONS),
            snapshot_interval="400ms", listen="off",
        )  # fmt: skip
        self._prefix = prefix
        self._folder = folder
        self._bootstrap = broker_url.removeprefix("kafka://")
        self._paths: dict[str, list[list[int]]] = defaultdict(lambda: [[0, 0]])
        self._made = 0
        self.workers: list[Worker] = []
        self._running = ExitStack()
        self._results = 0
        self._reader = AIOKafkaConsumer(bootstrap_servers=self._bootstrap)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            enable_idempotence=True,
            linger_ms=5,
            max_request_size=8_000_000,
        )

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._reader.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._running.close()
        await self._reader.stop()
        await self._producer.stop()

    def start_worker(self) -> Worker:
        log = self._folder / f"worker-{len(self.workers)}.log"
        process = self._running.enter_context(mortal(env=self._env, log=log, start=_TOY))
        self.workers.append(Worker(process, log))
        return self.workers[-1]

    def logs(self) -> str:
        """What the workers said and where those that live wait now, to go with a failure."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return "\n".join(worker.log.read_text() for worker in self.workers)

    async def progress(self) -> None:
        """Wait until the workers have begun a commit since the last call: results are sent first."""

        async def more() -> bool:
            return await self._count() > self._results

        await until(more, lambda: f"new results\n{self.logs()}")
        self._results = await self._count()

    async def _count(self) -> int:
        places = [TopicPartition(self._prefix + RESULT, number) for number in range(PARTITIONS)]
        try:
            return sum((await self._reader.end_offsets(places)).values())
        except KafkaError:  # not created yet, or the broker is away
            return 0

    async def feed(self, records: int, per_s: float) -> None:
        """Send numbers to the source topic at a pace."""
        for _ in range(records):
            number, key = self._made, f"k{self._made % KEYS}"
            self._made += 1
            count, total = self._paths[key][-1]
            self._paths[key].append([count + 1, total + number])
            value = orjson.dumps({"n": number})
            await self._producer.send(self._prefix + SOURCE, value, key=key.encode())
            await asyncio.sleep(1 / per_s)
        await self._producer.flush()

    async def send_raw(self, key: bytes, value: bytes) -> None:
        """A record that is no part of the sums."""
        await self._producer.send_and_wait(self._prefix + SOURCE, value, key=key)

    async def judge(self, dead_letters: Sequence[str] = ()) -> None:
        """Wait until every key's newest result is the whole sum, and nothing ever left its path.

        ``dead_letters`` are the reasons of those that have to be there, in alphabetic order.
        """
        reader = AIOKafkaConsumer(
            self._prefix + RESULT, self._prefix + TRAIL, self._prefix + "dead-letters",
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest",
        )  # fmt: skip
        found = _Found()
        async with reader:
            with suppress(TimeoutError):
                async with asyncio.timeout(DEADLINE_S):
                    while not (
                        (found.newest, found.trail) == (self._newest(), self._trail())
                        and len(found.dead_letters) >= len(dead_letters)
                    ):
                        found.add(await reader.getmany(timeout_ms=300))
        assert found.newest == self._newest(), f"not the sums: {self._astray(found)}\n{self.logs()}"
        assert found.trail == self._trail(), f"outputs are missing:\n{self.logs()}"
        assert sorted(found.dead_letters) == list(dead_letters)
        for key, outputs in found.everything.items():
            strange = [output for output in outputs if output not in self._paths[key]]
            assert not strange, f"{key}: never was {strange}:\n{self.logs()}"

    def _astray(self, found: "_Found") -> dict[str, Any]:
        """Per key that is wrong: the sum wanted, the last outputs in the log's order, and their places."""
        wanted = self._newest()
        return {
            key: {"wanted": wanted[key], "found": found.everything[key][-5:], "at": found.places[key][-5:]}
            for key in sorted(wanted)
            if found.newest.get(key) != wanted[key]
        }

    def _newest(self) -> dict[str, list[int]]:
        return {key: path[-1] for key, path in self._paths.items()}

    def _trail(self) -> dict[str, list[list[int]]]:
        return {key: path[10::10] for key, path in self._paths.items()}


class _Found:
    def __init__(self) -> None:
        self.newest: dict[str, list[int]] = {}
        self.trail: dict[str, list[list[int]]] = defaultdict(list)
        self.everything: dict[str, list[list[int]]] = defaultdict(list)
        self.places: dict[str, list[str]] = defaultdict(list)
        self.dead_letters: list[str] = []

    def add(self, batches: dict[Any, list[Any]]) -> None:
        for place, batch in batches.items():
            for message in batch:
                if place.topic.endswith("dead-letters"):
                    self.dead_letters.append(orjson.loads(message.value)["reason"])
                else:
                    key = message.key.decode()
                    self.places[key].append(f"{place.topic}-{place.partition}@{message.offset}")
                    self._add(place.topic, key, orjson.loads(message.value))

    def _add(self, topic: str, key: str, output: list[int]) -> None:
        self.everything[key].append(output)
        if topic.endswith(TRAIL):
            if output not in self.trail[key]:
                self.trail[key].append(output)
        else:
            self.newest[key] = output

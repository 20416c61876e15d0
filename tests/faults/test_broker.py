"""The broker stopped, started, killed and started again under load: collector, stream and sink go on."""

import asyncio
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.codec import encode
from sinks.records.query import job_peaks, node_peaks, pod_peaks
from sinks.records.store import RecordsRefusedError
from tests.support.data.traces import read_trace
from tests.support.fakes.nvml import library
from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario, square
from tests.support.faults.field import Field
from tests.support.faults.oracle import Series, replayed
from tests.support.faults.supervised import Supervised
from tests.support.faults.world import World, records
from tests.support.processes.commands import dutycycle
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

NODE = "gpu-real"
OUTAGES = 2
PER_S = 25.0
SAMPLES = ("nvml-samples", "cgroup-samples")


@pytest.fixture
def child() -> Iterator[int]:
    """The pid of a process that is there for the fake driver to name."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def with_gpu(env: dict[str, str], pid: int, folder: Path) -> dict[str, str]:
    """``env`` of a collector that finds one GPU, which ``pid`` uses in steps of 4 s."""
    gpu = FakeGpu(
        uuid="GPU-1",
        values={"util": square(4, 0.5, 5, 95), "mem_total": 80e9, "mem_used": 20e9},
        processes=[FakeProcess(pid=pid, util=square(4, 0.5, 3, 91), mem=19e9)],
    )
    seen = library.env(library.build(), Scenario(gpus=[gpu]).write(folder / "scenario"))
    return env | {name: seen[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML_SCENARIO")}


async def outages(field: Field, kafka: RunningBroker) -> None:
    """Stop it, then kill it, and so on, for some seconds each; everybody goes on in between."""
    for number in range(OUTAGES):
        await field.progress()
        await field.some_time(0, 2)
        await asyncio.to_thread(kafka.kill if number % 2 else kafka.stop)
        await field.some_time(1, 6)
        await asyncio.to_thread(kafka.start)
    await field.progress()


def left_out(collector: Supervised) -> int:
    """How many ticks the collector says that it left out: busy with the one before, or no answer."""
    where = re.findall(r"http://127\.0\.0\.1:\d+", collector.log)[-1]
    with urllib.request.urlopen(f"{where}/metrics", timeout=60) as answer:  # noqa: S310 - our own, on loopback
        lines = answer.read().decode().splitlines()
    failed = [line for line in lines if line.startswith("dutycycle_collector_failed_total")]
    slow = [line for line in failed if 'reason="slow"' in line or 'reason="no_answer"' in line]
    return sum(int(float(line.split()[-1])) for line in slow)


def assert_whole(trace: Path, slow: int) -> str:
    """The ticks of the collector's one run are all there and in order, but for the ``slow``; in words."""
    ticks: dict[str, list[tuple[str, int]]] = {topic: [] for topic in SAMPLES}
    for one in read_trace(str(trace)):
        topic = one.topic.rpartition(".")[2]
        if one.key == NODE and topic in SAMPLES:
            plain = orjson.loads(one.payload or b"")
            ticks[topic].append((plain["collector"], plain["seq"]))
    holes = 0
    for topic, found in ticks.items():
        assert len({collector for collector, _ in found}) == 1, topic
        numbers = list(dict.fromkeys(seq for _, seq in found))
        assert numbers == sorted(numbers), f"{topic}: {numbers}"
        holes += numbers[-1] + 1 - len(numbers)
    assert holes <= slow + 2, f"{holes} ticks are missing, {slow} were left out"  # some since that was read
    counts = " and ".join(str(len(found)) for found in ticks.values())
    return f"{counts} ticks of one collector in order, {holes} missing of which it left out {slow}"


def kept(url: str) -> dict[Series, bytes]:
    """The records in the database: of each series the last one."""
    try:
        pods, jobs, nodes = pod_peaks(url), job_peaks(url), node_peaks(url)
    except RecordsRefusedError:  # the sink has not made its tables yet
        return {}
    found = {("pod-peaks", one.pod.uid, ""): encode(one) for one in pods}
    found |= {("job-peaks", one.job.uid, ""): encode(one) for one in jobs}
    return found | {("node-peaks", one.node, one.source): encode(one) for one in nodes}


async def test_outages_change_nothing(
    kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path, child: int,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    began = time.monotonic()
    more = {"records": postgres_url, "node": NODE, "interval": "500ms", "containers": "all",
            "kubernetes": "off", "spool": str(tmp_path / "spool"), "listen": ":0"}  # fmt: skip
    async with Field(kafka, topic_prefix, tmp_path, seed=41, **more) as field:
        env = with_gpu(field.env, child, tmp_path)
        async with (
            Supervised(["sink"], env, tmp_path / "sink.log") as sink,
            Supervised(["collect"], env, tmp_path / "collect.log") as collector,
        ):
            feed = await field.feed(list(records(World(nodes=4, seconds=240, turn_s=80))), PER_S)
            await field.worker()
            await outages(field, kafka)
            assert feed.flows, "samples ran out before the last outage"
            await feed.finish()
            slow = await asyncio.to_thread(left_out, collector)
            await collector.end()
            trace = tmp_path / "recorded.jsonl.zst"
            await asyncio.to_thread(dutycycle, "record", "--out", trace, "--from", "1000000000000", env=env)
            whole = assert_whole(trace, slow)
            expected = await asyncio.to_thread(replayed, trace, tmp_path, topic_prefix)
            report = await field.judge(expected)
            wanted = {name: of[-1] for name, of in expected.items() if name[0].endswith("-peaks")}
            await until(lambda: kept(postgres_url) == wanted, lambda: f"{len(wanted)} records: {sink.log}")
        assert not collector.failures, collector.log
        ends = f"unasked ends of sink {sink.failures}"
        tell(
            f"{OUTAGES} outages, {whole}; {report}; {len(wanted)} records in PostgreSQL: equal; {ends}; "
            f"{time.monotonic() - began:.0f} s"
        )

"""The broker stopped, started, killed and started again under load: collector, stream and sink go on."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from dutycycle.contract.codec import encode
from sinks.records.query import job_peaks, node_peaks, pod_peaks
from sinks.records.store import RecordsRefusedError
from tests.support.data.traces import read_trace
from tests.support.fakes.nvml.library import driver
from tests.support.fakes.nvml.one_used import used_in_steps
from tests.support.faults.field import Field
from tests.support.faults.oracle import Series, replayed
from tests.support.faults.supervised import Supervised
from tests.support.faults.world import World, records
from tests.support.processes.commands import dutycycle
from tests.support.processes.figures import read_page
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


def left_out(log: Path) -> int:
    """How many ticks the collector says that it left out: busy with the one before, or no answer."""
    lines = read_page(log).splitlines()
    assert "dutycycle_healthy 1.0" in lines
    failed = [line for line in lines if line.startswith("dutycycle_collector_failed_total")]
    slow = [line for line in failed if 'reason="slow"' in line or 'reason="no_answer"' in line]
    return sum(int(float(line.split()[-1])) for line in slow)


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
    more = {"records": postgres_url, "node": NODE, "interval": "500ms", "containers": "all",
            "kubernetes": "off", "spool": str(tmp_path / "spool"), "listen": ":0"}  # fmt: skip
    async with Field(kafka, topic_prefix, tmp_path, seed=41, **more) as field:
        env = field.env | driver(used_in_steps(child).write(tmp_path / "scenario"))
        async with (
            Supervised(["sink"], env, tmp_path / "sink.log") as sink,
            Supervised(["collect"], env, tmp_path / "collect.log") as collector,
        ):
            feed = await field.feed(list(records(World(nodes=4, seconds=240, turn_s=80))), PER_S)
            await field.worker()
            for number in range(OUTAGES):
                await field.progress()
                await field.some_time(0, 2)
                await asyncio.to_thread(kafka.kill if number % 2 else kafka.stop)
                await field.some_time(1, 6)
                await asyncio.to_thread(kafka.start)
            await field.progress()
            assert feed.flows, "samples ran out before the last outage"
            await feed.finish()
            slow = await asyncio.to_thread(left_out, tmp_path / "collect.log")
            await collector.end()
            trace = tmp_path / "recorded.jsonl.zst"
            await asyncio.to_thread(dutycycle, "record", "--out", trace, "--from", "1000000000000", env=env)
            # The ticks of the collector's one run are all there and in order, but for the slow ones.
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
            # Some were left out since that was read.
            assert holes <= slow + 2, f"{holes} ticks are missing, {slow} were left out"
            counts = " and ".join(str(len(found)) for found in ticks.values())
            whole = f"{counts} ticks of one collector in order, {holes} missing of which it left out {slow}"
            expected = await asyncio.to_thread(replayed, trace, tmp_path, topic_prefix)
            report = await field.judge(expected)
            wanted = {name: of[-1] for name, of in expected.items() if name[0].endswith("-peaks")}
            await until(lambda: kept(postgres_url) == wanted, lambda: f"{len(wanted)} records: {sink.log}")
        assert not collector.failures, collector.log
        ends = f"unasked ends of sink {sink.failures}"
        tell(f"{OUTAGES} outages, {whole}; {report}; {len(wanted)} records in PostgreSQL: equal; {ends}")

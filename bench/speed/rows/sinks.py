"""The sinks: peaks into PostgreSQL; annotations that are needed, and those that a real server takes."""

import asyncio
import signal
import time
from collections.abc import Iterator

from bench.speed.annotations import simulate, write_to_server
from bench.speed.bench import Bench
from bench.speed.cluster import Sample, Topics
from bench.speed.worker import own_command, total, working
from dutycycle.contract.codec import encode
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.topics import ensure_topics
from sinks.app import app_id
from tests.support.servers.postgres import Postgres
from tests.support.sinks import made

_START_MS = 1_700_000_000_000
_PODS = 10_000
"""What is said of annotations is of so many."""


def postgres(bench: Bench) -> None:
    """``dutycycle sink`` reads a backlog of ``pod-peaks``, each of another pod that has a row already."""
    bench.note("postgres.how", f"{bench.size.peak_records:,} records, each of a pod that has a row")
    count, topics, server = bench.size.peak_records, Topics(bench.broker), Postgres()
    try:
        sink = own_command(
            "sink", records=server.new_database(), annotations="off", kubernetes="off", session_timeout="60s"
        )
        asyncio.run(ensure_topics(topics.settings, list(TOPICS)))
        with working(sink, topics, bench.folder, bench.last) as worker:
            for turn in (1, 2):
                worker.process.send_signal(signal.SIGSTOP)
                topics.fill(_peaks(count, turn))
                worker.process.send_signal(signal.SIGCONT)
                began_s, before_s = time.monotonic(), worker.cpu_s()
                worker.wait(lambda: topics.committed(app_id(topics.settings), "pod-peaks") >= turn * count)  # noqa: B023
            took_s, cpu_s = time.monotonic() - began_s, worker.cpu_s() - before_s
            assert total(worker.figures(), "writes_total") == 2 * count, "a record is a row"
    finally:
        server.discard()
    bench.add("postgres.records_per_s", count / took_s, "records/s")
    bench.add("postgres.cpu_us", cpu_s / count * 1e6, "µs of CPU a record")
    topics.delete()


def _peaks(pods: int, turn: int) -> Iterator[Sample]:
    """Each pod's peaks, larger than those of the turn before."""
    for number in range(pods):
        uid = f"00000000-0000-4000-8000-{number:012d}"
        metrics = {
            name: made.peak(10.0 * turn + number) for name in ("gpu_util_pct", "cpu_util_pct", "temp_c")
        }
        record = made.pod_peaks(uid, metrics=metrics, last_ms=10_000 * turn)
        yield "pod-peaks", uid, encode(record), _START_MS + turn


def annotations(bench: Bench) -> None:
    """PATCH/s that many pods need, by the clock of their records; and those that a kube-apiserver takes."""
    pods, seconds = bench.size.pods
    bench.note(
        "annotations.how",
        f"{pods:,} pods that live an hour on average, {seconds} s of their own time after as long, times "
        f"{_PODS // pods}: pods do not depend on one another. The real kube-apiserver has "
        f"{bench.size.objects:,} pods, written as fast as it goes",
    )
    bench.say(f"annotations: {pods} pods for {2 * seconds} s of their own time")
    needed = asyncio.run(simulate(pods, seconds, 1))
    times = _PODS / pods
    bench.add("annotations.patches_per_s", times * needed.patches_per_s, f"PATCH/s of {_PODS:,} pods")
    bench.add("annotations.cpu_pct", 100 * times * needed.core, "% of a core to decide")
    bench.say(f"annotations: {bench.size.objects} pods on a kube-apiserver with etcd")
    taken = asyncio.run(write_to_server(bench.size.objects, 2))
    bench.add("annotations.taken_per_s", taken[-1].objects_per_s, "PATCH/s taken by the server")
    bench.add("annotations.server_ms", taken[-1].server_ms, "ms of CPU a PATCH in API server and etcd")
    bench.add("annotations.sink_ms", taken[-1].sink_ms, "ms of CPU a PATCH in the sink")
